//! [`Transaction`]: what the coordinator knows of one transactional id, as a pure state machine. Kafka's
//! `TransactionMetadata` and `TransactionCoordinator` (KIP-98, KIP-360, KIP-890).
//!
//! ```text
//! Empty ──add──> Ongoing ──end──> PrepareCommit ──complete──> CompleteCommit ──add──> Ongoing
//!                        ──end──> PrepareAbort  ──complete──> CompleteAbort  ──add──> Ongoing
//! ```
//!
//! `init` leads back to Empty from everywhere but Ongoing, which it aborts, and Prepare, which it waits
//! for. In the first protocol an epoch lasts until the next `init`; in the second one ([`Protocol::V2`])
//! every end raises it, and an abort is an end even where nothing was added.
//!
//! Who calls writes the markers that an [`Ending`] asks for and says [`Transaction::complete`]. Kafka's
//! states `PrepareEpochFence` and `Dead` last only while it writes to its log; there is none here.
//!
//! No clock: the time is an argument. Invariant: partitions and a deadline are there exactly in
//! Ongoing, partitions also in Prepare.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::protocol::ErrorCode;

/// The longest time that a transaction may take (`transaction.max.timeout.ms`).
const TIMEOUT_MS_MAX: i32 = 15 * 60 * 1000;
/// The last epoch that a producer is given; beyond it only markers go (`isEpochExhausted`).
const EPOCH_LAST: i16 = i16::MAX - 1;
/// No epoch.
const NO_EPOCH: i16 = -1;

/// Id and epoch of a producer.
pub(in crate::broker) type Producer = (i64, i16);
/// A topic and the number of a partition.
pub(in crate::broker) type Place = (String, i32);

/// Where a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::broker) enum Status {
    /// Nothing was ever added since the producer came.
    Empty,
    Ongoing,
    /// Decided; the markers are being written.
    PrepareCommit,
    PrepareAbort,
    /// Decided, and every partition knows.
    CompleteCommit,
    CompleteAbort,
}

impl Status {
    /// Kafka's word for it.
    pub(in crate::broker) fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::PrepareCommit => "PrepareCommit",
            Self::PrepareAbort => "PrepareAbort",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
        }
    }

    fn is_prepared(self) -> bool {
        matches!(self, Self::PrepareCommit | Self::PrepareAbort)
    }
}

/// Which of the two protocols a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::broker) enum Protocol {
    /// `transaction.version` 0 and 1.
    V1,
    /// `transaction.version` 2 (KIP-890).
    V2,
}

/// What has to be told to the partitions of a transaction, and what to its producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::broker) struct Ending {
    pub(in crate::broker) commit: bool,
    /// As the markers name it.
    pub(in crate::broker) producer: Producer,
    /// As it goes on.
    pub(in crate::broker) next: Producer,
    pub(in crate::broker) partitions: BTreeSet<Place>,
}

/// What came of an `InitProducerId`.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::broker) enum Init {
    Ready(Producer),
    /// An ongoing transaction is to be aborted first; the client asks again.
    Abort(Ending),
}

/// What came of an `EndTxn`.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::broker) enum End {
    Now(Ending),
    /// It was decided so already.
    Before(Producer),
}

/// What the coordinator knows of a transactional id.
#[derive(Clone, Debug)]
pub(in crate::broker) struct Transaction {
    status: Status,
    producer: Producer,
    /// The epoch before, of a producer that asked with it; [`NO_EPOCH`] where that one was fenced.
    last_epoch: i16,
    /// The id before, whose epochs are used up.
    previous_id: i64,
    /// The id that comes after Prepare.
    next_id: Option<i64>,
    timeout_ms: i32,
    partitions: BTreeSet<Place>,
    deadline: Option<Instant>,
    /// When the last transaction began, by the wall clock; -1 for none.
    started_ms: i64,
    used: Instant,
}

