//! What a broker's answer means for a batch. Pure.

use crate::error::Recovery;
use crate::protocol::ErrorCode;

/// What to do with a batch after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It is stored.
    Stored,
    /// The sequence is not what the broker expects: the partition's sequences decide.
    Sequence,
    /// Some of its records were named as bad: those fail, the others go again.
    BadRecords,
    /// Too large in one piece.
    TooLarge,
    /// Send it again; with `moved` after a look at where the leader is now. With `maybe_stored`
    /// the refusal leaves open whether it was stored.
    Again { moved: bool, maybe_stored: bool },
    /// It was refused for good.
    Fail,
    /// The producer as a whole was refused.
    Fatal,
}

/// Reads an error code of a Produce answer for a batch of `records` records, of which the broker
/// named `bad`.
pub(super) fn meaning(code: ErrorCode, records: u32, bad: usize, idempotent: bool) -> Meaning {
    match code {
        ErrorCode::NONE => Meaning::Stored,
        ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER
        | ErrorCode::DUPLICATE_SEQUENCE_NUMBER
        | ErrorCode::UNKNOWN_PRODUCER_ID
        | ErrorCode::INVALID_PRODUCER_EPOCH
            if idempotent =>
        {
            Meaning::Sequence
        }
        ErrorCode::CLUSTER_AUTHORIZATION_FAILED if idempotent => Meaning::Fatal,
        ErrorCode::MESSAGE_TOO_LARGE | ErrorCode::RECORD_LIST_TOO_LARGE if records > 1 => {
            Meaning::TooLarge
        }
        // KIP-467. With every record named there is nothing to send again.
        _ if bad > 0 && bad < records as usize && code.recovery() == Recovery::Fail => {
            Meaning::BadRecords
        }
        _ => match code.recovery() {
            Recovery::Fail if code == ErrorCode::UNKNOWN_TOPIC_ID => {
                Meaning::Again { moved: true, maybe_stored: false }
            }
            Recovery::Fail => Meaning::Fail,
            Recovery::Retry | Recovery::FindCoordinator => Meaning::Again {
                moved: false,
                maybe_stored: matches!(
                    code,
                    ErrorCode::REQUEST_TIMED_OUT | ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND
                ),
            },
            Recovery::RefreshMetadata | Recovery::Reconnect => {
                Meaning::Again { moved: true, maybe_stored: code == ErrorCode::NETWORK_EXCEPTION }
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_mean_what_the_java_client_reads_in_them() {
        let again = |moved, maybe_stored| Meaning::Again { moved, maybe_stored };
        for (code, records, bad, expected) in [
            (ErrorCode::NONE, 1, 0, Meaning::Stored),
            (ErrorCode::MESSAGE_TOO_LARGE, 2, 0, Meaning::TooLarge),
            (ErrorCode::MESSAGE_TOO_LARGE, 1, 0, Meaning::Fail),
            (ErrorCode::INVALID_RECORD, 3, 1, Meaning::BadRecords),
            (ErrorCode::INVALID_RECORD, 3, 3, Meaning::Fail),
            (ErrorCode::INVALID_TIMESTAMP, 3, 0, Meaning::Fail),
            (ErrorCode::NOT_LEADER_OR_FOLLOWER, 1, 0, again(true, false)),
            (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, 1, 0, again(true, false)),
            (ErrorCode::UNKNOWN_TOPIC_ID, 1, 0, again(true, false)),
            (ErrorCode::NOT_ENOUGH_REPLICAS, 1, 0, again(false, false)),
            (ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND, 1, 0, again(false, true)),
            (ErrorCode::REQUEST_TIMED_OUT, 1, 0, again(false, true)),
            (ErrorCode::TOPIC_AUTHORIZATION_FAILED, 9, 0, Meaning::Fail),
            (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, 1, 0, Meaning::Sequence),
            (ErrorCode(4711), 1, 0, Meaning::Fail),
        ] {
            assert_eq!(meaning(code, records, bad, true), expected, "{code}");
        }
        let code = ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER;
        assert_eq!(meaning(code, 1, 0, false), Meaning::Fail);
    }
}
