//! `SaslAuthenticate`, API 36, versions 0-2: a token of the client, answered with one of the broker.
//!
//! The last answer says from version 1 on how long the session lasts (KIP-368). A failure is told in
//! Kafka's words, and the connection ends. Kafka's pause before that
//! (`connection.failed.authentication.delay.ms`) is left out.

use super::super::call::{Api, Call, Outcome};
use super::super::sasl::Step;
use crate::protocol::messages::{SaslAuthenticateRequest, SaslAuthenticateResponse};
use crate::protocol::{Bytes, ErrorCode};

impl Api for SaslAuthenticateRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<SaslAuthenticateResponse> {
        let answer = |token: Vec<u8>| SaslAuthenticateResponse {
            auth_bytes: Bytes::from(token),
            error_message: None,
            ..Default::default()
        };
        match call.state.sasl_token(&mut call.peer.sasl, &self.auth_bytes, call.now) {
            Step::Continue(token) => Outcome::Answer(answer(token)),
            Step::Done(token, session) => Outcome::Answer(SaslAuthenticateResponse {
                session_lifetime_ms: session.map_or(0, |session| session.as_millis() as i64),
                ..answer(token)
            }),
            Step::Failed(why) => {
                let failed = refusal(ErrorCode::SASL_AUTHENTICATION_FAILED, why);
                Outcome::AnswerAndClose(failed, "authentication has failed")
            }
            Step::IllegalState => {
                let why = "SaslAuthenticate request received after successful authentication";
                Outcome::Answer(refusal(ErrorCode::ILLEGAL_SASL_STATE, why.to_owned()))
            }
        }
    }

    fn refuse(&self, error: ErrorCode, _call: &mut Call<'_>) -> SaslAuthenticateResponse {
        refusal(error, error.to_string())
    }
}

fn refusal(error_code: ErrorCode, why: String) -> SaslAuthenticateResponse {
    SaslAuthenticateResponse { error_code, error_message: Some(why), ..Default::default() }
}
