//! How `JoinGroup` and `SyncGroup` wait for their group.
//!
//! Each run lets the group's time pass; a coordinator that was moved away meanwhile sends who waits to the
//! next one, where the member may go on with its id.

use std::time::{Duration, Instant};

use super::super::call::Call;
use super::super::state::Answer;
use crate::protocol::ErrorCode;

/// How long to wait for a group in which nothing is due by itself.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// What has become of the wait.
pub(super) enum Waited {
    /// It is over.
    Answer(Answer),
    /// Not yet: again at this moment at the latest.
    Until(Instant),
    /// It is over without an answer of the group.
    Refused(ErrorCode),
}

/// Looks whether the group has answered this connection.
pub(super) fn group_wait(group: &str, call: &mut Call<'_>) -> Waited {
    let (now, ticket) = (call.now, call.peer.connection);
    let next = call.state.with_group(group, now, |group| group.next_event());
    if let Some(answer) = call.state.take_group_answer(ticket) {
        return Waited::Answer(answer);
    }
    let Some(next) = next else {
        call.state.forget_group_answer(ticket);
        return Waited::Refused(ErrorCode::UNKNOWN_MEMBER_ID);
    };
    if !call.state.coordinates(call.broker, group) {
        call.state.with_group(group, now, |group| group.cancel(ticket, now));
        call.state.forget_group_answer(ticket);
        return Waited::Refused(ErrorCode::NOT_COORDINATOR);
    }
    Waited::Until(next.unwrap_or(now + WAIT_MAX))
}
