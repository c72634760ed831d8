//! [`InFlight`]: the requests of one connection that were sent and not answered, in order. Pure.
//!
//! A broker answers in the order of the requests, so an answer must carry the correlation id of
//! the oldest. A Produce request with `acks=0` gets no answer, or, from some services (Azure Event
//! Hubs), gets one all the same: such a request stays in the queue as one that *may* be answered,
//! does not count, and is passed over by the next answer behind it.

use std::collections::VecDeque;

use crate::protocol::ApiKey;

/// Most requests without their answer on one connection.
pub(super) const IN_FLIGHT_MAX: usize = 1024;
/// A request that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) correlation_id: i32,
    pub(super) api: ApiKey,
    pub(super) version: i16,
}

/// What an answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// The oldest request.
    Answer(Sent),
    /// A request that no answer was expected for.
    Unexpected,
    /// None; `expected` is what the oldest carries.
    Nothing { expected: Option<Sent> },
}

/// Front to back as sent. Between two requests whose answers are expected there is one range at
/// most (two when the ids start over), so the queue is bounded by [`IN_FLIGHT_MAX`].
#[derive(Debug)]
pub(super) struct InFlight {
    queue: VecDeque<Entry>,
    expected: usize,
}

#[derive(Debug)]
enum Entry {
    Expected(Sent),
    /// Correlation ids of requests without an answer.
    Unanswered {
        first: i32,
        last: i32,
    },
}

impl InFlight {
    pub(super) fn new() -> Self {
        Self { queue: VecDeque::new(), expected: 0 }
    }

    /// How many answers are expected.
    pub(super) fn expected(&self) -> usize {
        self.expected
    }

    /// Whether answers may come that nobody waits for.
    pub(super) fn has_unanswered(&self) -> bool {
        self.queue.len() > self.expected
    }

    /// Adds a request whose answer is expected; `false` when there are too many.
    pub(super) fn push(&mut self, sent: Sent) -> bool {
        if self.expected >= IN_FLIGHT_MAX {
            return false;
        }
        self.expected += 1;
        self.queue.push_back(Entry::Expected(sent));
        true
    }

    /// Adds a request that gets no answer.
    pub(super) fn push_unanswered(&mut self, id: i32) {
        match self.queue.back_mut() {
            Some(Entry::Unanswered { last, .. }) if last.checked_add(1) == Some(id) => *last = id,
            _ => self.queue.push_back(Entry::Unanswered { first: id, last: id }),
        }
    }

    /// The oldest request whose answer is expected.
    pub(super) fn oldest(&self) -> Option<Sent> {
        self.queue.iter().find_map(|entry| match entry {
            Entry::Expected(sent) => Some(*sent),
            Entry::Unanswered { .. } => None,
        })
    }

    /// Finds what the answer with correlation id `id` belongs to, and takes it out together with
    /// those before it that were not answered.
    pub(super) fn answered(&mut self, id: i32) -> Match {
        for index in 0..self.queue.len() {
            match self.queue.get_mut(index) {
                Some(Entry::Expected(sent)) if sent.correlation_id == id => {
                    let sent = *sent;
                    self.queue.drain(..=index);
                    self.expected -= 1;
                    return Match::Answer(sent);
                }
                Some(Entry::Unanswered { first, last }) if (*first..=*last).contains(&id) => {
                    let used_up = id == *last;
                    *first = id.saturating_add(1);
                    self.queue.drain(..index + usize::from(used_up));
                    return Match::Unexpected;
                }
                Some(Entry::Unanswered { .. }) => {}
                Some(Entry::Expected(_)) | None => break,
            }
        }
        Match::Nothing { expected: self.oldest() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(correlation_id: i32) -> Sent {
        Sent { correlation_id, api: ApiKey::PRODUCE, version: 9 }
    }

    #[test]
    fn answers_come_in_the_order_of_the_requests() {
        let mut queue = InFlight::new();
        let (one, two) = (sent(1), sent(2));
        assert!(queue.push(one) && queue.push(two));
        assert_eq!(queue.answered(2), Match::Nothing { expected: Some(one) });
        assert_eq!(queue.answered(1), Match::Answer(one));
        assert_eq!(queue.answered(2), Match::Answer(two));
        assert_eq!(queue.answered(2), Match::Nothing { expected: None });
    }

    #[test]
    fn an_answer_to_acks_0_is_known_and_its_absence_too() {
        let mut queue = InFlight::new();
        let three = sent(3);
        queue.push_unanswered(1);
        queue.push_unanswered(2);
        assert_eq!((queue.expected(), queue.has_unanswered()), (0, true));
        assert!(queue.push(three));
        assert_eq!(queue.oldest(), Some(three));
        assert_eq!(queue.answered(1), Match::Unexpected);
        assert_eq!(queue.answered(3), Match::Answer(three));
        assert_eq!((queue.expected(), queue.has_unanswered()), (0, false));
    }

    #[test]
    fn answers_to_acks_0_may_come_late_or_in_part() {
        let mut queue = InFlight::new();
        for id in 1..=10_000 {
            queue.push_unanswered(id);
        }
        assert!(queue.push(sent(10_001)));
        queue.push_unanswered(10_002);
        assert_eq!(queue.answered(1), Match::Unexpected);
        assert_eq!(queue.answered(500), Match::Unexpected);
        assert_eq!(queue.answered(499), Match::Nothing { expected: Some(sent(10_001)) });
        assert_eq!(queue.answered(10_002), Match::Nothing { expected: Some(sent(10_001)) });
        assert_eq!(queue.answered(10_000), Match::Unexpected);
        assert_eq!(queue.answered(10_001), Match::Answer(sent(10_001)));
        assert_eq!(queue.answered(10_002), Match::Unexpected);
        assert_eq!((queue.expected(), queue.has_unanswered()), (0, false));
    }

    #[test]
    fn both_kinds_are_bounded() {
        let mut queue = InFlight::new();
        for id in 0..2 * IN_FLIGHT_MAX as i32 {
            assert_eq!(queue.push(sent(2 * id)), id < IN_FLIGHT_MAX as i32);
            queue.push_unanswered(2 * id + 1);
        }
        for id in 100_000..200_000 {
            queue.push_unanswered(id);
        }
        assert_eq!(queue.expected(), IN_FLIGHT_MAX);
        // Each of the numbers that were skipped above has a range of its own.
        assert!(queue.queue.len() <= 3 * IN_FLIGHT_MAX + 1);
    }
}
