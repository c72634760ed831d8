//! The range reader against a scripted broker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::cluster::testing::{FakeKafka, Hooked};
use crate::protocol::messages::{
    FetchRequest, FetchResponse, FetchableTopicResponse, PartitionData,
};
use crate::protocol::records::{BatchBuilder, Compression, Compressor};
use crate::protocol::{ApiKey, Bytes};

const SOON: Duration = Duration::from_secs(20);

/// A batch with one record, at offset 0.
fn batch() -> Bytes {
    let mut builder = BatchBuilder::new(Vec::new());
    builder.append(1_000, None, Some(b"value"), &[]).expect("small");
    let finished = builder.finish(Compression::None, None, &mut Compressor::new());
    Bytes::from(finished.expect("small"))
}

/// twmb/franz-go#885, KAFKA-14255, tulios/kafkajs#1072: a leader that points at a replica to read from
/// (KIP-392) cannot send a reader that names no rack away, nor stop it: the leader is asked again.
#[test]
fn a_preferred_replica_does_not_stall_a_reader_without_a_rack() {
    const POINTED: usize = 3;
    let kafka = FakeKafka::start(2);
    let id = kafka.with(|state| state.add_topic("t", &[1]));
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    kafka.hook(move |_, request, peer| {
        if request.header.api != ApiKey::FETCH {
            return Hooked::Pass;
        }
        let asks: FetchRequest = request.decode();
        assert_eq!(asks.rack_id, "", "no rack is named");
        let mut data = PartitionData { high_watermark: 1, ..PartitionData::default() };
        if counted.fetch_add(1, Ordering::SeqCst) < POINTED {
            data.preferred_read_replica = 2;
        } else {
            data.records = Some(batch());
        }
        let topic = FetchableTopicResponse {
            topic_id: id,
            partitions: vec![data],
            ..FetchableTopicResponse::default()
        };
        let answer = FetchResponse { responses: vec![topic], ..FetchResponse::default() };
        peer.answer(request, &answer);
        Hooked::Done
    });
    let client = kafka.client();
    let mut reader = client.read("t", 0, 0..1).expect("a reader");
    let batch = reader.next_batch(SOON).expect("no error").expect("a batch");
    assert_eq!(batch.iter().count(), 1);
    assert!(reader.is_finished());
    let brokers: Vec<i32> = kafka.seen(ApiKey::FETCH).iter().map(|seen| seen.broker).collect();
    assert_eq!(brokers, [1; POINTED + 1], "only the leader is asked");
}
