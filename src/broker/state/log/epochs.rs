//! The leader epochs of a log and where each begins: Kafka's `LeaderEpochFileCache` (KIP-101).
//!
//! Invariant: epochs and offsets ascend, both strictly.

/// Where each leader epoch of a log begins.
#[derive(Clone, Debug, Default)]
pub(in crate::broker) struct Epochs {
    starts: Vec<(i32, i64)>,
}

impl Epochs {
    /// `epoch` begins at `start`. What had begun there or later, or was not lower, is replaced.
    pub(in crate::broker) fn assign(&mut self, epoch: i32, start: i64) {
        if self.starts.last().is_some_and(|(last, _)| *last == epoch) {
            return;
        }
        self.starts.retain(|(known, begin)| *known < epoch && *begin < start);
        self.starts.push((epoch, start));
    }

    /// The epoch that began last.
    pub(in crate::broker) fn last(&self) -> Option<i32> {
        self.starts.last().map(|(epoch, _)| *epoch)
    }

    /// The log now begins at `start`: epochs that end before it go, the one that it lies in begins
    /// there.
    pub(super) fn trim_start(&mut self, start: i64) {
        let within = self.starts.iter().rposition(|(_, begin)| *begin <= start);
        if let Some(within) = within {
            self.starts.drain(..within);
            if let Some(first) = self.starts.first_mut() {
                first.1 = start;
            }
        }
    }

    /// The log now ends at `end`: epochs that begin there or later go.
    pub(super) fn trim_end(&mut self, end: i64) {
        self.starts.retain(|(_, begin)| *begin < end);
    }

    /// The largest known epoch that is not above `epoch`, with the offset behind its last record;
    /// `end` is the end of the log. -1 and -1 when there is none to tell.
    pub(in crate::broker) fn end_of(&self, epoch: i32, end: i64) -> (i32, i64) {
        if epoch < 0 {
            return (-1, -1);
        }
        match self.starts.last() {
            Some((last, _)) if *last == epoch => return (epoch, end),
            Some((last, _)) if *last > epoch => {}
            _ => return (-1, -1),
        }
        let higher = self.starts.partition_point(|(known, _)| *known <= epoch);
        let Some((_, next)) = self.starts.get(higher) else { return (-1, -1) };
        let floor = higher.checked_sub(1).and_then(|at| self.starts.get(at));
        (floor.map_or(epoch, |(known, _)| *known), *next)
    }

    /// The epoch at the start of the log, when it begins at `start` or before.
    pub(in crate::broker) fn at_start(&self, start: i64) -> i32 {
        self.starts.first().filter(|(_, begin)| *begin <= start).map_or(-1, |(epoch, _)| *epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_ends_where_the_next_begins() {
        let mut epochs = Epochs::default();
        epochs.assign(0, 0);
        epochs.assign(2, 10);
        epochs.assign(2, 15);
        epochs.assign(5, 20);
        assert_eq!(epochs.end_of(0, 30), (0, 10));
        assert_eq!(epochs.end_of(1, 30), (0, 10));
        assert_eq!(epochs.end_of(2, 30), (2, 20));
        assert_eq!(epochs.end_of(4, 30), (2, 20));
        assert_eq!(epochs.end_of(5, 30), (5, 30));
        assert_eq!(epochs.end_of(6, 30), (-1, -1));
        assert_eq!(epochs.end_of(-1, 30), (-1, -1));
        epochs.trim_start(12);
        assert_eq!((epochs.at_start(12), epochs.end_of(0, 30)), (2, (0, 12)));
        epochs.trim_end(20);
        assert_eq!(epochs.end_of(2, 20), (2, 20));
    }

    #[test]
    fn an_epoch_without_records_is_replaced() {
        let mut epochs = Epochs::default();
        epochs.assign(0, 0);
        epochs.assign(1, 0);
        epochs.assign(2, 0);
        assert_eq!(epochs.end_of(2, 5), (2, 5));
        assert_eq!(epochs.end_of(1, 5), (1, 0));
    }
}
