//! Where the reader of a range stands, and what an answer of the broker does to that.
//!
//! Pure: takes what an answer says, gives what to do next; sends and waits for nothing. One
//! [`RangePosition`] belongs to one reader.
//!
//! ```text
//!            batches up to x          base offset >= end, or next >= end
//!   next ───────────────────> next=x ───────────────────────────────────> finished
//!            nothing, and the end of the log >= end, twice in a row
//!   next ──────────────────────────────────────────────> finished, next=end
//!            out of range
//!   next ───────────────────> ask for the start of the log: skip to it, or an error
//! ```
//!
//! The position is always the offset after the last *batch* seen, never after the last record:
//! compacted gaps, markers, aborted and empty batches move it on although they deliver nothing.
//! An answer without records alone moves nothing: it may be a throttled one, or a small one.

use crate::protocol::ErrorCode;

/// How often in a row the broker must say "nothing here, and the log ends behind your range"
/// before the range counts as read. An answer that may hold data back does not count.
const EMPTY_ANSWERS_TO_FINISH: u32 = 2;

/// The first fetch size, unless the limit is lower. Ranges of small records do not need more, and
/// a size that is too small costs one more round trip.
const FETCH_BYTES_FIRST: usize = 256 * 1024;

/// The reader of `[next, end)` of one partition.
#[derive(Clone, Debug)]
pub(crate) struct RangePosition {
    next: i64,
    end: i64,
    fetch_bytes: usize,
    fetch_bytes_max: usize,
    empty_answers: u32,
}

/// The head of an answer, without its batches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerHead {
    /// The offset up to which records may be read: the high watermark, or under `read_committed` the
    /// last stable offset. Negative when the broker does not say.
    pub(crate) readable_end: i64,
    /// Whether the broker held data back: throttled (KIP-219), or pointing at a replica to read from
    /// (KIP-392), where a reader that names no rack does not go.
    pub(crate) held_back: bool,
}

/// What to do after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The range is read.
    Finished,
    /// Fetch again from the position.
    Fetch,
    /// Fetch again; the broker had nothing, so a wait in the broker was or will be in between.
    Wait,
    /// The first batch needs this many bytes and no size up to the limit can hold it.
    TooLarge { needed: usize },
}

/// What to do when the broker says that the position is not in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutOfRange {
    /// The log starts behind the position: `from..to` is gone (retention, or deleted).
    Gone { from: i64, to: i64 },
    /// The log ends before the position (an unclean election, a leader that is behind): wait.
    NotYet,
    /// The position is inside the log as it is now: fetch again.
    Again,
}

impl RangePosition {
    /// At the start of `[start, end)`; no fetch asks for more than `fetch_bytes_max`.
    pub(crate) fn new(start: i64, end: i64, fetch_bytes_max: usize) -> Self {
        let fetch_bytes_max = fetch_bytes_max.max(1);
        Self {
            next: start,
            end: end.max(start),
            fetch_bytes: FETCH_BYTES_FIRST.min(fetch_bytes_max),
            fetch_bytes_max,
            empty_answers: 0,
        }
    }

    /// The next offset to read.
    pub(crate) fn next(&self) -> i64 {
        self.next
    }

    /// The end of the range.
    pub(crate) fn end(&self) -> i64 {
        self.end
    }

    /// Whether the range is read.
    pub(crate) fn is_finished(&self) -> bool {
        self.next >= self.end
    }

    /// How many bytes the next fetch asks for.
    pub(crate) fn fetch_bytes(&self) -> usize {
        self.fetch_bytes
    }

    /// Whether a batch from `base_offset` to `last_offset` holds offsets of the range that were
    /// not read yet. A batch behind the range finishes it.
    pub(crate) fn wants(&mut self, base_offset: i64, last_offset: i64) -> bool {
        if base_offset >= self.end {
            self.next = self.end;
        }
        !self.is_finished() && last_offset >= self.next
    }

    /// A batch that ends at `last_offset` was taken (delivered or not).
    pub(crate) fn passed(&mut self, last_offset: i64) {
        self.empty_answers = 0;
        self.next = self.next.max(last_offset.saturating_add(1));
        debug_assert!(self.next > last_offset, "the position only moves forward");
    }

    /// An error-free answer came and all its complete batches were passed: `batches` of them,
    /// `bytes` long, and then perhaps the head of one that needs `cut_off` bytes.
    pub(crate) fn answered(
        &mut self,
        head: AnswerHead,
        batches: usize,
        bytes: usize,
        cut_off: Option<usize>,
    ) -> Next {
        if self.is_finished() {
            return Next::Finished;
        }
        if batches > 0 {
            self.tune(bytes);
            return Next::Fetch;
        }
        if let Some(needed) = cut_off {
            if needed > self.fetch_bytes_max {
                return Next::TooLarge { needed };
            }
            self.fetch_bytes = needed.max(self.fetch_bytes);
            return Next::Fetch;
        }
        if head.readable_end < self.end || head.held_back {
            self.empty_answers = 0;
            return Next::Wait;
        }
        self.empty_answers += 1;
        if self.empty_answers >= EMPTY_ANSWERS_TO_FINISH {
            self.next = self.end;
            return Next::Finished;
        }
        Next::Fetch
    }