impl Transaction {
    /// One of a producer with this id, which has no epoch yet: [`Transaction::init`] gives it the first.
    pub(super) fn new(producer_id: i64, now: Instant) -> Self {
        Self {
            status: Status::Empty,
            producer: (producer_id, NO_EPOCH),
            last_epoch: NO_EPOCH,
            previous_id: -1,
            next_id: None,
            timeout_ms: 0,
            partitions: BTreeSet::new(),
            deadline: None,
            started_ms: -1,
            used: now,
        }
    }

    /// Whether a transaction may take so long.
    pub(super) fn may_take(timeout_ms: i32) -> bool {
        (1..=TIMEOUT_MS_MAX).contains(&timeout_ms)
    }

    pub(in crate::broker) fn status(&self) -> Status {
        self.status
    }

    pub(in crate::broker) fn producer(&self) -> Producer {
        self.producer
    }

    pub(in crate::broker) fn timeout_ms(&self) -> i32 {
        self.timeout_ms
    }

    pub(in crate::broker) fn started_ms(&self) -> i64 {
        self.started_ms
    }

    pub(in crate::broker) fn partitions(&self) -> &BTreeSet<Place> {
        &self.partitions
    }

    /// When it is aborted unless it ends before.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// When it was last of use.
    pub(super) fn used(&self) -> Instant {
        self.used
    }

    /// A producer comes, `as_known` when it has been there before (KIP-360); it gets the next epoch,
    /// and all before it are fenced.
    ///
    /// # Errors
    /// `PRODUCER_FENCED`, `CONCURRENT_TRANSACTIONS`.
    pub(super) fn init(
        &mut self,
        as_known: Option<Producer>,
        timeout_ms: i32,
        now: Instant,
        new_id: impl FnOnce() -> i64,
    ) -> Result<Init, ErrorCode> {
        let (id, epoch) = self.producer;
        let is_known = |(known, at): Producer| {
            let used_up = known == self.previous_id && at >= EPOCH_LAST;
            epoch == NO_EPOCH || known == id || used_up
        };
        if !as_known.is_none_or(is_known) {
            return Err(ErrorCode::PRODUCER_FENCED);
        }
        if self.status.is_prepared() {
            return Err(ErrorCode::CONCURRENT_TRANSACTIONS);
        }
        if self.status == Status::Ongoing {
            return Ok(Init::Abort(self.fence(now)));
        }
        let expected = as_known.map(|(_, epoch)| epoch);
        if epoch >= EPOCH_LAST && expected.is_none_or(|expected| expected == epoch) {
            self.previous_id = id;
            self.last_epoch = expected.map_or(NO_EPOCH, |_| epoch);
            self.producer = (new_id(), 0);
        } else {
            match expected {
                None => (self.producer, self.last_epoch) = ((id, epoch + 1), NO_EPOCH),
                Some(expected) if epoch == NO_EPOCH || expected == epoch => {
                    (self.producer, self.last_epoch) = ((id, epoch + 1), epoch);
                }
                // It asked before and has not got the answer.
                Some(expected) if expected == self.last_epoch => {}
                Some(_) => return Err(ErrorCode::PRODUCER_FENCED),
            }
        }
        (self.status, self.timeout_ms, self.started_ms) = (Status::Empty, timeout_ms, -1);
        self.used = now;
        Ok(Init::Ready(self.producer))
    }

