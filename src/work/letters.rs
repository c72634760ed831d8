//! The dead-letter topic: what is given up is stored there, with headers that say why.
//!
//! Called on worker threads for single records, and on workers' or the organiser's thread for whole
//! units. Owns a producer with `acks=all`; a letter counts as stored when its ticket says so, and
//! only then does the group's offset pass what it is about (QUEUE rule: stored outside of the queue
//! first). A repetition stores a letter again.

use std::sync::Arc;
use std::time::Duration;

use crate::client::Client;
use crate::clock::Deadline;
use crate::config::{Acks, FetchConfig};
use crate::error::{Error, ErrorKind, Result};
use crate::fetch::{ConsumerRecord, Missing, RangeReader};
use crate::producer::{Producer, Record, Ticket};
use crate::threads::Stop;
use crate::work::queue::{DeadUnit, stored_text};

/// Longest time for the letters of one unit; the unit is tried again after it.
const UNIT_LETTERS_MAX: Duration = Duration::from_secs(30);
/// Longest wait for the letter topic's leader or for room, in one try.
const MAX_BLOCK: Duration = Duration::from_secs(5);
/// Between two looks at whether the node is abandoned, while a broker does not answer.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Letters that may be under way before the first of them is waited for.
const UNDER_WAY_MAX: usize = 1000;

/// Headers of a letter.
pub(crate) const HEADER_TOPIC: &str = "ottla.topic";
pub(crate) const HEADER_PARTITION: &str = "ottla.partition";
pub(crate) const HEADER_OFFSET: &str = "ottla.offset";
pub(crate) const HEADER_ERROR: &str = "ottla.error";
pub(crate) const HEADER_ATTEMPTS: &str = "ottla.attempts";
pub(crate) const HEADER_GROUP: &str = "ottla.group";
pub(crate) const HEADER_UNIT: &str = "ottla.unit";

/// A topic for dead letters of one group.
pub(crate) struct LetterTopic {
    client: Client,
    fetch: FetchConfig,
    producer: Producer,
    topic: String,
    group: String,
}

/// The texts of a letter's headers.
struct Why {
    partition: String,
    offset: String,
    attempts: String,
    unit: String,
    error: String,
}

impl Why {
    fn of(dead: &DeadUnit, offset: i64) -> Self {
        Self {
            partition: dead.unit.partition().to_string(),
            offset: offset.to_string(),
            attempts: dead.attempts.to_string(),
            unit: dead.unit.to_string(),
            error: stored_text(&dead.error),
        }
    }
}

impl LetterTopic {
    /// Starts the producer; asks no broker yet.
    pub(crate) fn open(
        client: &Client,
        fetch: &FetchConfig,
        topic: &str,
        group: &str,
    ) -> Result<Self> {
        Ok(Self {
            producer: client.producer().acks(Acks::All).max_block(MAX_BLOCK).build()?,
            client: client.clone(),
            fetch: fetch.clone(),
            topic: topic.to_owned(),
            group: group.to_owned(),
        })
    }

    /// Stores one record. Blocks until it is stored, or `stop` is set.
    pub(crate) fn record(
        &self,
        record: &ConsumerRecord,
        dead: &DeadUnit,
        stop: &Stop,
    ) -> Result<()> {
        stored(&self.send(record, dead)?, stop, None)
    }

    /// Stores every record of a unit, as far as the log still has them. What cannot be read, since
    /// it is damaged, becomes one letter without a value that names the unit.
    pub(crate) fn unit(&self, dead: &DeadUnit) -> Result<()> {
        let deadline = Deadline::within(UNIT_LETTERS_MAX);
        let (unit, stop) = (&dead.unit, Stop::new());
        let cluster = Arc::clone(self.client.cluster());
        let range = unit.start()..unit.end();
        let fetch = self.fetch.clone();
        let mut reader = RangeReader::new(cluster, fetch, unit.topic(), unit.partition(), range)
            .pinned_to(Some(dead.topic_id))
            .on_missing(Missing::Skip);
        let mut tickets = Vec::new();
        while !reader.is_finished() {
            let batch = match reader.next_batch_by(deadline) {
                Ok(batch) => batch,
                Err(error) if error.is_retriable() => return Err(error),
                Err(_) => {
                    tickets.push(self.send_name(dead)?);
                    break;
                }
            };
            for record in batch.into_iter().flat_map(crate::fetch::FetchedBatch::into_records) {
                match record {
                    Ok(record) => tickets.push(self.send(&record, dead)?),
                    Err(_) => tickets.push(self.send_name(dead)?),
                }
                if tickets.len() >= UNDER_WAY_MAX {
                    wait_for(&mut tickets, &stop, deadline)?;
                }
            }
            if deadline.left().is_zero() {
                return Err(late());
            }
        }
        wait_for(&mut tickets, &stop, deadline)
    }

    fn send(&self, record: &ConsumerRecord, dead: &DeadUnit) -> Result<Ticket> {
        let why = Why::of(dead, record.offset());
        let headers: Vec<_> =
            record.headers().iter().map(|held| (held.key(), held.value)).collect();
        let mut letter = Record::to(&self.topic);
        if let Some(key) = record.key() {
            letter = letter.key(key);
        }
        if let Some(value) = record.value() {
            letter = letter.value(value);
        }
        if record.timestamp_ms() >= 0 {
            letter = letter.timestamp(record.timestamp_ms());
        }
        for (key, value) in &headers {
            letter = letter.header(key, *value);
        }
        self.producer.send(self.with_why(letter, dead, &why))
    }

    /// A letter that only names the unit.
    fn send_name(&self, dead: &DeadUnit) -> Result<Ticket> {
        let why = Why::of(dead, dead.unit.start());
        let letter = Record::to(&self.topic).key(why.unit.as_bytes());
        self.producer.send(self.with_why(letter, dead, &why))
    }

    fn with_why<'a>(&'a self, letter: Record<'a>, dead: &'a DeadUnit, why: &'a Why) -> Record<'a> {
        letter
            .header(HEADER_TOPIC, Some(dead.unit.topic().as_bytes()))
            .header(HEADER_PARTITION, Some(why.partition.as_bytes()))
            .header(HEADER_OFFSET, Some(why.offset.as_bytes()))
            .header(HEADER_ERROR, Some(why.error.as_bytes()))
            .header(HEADER_ATTEMPTS, Some(why.attempts.as_bytes()))
            .header(HEADER_GROUP, Some(self.group.as_bytes()))
            .header(HEADER_UNIT, Some(why.unit.as_bytes()))
    }
}

fn wait_for(tickets: &mut Vec<Ticket>, stop: &Stop, deadline: Deadline) -> Result<()> {
    tickets.drain(..).try_for_each(|ticket| stored(&ticket, stop, Some(deadline)))
}

/// Waits until the letter is stored.
fn stored(ticket: &Ticket, stop: &Stop, deadline: Option<Deadline>) -> Result<()> {
    while ticket.wait_timeout(LOOK_EVERY)?.is_none() {
        if stop.is_set() {
            return Err(Error::new(ErrorKind::Closed, "the node has stopped"));
        }
        if deadline.is_some_and(|deadline| deadline.left().is_zero()) {
            return Err(late());
        }
    }
    Ok(())
}

fn late() -> Error {
    Error::new(ErrorKind::Timeout, "the dead letters were not stored in time")
}