    /// Doubles the size when an answer filled most of it: the range has more.
    fn tune(&mut self, bytes: usize) {
        if bytes > self.fetch_bytes / 2 {
            self.fetch_bytes = self.fetch_bytes.saturating_mul(2).min(self.fetch_bytes_max);
        }
    }

    /// The broker answered `OFFSET_OUT_OF_RANGE`; the log is `[log_start, log_end)` now.
    pub(crate) fn out_of_range(&self, log_start: i64, log_end: i64) -> OutOfRange {
        if self.next < log_start {
            OutOfRange::Gone { from: self.next, to: log_start.min(self.end) }
        } else if self.next > log_end {
            OutOfRange::NotYet
        } else {
            OutOfRange::Again
        }
    }

    /// Skips to `offset`, after what is gone was reported.
    pub(crate) fn skip_to(&mut self, offset: i64) {
        self.empty_answers = 0;
        self.next = self.next.max(offset.min(self.end));
    }
}

/// Whether a partition's error in a fetch answer asks for the log's bounds.
pub(crate) fn is_out_of_range(code: ErrorCode) -> bool {
    code == ErrorCode::OFFSET_OUT_OF_RANGE
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING_MORE: AnswerHead = AnswerHead { readable_end: 1000, held_back: false };

    fn at(start: i64, end: i64) -> RangePosition {
        RangePosition::new(start, end, 1 << 20)
    }

    /// The position comes from the batch, not from the surviving records (osodevops/kafka-backup#139).
    #[test]
    fn compacted_batches_move_the_position_to_their_end() {
        let mut position = at(104, 200);
        assert!(position.wants(100, 109));
        position.passed(109);
        assert_eq!(position.next(), 110);
        assert_eq!(position.answered(NOTHING_MORE, 1, 100, None), Next::Fetch);
    }

    /// An answer with lower offsets only (IBM/sarama#1087).
    #[test]
    fn a_batch_that_starts_below_and_ends_above_moves_on() {
        let mut position = at(1_078_831, 2_000_000);
        assert!(position.wants(1_078_830, 1_083_812));
        position.passed(1_083_812);
        assert_eq!(position.next(), 1_083_813);
    }

    /// Zero records behind the position is no news (zendesk/ruby-kafka#624).
    #[test]
    fn an_empty_answer_leaves_the_position() {
        let mut position = at(50, 80);
        let throttled = AnswerHead { readable_end: 80, held_back: true };
        assert_eq!(position.answered(throttled, 0, 0, None), Next::Wait);
        assert_eq!(position.next(), 50);
        assert_eq!(position.answered(NOTHING_MORE, 0, 0, None), Next::Fetch);
        assert_eq!(position.next(), 50);
        position.passed(79);
        assert_eq!(position.answered(NOTHING_MORE, 1, 10, None), Next::Finished);
    }

    #[test]
    fn a_tail_that_was_compacted_away_is_finished_by_the_end_of_the_log() {
        let mut position = at(50, 80);
        assert_eq!(position.answered(NOTHING_MORE, 0, 0, None), Next::Fetch);
        assert_eq!(position.answered(NOTHING_MORE, 0, 0, None), Next::Finished);
        assert!(position.is_finished());
        let mut early = at(50, 80);
        let short = AnswerHead { readable_end: 79, held_back: false };
        for _ in 0..10 {
            assert_eq!(early.answered(short, 0, 0, None), Next::Wait);
        }
    }

    /// A message larger than the fetch size (librdkafka#482, apache/kafka#318).
    #[test]
    fn a_cut_off_batch_is_asked_for_with_its_size_once() {
        let mut position = RangePosition::new(324, 400, 4096);
        position.fetch_bytes = 1024;
        assert_eq!(position.answered(NOTHING_MORE, 0, 1024, Some(1979)), Next::Fetch);
        assert_eq!(position.fetch_bytes(), 1979);
        let needed = 5000;
        assert_eq!(
            position.answered(NOTHING_MORE, 0, 1979, Some(needed)),
            Next::TooLarge { needed }
        );
    }

    /// The log starts later, ends earlier, or was right all along (tulios/kafkajs#1144).
    #[test]
    fn out_of_range_is_told_apart() {
        let position = at(1100, 1500);
        assert_eq!(position.out_of_range(1150, 1200), OutOfRange::Gone { from: 1100, to: 1150 });
        assert_eq!(position.out_of_range(1600, 1700), OutOfRange::Gone { from: 1100, to: 1500 });
        assert_eq!(position.out_of_range(0, 1000), OutOfRange::NotYet);
        assert_eq!(position.out_of_range(0, 1100), OutOfRange::Again);
    }

    #[test]
    fn the_size_grows_while_answers_are_full_and_stays_below_the_limit() {
        let mut position = RangePosition::new(0, i64::MAX, 1 << 20);
        for _ in 0..10 {
            let bytes = position.fetch_bytes();
            position.passed(position.next());
            assert_eq!(position.answered(NOTHING_MORE, 1, bytes, None), Next::Fetch);
        }
        assert_eq!(position.fetch_bytes(), 1 << 20);
    }
}
