//! `SaslAuthenticate`, API 36: a token of the SASL exchange (KIP-152).
//!
//! After `SaslHandshake` version 1, as often as the mechanism asks.

use super::super::{Bytes, ErrorCode};

messages! {
    /// The client's token.
    struct SaslAuthenticateRequest {
        /// The token, in the mechanism's own form.
        auth_bytes: Bytes [0+];
    }

    /// Answers [`SaslAuthenticateRequest`].
    struct SaslAuthenticateResponse {
        /// 0, or why it failed.
        error_code: ErrorCode [0+];
        /// The broker's own words about the error.
        error_message: Option<String> [0+] null[0+] = Some(String::new());
        /// The broker's token, in the mechanism's own form; it may be empty.
        auth_bytes: Bytes [0+];
        /// With the last token: after how long the client must authenticate again, in milliseconds;
        /// 0 for never (KIP-368).
        session_lifetime_ms: i64 [1+], ignorable;
    }
}
