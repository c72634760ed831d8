//! The producer id and its epoch, shared by all partitions (KIP-98).
//!
//! The first id comes from the broker (InitProducerId without a transactional id, any broker). A
//! newer epoch is made here, without a request, as long as epochs last (KIP-360: epoch + 1 with the
//! same id); after 32767 a new id is asked for. Asking is done by a short-lived thread
//! `ottla-id`; batches wait meanwhile, and the thread wakes all writers when it has an answer.
//!
//! The state itself is plain: [`Identities`] decides, [`super::core::Core`] acts.

use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use super::backlog::IdentityState;
use super::sequence::Identity;
use crate::error::Error;

/// What is known of the producer id.
#[derive(Debug)]
enum State {
    /// Idempotence is off.
    Off,
    /// Not known, and nobody asks.
    Missing,
    /// Somebody asks.
    Asked,
    /// In use.
    Known(Identity),
    /// There will be none.
    Refused(Error),
}

/// The producer's identity.
#[derive(Debug)]
pub(super) struct Identities {
    state: Mutex<State>,
    /// Identities that there were so far.
    serial: AtomicU32,
}

impl Identities {
    /// Nothing known; with `idempotent` false nothing ever will be.
    pub(super) fn new(idempotent: bool) -> Self {
        let state = if idempotent { State::Missing } else { State::Off };
        Self { state: Mutex::new(state), serial: AtomicU32::new(0) }
    }

    /// What batches are numbered under now.
    pub(super) fn current(&self) -> IdentityState {
        match &*self.state.lock() {
            State::Off => IdentityState::Off,
            State::Known(identity) => IdentityState::Known(*identity),
            State::Missing | State::Asked | State::Refused(_) => IdentityState::Awaited,
        }
    }

    /// Whether the caller is to ask a broker now; it then owes an answer or a failure.
    pub(super) fn claim_request(&self) -> bool {
        let mut state = self.state.lock();
        let missing = matches!(*state, State::Missing);
        if missing {
            *state = State::Asked;
        }
        missing
    }

    /// The broker's answer.
    pub(super) fn answered(&self, id: i64, epoch: i16) {
        let serial = self.next_serial();
        *self.state.lock() = State::Known(Identity { id, epoch, serial });
    }

    fn next_serial(&self) -> u32 {
        self.serial.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// It could not be had for now: the next one who needs it asks again.
    pub(super) fn unanswered(&self) {
        *self.state.lock() = State::Missing;
    }

    /// It will never be had.
    pub(super) fn refuse(&self, error: Error) {
        *self.state.lock() = State::Refused(error);
    }

    /// Why there will be none, if that is known.
    pub(super) fn refused(&self) -> Option<Error> {
        match &*self.state.lock() {
            State::Refused(error) => Some(error.clone()),
            _ => None,
        }
    }

    /// An identity newer than `old`: the one in use if that is not `old`, else the next epoch;
    /// `None` when a new id has to be asked for first.
    pub(super) fn newer_than(&self, old: Identity) -> Option<Identity> {
        let mut state = self.state.lock();
        let State::Known(current) = &mut *state else { return None };
        if *current == old {
            let Some(epoch) = old.epoch.checked_add(1) else {
                *state = State::Missing;
                return None;
            };
            *current = Identity { epoch, serial: self.next_serial(), ..old };
        }
        let State::Known(current) = &*state else { return None };
        Some(*current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// confluentinc/librdkafka#3720: no epoch beyond 32767, no negative one.
    #[test]
    fn epochs_end_and_a_new_id_follows() {
        let identities = Identities::new(true);
        assert_eq!(identities.current(), IdentityState::Awaited);
        assert!(identities.claim_request());
        assert!(!identities.claim_request(), "one asks");
        identities.answered(5, 32766);
        let first = Identity { id: 5, epoch: 32766, serial: 1 };
        assert_eq!(identities.current(), IdentityState::Known(first));
        let second = identities.newer_than(first).expect("one epoch is left");
        assert_eq!(second, Identity { id: 5, epoch: 32767, serial: 2 });
        assert_eq!(identities.newer_than(first), Some(second), "another partition joins");
        assert_eq!(identities.newer_than(second), None);
        assert!(identities.claim_request(), "a new id is asked for");
        identities.answered(6, 0);
        let third = Identity { id: 6, epoch: 0, serial: 3 };
        assert_eq!(identities.newer_than(second), Some(third));
    }
}
