//! What the APIs of the transaction coordinator have in common.

use super::super::call::Call;
use crate::protocol::ErrorCode;

/// Whether the broker coordinates a transactional id.
///
/// # Errors
/// `INVALID_REQUEST` for none, `NOT_COORDINATOR`.
pub(super) fn check(id: &str, call: &Call<'_>) -> Result<(), ErrorCode> {
    if id.is_empty() {
        return Err(ErrorCode::INVALID_REQUEST);
    }
    if call.state.coordinates(call.broker, id) { Ok(()) } else { Err(ErrorCode::NOT_COORDINATOR) }
}

/// The error as clients of `version` know it: `PRODUCER_FENCED` came with version `from` (KIP-588).
pub(super) fn fenced(error: ErrorCode, version: i16, from: i16) -> ErrorCode {
    if error == ErrorCode::PRODUCER_FENCED && version < from {
        ErrorCode::INVALID_PRODUCER_EPOCH
    } else {
        error
    }
}