    /// Whether `producer` may go on with the transaction or begin one.
    ///
    /// # Errors
    /// `INVALID_PRODUCER_ID_MAPPING`, `PRODUCER_FENCED`, `CONCURRENT_TRANSACTIONS`.
    pub(super) fn admit(&self, producer: Producer) -> Result<(), ErrorCode> {
        if self.producer.0 != producer.0 {
            return Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING);
        }
        if self.producer.1 != producer.1 {
            return Err(ErrorCode::PRODUCER_FENCED);
        }
        if self.status.is_prepared() {
            return Err(ErrorCode::CONCURRENT_TRANSACTIONS);
        }
        Ok(())
    }

    /// Adds partitions; the first begin the transaction.
    ///
    /// # Errors
    /// As [`Transaction::admit`].
    pub(super) fn add(
        &mut self,
        producer: Producer,
        partitions: impl IntoIterator<Item = Place>,
        now: Instant,
        now_ms: i64,
    ) -> Result<(), ErrorCode> {
        self.admit(producer)?;
        if self.status != Status::Ongoing {
            self.status = Status::Ongoing;
            self.started_ms = now_ms;
            let timeout = Duration::from_millis(u64::try_from(self.timeout_ms).unwrap_or(0));
            self.deadline = Some(now + timeout);
        }
        self.partitions.extend(partitions);
        self.used = now;
        Ok(())
    }

    /// Ends the transaction.
    ///
    /// # Errors
    /// `INVALID_PRODUCER_ID_MAPPING`, `PRODUCER_FENCED`, `CONCURRENT_TRANSACTIONS`, `INVALID_TXN_STATE`.
    pub(super) fn end(
        &mut self,
        producer: Producer,
        commit: bool,
        protocol: Protocol,
        (now, now_ms): (Instant, i64),
        new_id: impl FnOnce() -> i64,
    ) -> Result<End, ErrorCode> {
        let (id, epoch) = self.producer;
        let (asked_id, asked) = producer;
        let went_around = asked_id == self.previous_id && asked == EPOCH_LAST && epoch == 0;
        let was_raised = asked_id == id && asked.checked_add(1) == Some(epoch);
        let is_repeated = protocol == Protocol::V2 && (went_around || was_raised);
        if asked_id != id && !(protocol == Protocol::V2 && went_around) {
            return Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING);
        }
        let is_current = match (protocol, self.status) {
            (Protocol::V1, _) | (_, Status::Empty | Status::Ongoing) => asked == epoch,
            (_, Status::PrepareCommit | Status::PrepareAbort) => was_raised,
            (_, Status::CompleteCommit | Status::CompleteAbort) => is_repeated || asked == epoch,
        };
        if !is_current {
            return Err(ErrorCode::PRODUCER_FENCED);
        }
        // Without a word of the client in between, the same end again is a repetition.
        let is_same = is_repeated || protocol == Protocol::V1;
        match (self.status, commit) {
            (Status::Ongoing, _) => {}
            (Status::CompleteCommit, true) | (Status::CompleteAbort, false) if is_same => {
                return Ok(End::Before(self.producer));
            }
            (Status::PrepareCommit, true) | (Status::PrepareAbort, false) => {
                return Err(ErrorCode::CONCURRENT_TRANSACTIONS);
            }
            (Status::Empty | Status::CompleteCommit | Status::CompleteAbort, false)
                if protocol == Protocol::V2 && !is_repeated =>
            {
                self.started_ms = now_ms;
            }
            _ => return Err(ErrorCode::INVALID_TXN_STATE),
        }
        if protocol == Protocol::V2 {
            self.next_id = (epoch >= EPOCH_LAST).then(new_id);
            self.last_epoch = epoch;
            self.producer.1 = epoch.saturating_add(1);
        }
        Ok(End::Now(self.prepare(commit, now)))
    }

    /// Aborts the ongoing transaction and fences its producer, for it took too long or another one
    /// comes.
    pub(super) fn fence(&mut self, now: Instant) -> Ending {
        self.producer.1 = self.producer.1.saturating_add(1);
        self.last_epoch = NO_EPOCH;
        self.prepare(false, now)
    }

    fn prepare(&mut self, commit: bool, now: Instant) -> Ending {
        self.status = if commit { Status::PrepareCommit } else { Status::PrepareAbort };
        (self.deadline, self.used) = (None, now);
        Ending {
            commit,
            producer: self.producer,
            next: self.next_id.map_or(self.producer, |id| (id, 0)),
            partitions: self.partitions.clone(),
        }
    }

    /// All markers are written.
    pub(super) fn complete(&mut self) {
        self.status = match self.status {
            Status::PrepareCommit => Status::CompleteCommit,
            Status::PrepareAbort => Status::CompleteAbort,
            other => other,
        };
        self.partitions.clear();
        if let Some(id) = self.next_id.take() {
            self.previous_id = self.producer.0;
            self.producer = (id, 0);
        }
    }
}
