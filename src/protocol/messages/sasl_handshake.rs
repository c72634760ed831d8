//! `SaslHandshake`, API 17: chooses the SASL mechanism.
//!
//! Before anything but ApiVersions, on a listener with SASL. After version 0 the tokens follow raw,
//! each behind its size; after version 1 in `SaslAuthenticate` (KIP-152). Never flexible.

use super::super::ErrorCode;

messages! {
    /// Chooses the mechanism.
    struct SaslHandshakeRequest {
        /// The mechanism that the client wants.
        mechanism: String [0+];
    }

    /// Answers [`SaslHandshakeRequest`].
    struct SaslHandshakeResponse {
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
        /// The mechanisms that the broker has.
        mechanisms: Vec<String> [0+];
    }
}
