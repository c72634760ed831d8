//! Which batches a `read_committed` reader must not see.
//!
//! A broker sends data only up to the last stable offset, so every transaction in an answer is
//! decided; for the aborted ones the answer lists producer id and first offset. Walking the
//! batches in order, a transaction is open from its first offset to its abort marker. The list
//! belongs to its answer alone: nothing is carried over to the next one, which brings a list of
//! its own for the transactions that reach into it.
//!
//! See `AbortedTransactions` of the Fetch response and `CompletedFetch` in Kafka's Java consumer.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::vec::IntoIter;

use crate::protocol::messages::AbortedTransaction;

/// The aborted transactions of one answer, as a cursor over its batches.
#[derive(Debug)]
pub(crate) struct AbortedCursor {
    /// Not reached yet, ascending by first offset (brokers of other brands do not sort).
    ahead: Peekable<IntoIter<AbortedTransaction>>,
    /// Producers whose transaction at this place was aborted.
    open: BTreeSet<i64>,
}

/// The kind of batch, as far as transactions are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchRole {
    /// Records outside of any transaction.
    Plain,
    /// Records of a transaction.
    Transactional,
    /// The marker that ends a transaction with an abort.
    AbortMarker,
    /// Any other control batch.
    OtherControl,
}

impl AbortedCursor {
    /// Starts before the first batch of an answer.
    pub(crate) fn new(mut aborted: Vec<AbortedTransaction>) -> Self {
        aborted.sort_by_key(|transaction| transaction.first_offset);
        Self { ahead: aborted.into_iter().peekable(), open: BTreeSet::new() }
    }

    /// Steps over the next batch, which ends at `last_offset`; tells whether its records are to be
    /// delivered.
    pub(crate) fn delivers(&mut self, producer_id: i64, last_offset: i64, role: BatchRole) -> bool {
        while let Some(transaction) = self.ahead.next_if(|next| next.first_offset <= last_offset) {
            self.open.insert(transaction.producer_id);
        }
        match role {
            BatchRole::Plain => true,
            BatchRole::Transactional => !self.open.contains(&producer_id),
            BatchRole::AbortMarker => {
                self.open.remove(&producer_id);
                false
            }
            BatchRole::OtherControl => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aborted(producer_id: i64, first_offset: i64) -> AbortedTransaction {
        AbortedTransaction { producer_id, first_offset, ..Default::default() }
    }

    /// Offsets (one record a batch) that are delivered.
    fn delivered(list: Vec<AbortedTransaction>, log: &[(i64, BatchRole)]) -> Vec<i64> {
        let mut cursor = AbortedCursor::new(list);
        let offsets = log.iter().enumerate().map(|(index, batch)| (index as i64 + 1, batch));
        offsets
            .filter(|(offset, (producer, role))| cursor.delivers(*producer, *offset, *role))
            .map(|(offset, _)| offset)
            .collect()
    }

    use BatchRole::{AbortMarker, OtherControl, Plain, Transactional};

    /// One producer: committed, aborted, committed (kafka4beam/brod#659).
    #[test]
    fn an_abort_between_commits_hides_only_its_own_records() {
        let log = [
            (1, Transactional),
            (1, OtherControl),
            (1, Transactional),
            (1, AbortMarker),
            (1, Transactional),
            (1, OtherControl),
        ];
        assert_eq!(delivered(vec![aborted(1, 3)], &log), [1, 5]);
        assert_eq!(delivered(Vec::new(), &log), [1, 3, 5], "an empty list: nothing was aborted");
    }

    /// Two producers interleaved, the list out of order (librdkafka#3020).
    #[test]
    fn interleaved_producers_are_told_apart() {
        let log = [
            (1, Transactional),
            (2, Transactional),
            (3, Transactional),
            (-1, Plain),
            (1, AbortMarker),
            (3, AbortMarker),
            (2, OtherControl),
            (1, Transactional),
        ];
        assert_eq!(delivered(vec![aborted(3, 3), aborted(1, 1)], &log), [2, 4, 8]);
    }

    #[test]
    fn a_transaction_that_began_in_an_earlier_answer_stays_hidden() {
        let log = [(7, Transactional), (7, AbortMarker), (7, Transactional)];
        assert_eq!(delivered(vec![aborted(7, -20)], &log), [3]);
    }
}
