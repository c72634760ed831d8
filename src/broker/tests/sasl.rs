//! Authentication, seen from the wire.

use std::io::{Read, Write};

use super::raw::Raw;
use super::*;
use crate::protocol::messages::{
    ApiVersionsRequest, SaslAuthenticateRequest, SaslHandshakeRequest,
};
use crate::protocol::{Bytes, ErrorCode};

fn cluster() -> Cluster {
    let builder = Cluster::builder().topic("t", 1).seed(1);
    let builder = builder.sasl_user(SaslMechanism::Plain, "alice", "secret");
    builder.sasl_user(SaslMechanism::ScramSha512, "bob", "other").start().expect("a cluster")
}

fn handshake(mechanism: &str) -> SaslHandshakeRequest {
    SaslHandshakeRequest { mechanism: mechanism.to_owned(), ..Default::default() }
}

fn token(bytes: &[u8]) -> SaslAuthenticateRequest {
    let auth_bytes = Bytes::from(bytes.to_vec());
    SaslAuthenticateRequest { auth_bytes, ..Default::default() }
}

fn metadata() -> MetadataRequest {
    MetadataRequest { topics: None, ..Default::default() }
}

#[test]
fn a_client_that_says_who_it_is_comes_in() {
    let kafka = cluster();
    let mut raw = Raw::connect(kafka.bootstrap());
    let versions = raw.ask(&ApiVersionsRequest::default(), 2).expect("an answer");
    assert!(versions.api_keys.iter().any(|api| api.api_key == ApiKey::SASL_AUTHENTICATE.0));
    let begun = raw.ask(&handshake("PLAIN"), 1).expect("an answer");
    assert_eq!(begun.error_code, ErrorCode::NONE);
    assert_eq!(begun.mechanisms, ["PLAIN", "SCRAM-SHA-512"]);
    let done = raw.ask(&token(b"\0alice\0secret"), 2).expect("an answer");
    assert_eq!((done.error_code, done.session_lifetime_ms), (ErrorCode::NONE, 0));
    assert_eq!(raw.ask(&metadata(), 12).expect("an answer").topics.len(), 1);
    let again = raw.ask(&token(b"\0alice\0secret"), 2).expect("an answer");
    assert_eq!(again.error_code, ErrorCode::ILLEGAL_SASL_STATE);
    assert!(raw.ask(&metadata(), 12).is_some(), "it stays open");
}

#[test]
fn who_does_not_say_or_is_not_known_is_shown_out() {
    let kafka = cluster();
    let mut raw = Raw::connect(kafka.bootstrap());
    assert_eq!(raw.ask(&metadata(), 12), None);
    let mut raw = Raw::connect(kafka.bootstrap());
    let unknown = raw.ask(&handshake("GSSAPI"), 1).expect("an answer");
    assert_eq!(unknown.error_code, ErrorCode::UNSUPPORTED_SASL_MECHANISM);
    assert_eq!(raw.frame(), None);
    let mut raw = Raw::connect(kafka.bootstrap());
    raw.ask(&handshake("PLAIN"), 1).expect("an answer");
    let failed = raw.ask(&token(b"\0alice\0wrong"), 0).expect("an answer");
    assert_eq!(failed.error_code, ErrorCode::SASL_AUTHENTICATION_FAILED);
    let why = "Authentication failed: Invalid username or password";
    assert_eq!(failed.error_message.as_deref(), Some(why));
    assert_eq!(raw.frame(), None);
}

#[test]
fn old_clients_send_tokens_as_they_are() {
    let kafka = cluster();
    let mut raw = Raw::connect(kafka.bootstrap());
    raw.ask(&handshake("PLAIN"), 0).expect("an answer");
    raw.stream.write_all(b"\0\0\0\x0d\0alice\0secret").expect("sent");
    let mut answer = [1; 4];
    raw.stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer, [0; 4], "an empty token");
    assert_eq!(raw.ask(&metadata(), 12).expect("an answer").topics.len(), 1);
}

#[test]
fn where_nobody_is_asked_a_handshake_is_out_of_turn() {
    let kafka = Cluster::builder().start().expect("a cluster");
    let mut raw = Raw::connect(kafka.bootstrap());
    let answer = raw.ask(&handshake("PLAIN"), 1).expect("an answer");
    assert_eq!(answer.error_code, ErrorCode::ILLEGAL_SASL_STATE);
    assert!(answer.mechanisms.is_empty());
    assert!(raw.ask(&metadata(), 12).is_some());
}
