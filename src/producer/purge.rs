//! Giving up what was taken, without closing: librdkafka's `rd_kafka_purge`.
//!
//! Each record that is dropped has its outcome at once, `Purged`; the producer goes on. What was numbered and is dropped
//! leaves a hole in its partition's sequence, which the next records meet with a newer epoch, as after a delivery that timed
//! out (see [`super::sequence`]).

use super::core::Core;
use super::producer::Producer;
use crate::error::{Error, ErrorKind};

impl Producer {
    /// Drops every record that waits in the producer; gives their number. What is on the wire goes on, and so does the producer.
    ///
    /// Tickets, callbacks and the channel of failures tell each, with an error of kind `Purged`; an earlier attempt may have
    /// stored it ([`Error::possibly_persisted`]). A record that another thread sends meanwhile may be dropped or not, and so may one
    /// that a writer is about to write. Never blocks; may be called by a callback. After a close there is nothing to drop. What is in the retry store
    /// stays there.
    pub fn purge(&self) -> u64 {
        self.core.purge_queued()
    }

    /// As [`purge`](Self::purge), and drops records on the wire too: they may be stored, and their error says so
    /// ([`Error::possibly_persisted`]). Their memory comes back when the broker's answer comes or the connection ends.
    pub fn purge_all(&self) -> u64 {
        self.core.purge_queued() + self.core.purge_in_flight()
    }
}

impl Core {
    fn purge_queued(&self) -> u64 {
        let mut records = 0;
        for partition in self.topics.all_partitions() {
            for batch in partition.purge() {
                if !batch.is_from_store {
                    records += u64::from(batch.records);
                }
                self.fail(batch, purged());
            }
        }
        records
    }

    fn purge_in_flight(&self) -> u64 {
        let mut detached = Vec::new();
        for flight in self.flights() {
            flight.for_each(|_, batch| {
                if !batch.is_over() {
                    detached.push(batch.detach());
                }
            });
        }
        let records = detached
            .iter()
            .filter(|batch| !batch.is_from_store)
            .map(|batch| u64::from(batch.records))
            .sum();
        for batch in detached {
            self.fail(batch, purged());
        }
        records
    }
}

fn purged() -> Error {
    Error::new(ErrorKind::Purged, "the record was purged before it was acknowledged")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::broker::{Cluster, Fault};
    use crate::clock::Deadline;
    use crate::fetch::At;
    use crate::protocol::{ApiKey, ErrorCode};
    use crate::{Client, Record, threads};

    const PATIENCE: Duration = Duration::from_secs(60);

    fn until(what: &str, mut holds: impl FnMut() -> bool) {
        let deadline = Deadline::within(PATIENCE);
        while !holds() {
            assert!(!deadline.left().is_zero(), "{what}");
            threads::pause(Duration::from_millis(1));
        }
    }

    /// One partition whose broker is frozen; the first record is on the wire, nine wait.
    fn stalled() -> (Cluster, Client, Producer, Vec<crate::Ticket>, Arc<AtomicUsize>) {
        let kafka = Cluster::builder().brokers(1).topic("t", 1).start().expect("a cluster");
        let client = Client::builder(kafka.bootstrap()).retry_backoff(Duration::from_millis(5));
        let client = client.build().expect("a client");
        let producer = client.producer().linger(Duration::ZERO).max_in_flight(1).build();
        let producer = producer.expect("a producer");
        producer.send(Record::to("t").value("stored")).expect("taken").wait().expect("stored");
        kafka.freeze(1);
        let told = Arc::new(AtomicUsize::new(0));
        let mut tickets = Vec::new();
        for number in 0..10 {
            let value = format!("record {number}");
            let counter = Arc::clone(&told);
            let ticket = producer.send_with(Record::to("t").value(&value), move |result| {
                if result.is_err_and(|error| error.kind() == ErrorKind::Purged) {
                    counter.fetch_add(1, Ordering::SeqCst);
                }
            });
            tickets.push(ticket.expect("taken"));
            until("the first one leaves", || producer.metrics().requests_in_flight > 0);
        }
        (kafka, client, producer, tickets, told)
    }

    fn stored(client: &Client) -> Vec<String> {
        let end = client.offsets("t", At::Latest).expect("a topic").remove(0).expect("an offset");
        let records = client.read("t", 0, 0..end.offset.expect("known")).expect("a range");
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        records.map(|record| text(record.expect("a record").value().expect("a value"))).collect()
    }

    #[test]
    fn what_waits_is_dropped_and_what_is_on_the_wire_goes_on() {
        let (kafka, client, producer, mut tickets, told) = stalled();
        let first = tickets.remove(0);
        assert_eq!(producer.purge(), 9);
        for ticket in &tickets {
            let error = ticket.try_get().expect("told at once").expect_err("purged");
            assert_eq!(error.kind(), ErrorKind::Purged);
            assert!(!error.possibly_persisted() && !error.is_retriable());
            assert_eq!((error.topic(), error.partition()), (Some("t"), Some(0)));
        }
        kafka.thaw(1);
        assert_eq!(first.wait().expect("it was on the wire").offset, Some(1));
        producer.send(Record::to("t").value("later")).expect("taken").wait().expect("it goes on");
        producer.flush(PATIENCE).expect("nothing is left");
        assert_eq!(told.load(Ordering::SeqCst), 9);
        assert_eq!(stored(&client), ["stored", "record 0", "later"]);
        assert_eq!(producer.buffered_bytes(), 0);
    }

    #[test]
    fn what_is_on_the_wire_is_told_as_maybe_stored_and_memory_comes_back_with_the_answer() {
        let (kafka, client, producer, tickets, told) = stalled();
        assert_eq!(producer.purge_all(), 10);
        assert_eq!(producer.purge_all(), 0, "nobody is told twice");
        let results: Vec<_> =
            tickets.iter().map(|ticket| ticket.try_get().expect("told")).collect();
        for (place, result) in results.into_iter().enumerate() {
            let error = result.expect_err("purged");
            assert_eq!(error.kind(), ErrorKind::Purged);
            assert_eq!(error.possibly_persisted(), place == 0, "{place}");
        }
        producer.flush(PATIENCE).expect("nothing is waited for");
        assert_eq!(told.load(Ordering::SeqCst), 10);
        assert!(producer.buffered_bytes() > 0, "the wire still has it");
        kafka.thaw(1);
        producer.send(Record::to("t").value("later")).expect("taken").wait().expect("it goes on");
        until("all memory comes back", || producer.buffered_bytes() == 0);
        assert_eq!(stored(&client), ["stored", "record 0", "later"]);
    }

    #[test]
    fn a_purge_between_two_attempts_leaves_no_gap_for_later_records() {
        let (kafka, client, producer, tickets, _told) = stalled();
        let refused = Fault::on(ApiKey::PRODUCE).answer(ErrorCode::REQUEST_TIMED_OUT);
        let handle = kafka.fault(refused);
        kafka.thaw(1);
        until("it is refused and tried again", || producer.metrics().record_retry_total > 3);
        producer.purge_all();
        for ticket in &tickets {
            let Err(error) = ticket.wait() else { continue };
            assert_eq!(error.kind(), ErrorKind::Purged);
        }
        handle.remove();
        for number in 0..3 {
            let ticket = producer.send(Record::to("t").value(&format!("later {number}")));
            ticket.expect("taken").wait().expect("it goes on");
        }
        let stored = stored(&client);
        assert_eq!(stored[stored.len() - 3..], ["later 0", "later 1", "later 2"]);
        assert_eq!(producer.close(PATIENCE).expect("closed").len(), 0);
        assert_eq!(producer.purge_all(), 0);
    }
}
