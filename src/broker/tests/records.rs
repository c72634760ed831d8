//! Records through the cluster: written by our producer, read by our reader, asked for by raw
//! requests.

use std::time::Duration;

use crate::Client;
use crate::broker::Cluster;
use crate::producer::Record;
use crate::protocol::records::Compression;

const TIMEOUT: Duration = Duration::from_secs(30);

fn client(kafka: &Cluster) -> Client {
    Client::builder(kafka.bootstrap()).build().expect("a client")
}

#[test]
fn what_is_produced_is_read_with_every_codec() {
    for codec in Compression::ALL {
        let kafka = Cluster::builder().brokers(2).topic("t", 2).start().expect("a cluster");
        let client = client(&kafka);
        let producer = client.producer().compression(codec).build().expect("a producer");
        for index in 0..1000 {
            let (key, value) = (format!("key-{index}"), format!("value-{index}"));
            let record = Record::to("t").partition(index % 2).key(&key).value(&value);
            producer.send(record.header("h", Some(b"1"))).expect("sent");
        }
        producer.flush(TIMEOUT).expect("flushed");
        for partition in 0..2 {
            let reader = client.read("t", partition, 0..500).expect("a range");
            let mut next = 0;
            for record in reader {
                let record = record.expect("a record");
                assert_eq!(record.offset(), next);
                let index = next * 2 + i64::from(partition);
                assert_eq!(record.key(), Some(format!("key-{index}").as_bytes()), "{codec}");
                assert_eq!(record.value(), Some(format!("value-{index}").as_bytes()), "{codec}");
                assert_eq!(record.headers().len(), 1);
                next += 1;
            }
            assert_eq!(next, 500, "{codec}");
        }
    }
}
