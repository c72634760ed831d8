//! `SaslHandshake`, API 17, versions 0-1: chooses the SASL mechanism.
//!
//! After version 0 the tokens come raw. A mechanism without users is refused and the connection ends; a
//! handshake out of turn is answered with `ILLEGAL_SASL_STATE`, as it is where nobody is asked for
//! SASL. See `sasl` for the order of things.

use super::super::call::{Api, Call, Outcome};
use super::super::sasl::Handshake;
use crate::protocol::ErrorCode;
use crate::protocol::messages::{SaslHandshakeRequest, SaslHandshakeResponse};

impl Api for SaslHandshakeRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<SaslHandshakeResponse> {
        let users = &call.state.users;
        let raw = call.version == 0;
        let offer = |error_code| SaslHandshakeResponse {
            error_code,
            mechanisms: users.mechanisms(),
            ..Default::default()
        };
        match call.peer.sasl.handshake(&self.mechanism, raw, users, call.now) {
            Handshake::Begun => Outcome::Answer(offer(ErrorCode::NONE)),
            Handshake::Unsupported => Outcome::AnswerAndClose(
                offer(ErrorCode::UNSUPPORTED_SASL_MECHANISM),
                "an unsupported SASL mechanism",
            ),
            Handshake::IllegalState => {
                Outcome::Answer(self.refuse(ErrorCode::ILLEGAL_SASL_STATE, call))
            }
            Handshake::Close(why) => Outcome::Close(why),
        }
    }

    fn refuse(&self, error: ErrorCode, _call: &mut Call<'_>) -> SaslHandshakeResponse {
        SaslHandshakeResponse { error_code: error, ..Default::default() }
    }
}
