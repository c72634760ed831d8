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
/// Most requests that may or may not be answered; the oldest are forgotten.
const UNANSWERED_MAX: usize = 1024;

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
    Unexpected(Sent),
    /// None; `expected` is what the oldest carries.
    Nothing { expected: Option<Sent> },
}

#[derive(Debug)]
pub(super) struct InFlight {
    /// With whether an answer is expected.
    queue: VecDeque<(Sent, bool)>,
    expected: usize,
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
        self.queue.push_back((sent, true));
        true
    }

    /// Adds a request that gets no answer.
    pub(super) fn push_unanswered(&mut self, sent: Sent) {
        if self.queue.len() - self.expected >= UNANSWERED_MAX
            && let Some(oldest) = self.queue.iter().position(|(_, expected)| !expected)
        {
            self.queue.remove(oldest);
        }
        self.queue.push_back((sent, false));
    }

    /// The oldest request whose answer is expected.
    pub(super) fn oldest(&self) -> Option<Sent> {
        self.queue.iter().find(|(_, expected)| *expected).map(|(sent, _)| *sent)
    }

    /// Finds what the answer with `correlation_id` belongs to, and takes it out together with
    /// those before it that were not answered.
    pub(super) fn answered(&mut self, correlation_id: i32) -> Match {
        let mut passed = 0;
        for (sent, expected) in &self.queue {
            if sent.correlation_id == correlation_id {
                let (sent, expected) = (*sent, *expected);
                self.queue.drain(..=passed);
                if expected {
                    self.expected -= 1;
                    return Match::Answer(sent);
                }
                return Match::Unexpected(sent);
            }
            if *expected {
                break;
            }
            passed += 1;
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
        let (one, two, three) = (sent(1), sent(2), sent(3));
        queue.push_unanswered(one);
        queue.push_unanswered(two);
        assert_eq!((queue.expected(), queue.has_unanswered()), (0, true));
        assert!(queue.push(three));
        assert_eq!(queue.oldest(), Some(three));
        assert_eq!(queue.answered(1), Match::Unexpected(one));
        assert_eq!(queue.answered(3), Match::Answer(three));
        assert_eq!((queue.expected(), queue.has_unanswered()), (0, false));
    }

    #[test]
    fn both_kinds_are_bounded() {
        let mut queue = InFlight::new();
        for id in 0..IN_FLIGHT_MAX as i32 {
            assert!(queue.push(sent(id)));
        }
        assert!(!queue.push(sent(-1)));
        for id in 0..10 * UNANSWERED_MAX as i32 {
            queue.push_unanswered(sent(100_000 + id));
        }
        assert_eq!(queue.expected(), IN_FLIGHT_MAX);
        assert_eq!(queue.queue.len(), IN_FLIGHT_MAX + UNANSWERED_MAX);
    }
}
