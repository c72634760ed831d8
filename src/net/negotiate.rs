//! Which versions a connection may use: the first exchange, decided without a socket.
//!
//! [`Negotiation`] says which version of ApiVersions to ask with, and what to do with the outcome:
//!
//! ```text
//! answer, no error                  done
//! answer, error 35 with key 18      ask once more on this connection, at the highest common version
//! answer, error 35 without          ask once more on this connection, at version 0
//! the connection ends               connect again and ask the same; then connect again, version 0
//! anything else                     failure
//! ```
//!
//! Each line can happen a fixed number of times, so it ends. [`BrokerVersions`] is the result.

use super::versions::BrokerVersions;
use crate::error::{Error, Result};
use crate::protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use crate::protocol::{ApiKey, Bytes, ErrorCode, Message, Reader, VersionRange};

/// Name and version that brokers count clients by (KIP-511).
const SOFTWARE_NAME: &str = "ottla";
const SOFTWARE_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The newest version asked with. Version 5 only adds which cluster is meant (KIP-1242), which is
/// not said here, and would cost brokers before 4.4 a refusal per connection.
const NEWEST: i16 = 4;

/// The first exchange of a connection.
#[derive(Debug)]
pub(super) struct Negotiation {
    version: i16,
    /// Whether an error 35 was answered already.
    refused: bool,
    /// How often the connection ended.
    ended: u32,
}

/// What comes next.
#[derive(Debug)]
pub(super) enum Step {
    /// Ask again on the same connection.
    AskAgain,
    /// The versions are known.
    Done(BrokerVersions),
}

impl Negotiation {
    pub(super) fn new() -> Self {
        Self { version: NEWEST, refused: false, ended: 0 }
    }

    /// The version to ask with.
    pub(super) fn version(&self) -> i16 {
        self.version
    }

    /// The question.
    pub(super) fn request() -> ApiVersionsRequest {
        ApiVersionsRequest {
            client_software_name: SOFTWARE_NAME.to_owned(),
            client_software_version: SOFTWARE_VERSION.to_owned(),
            ..ApiVersionsRequest::default()
        }
    }

    /// The broker answered; `body` is what stands behind the header.
    ///
    /// # Errors
    /// When the answer is another error, or cannot be understood.
    pub(super) fn answered(&mut self, body: &Bytes) -> Result<Step> {
        let code = ErrorCode(Reader::shared(body).i16()?);
        if code == ErrorCode::UNSUPPORTED_VERSION {
            return self.refused(body);
        }
        let response = ApiVersionsResponse::decode_all(body, self.version)?;
        if response.error_code != ErrorCode::NONE {
            return Err(Error::from_code(response.error_code, None));
        }
        Ok(Step::Done(BrokerVersions::new(&response)))
    }

    /// Error 35 comes in the form of version 0 whatever was asked, from old brokers with an empty
    /// list, or with none.
    fn refused(&mut self, body: &Bytes) -> Result<Step> {
        if self.refused || self.version == 0 {
            return Err(Error::from_code(ErrorCode::UNSUPPORTED_VERSION, None));
        }
        self.refused = true;
        let offered = ApiVersionsResponse::decode(&mut Reader::shared(body), 0)
            .ok()
            .map(|response| BrokerVersions::new(&response));
        // What was just refused is not asked again, whatever the list says.
        let below = VersionRange { min: 0, max: self.version - 1 };
        let common = offered.and_then(|table| table.choose(ApiKey::API_VERSIONS, below).ok());
        self.version = common.unwrap_or(0);
        Ok(Step::AskAgain)
    }

    /// The broker ended the connection instead of answering. Tells whether to connect again.
    pub(super) fn ended(&mut self) -> bool {
        self.ended += 1;
        match self.ended {
            1 => true,
            2 if self.version > 0 => {
                self.version = 0;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::protocol::Writer;
    use crate::protocol::messages::{ApiVersion, FinalizedFeatureKey};

    fn table(rows: &[(ApiKey, i16, i16)]) -> ApiVersionsResponse {
        let row = |(api, min_version, max_version): &(ApiKey, i16, i16)| ApiVersion {
            api_key: api.0,
            min_version: *min_version,
            max_version: *max_version,
            ..ApiVersion::default()
        };
        ApiVersionsResponse {
            api_keys: rows.iter().map(row).collect(),
            ..ApiVersionsResponse::default()
        }
    }

    fn body(response: &ApiVersionsResponse, version: i16) -> Bytes {
        let mut writer = Writer::new();
        response.encode(&mut writer, version).expect("it can be encoded");
        Bytes::from(writer.into_vec())
    }

    fn refusal(rows: &[(ApiKey, i16, i16)]) -> Bytes {
        let response =
            ApiVersionsResponse { error_code: ErrorCode::UNSUPPORTED_VERSION, ..table(rows) };
        body(&response, 0)
    }

    #[test]
    fn the_newest_version_is_asked_first_and_its_answer_read() {
        let mut negotiation = Negotiation::new();
        assert_eq!(negotiation.version(), NEWEST);
        let response = ApiVersionsResponse {
            finalized_features: vec![FinalizedFeatureKey {
                name: "transaction.version".to_owned(),
                max_version_level: 2,
                min_version_level: 1,
                ..FinalizedFeatureKey::default()
            }],
            ..table(&[(ApiKey::FETCH, 4, 18), (ApiKey::PRODUCE, 0, 13)])
        };
        match negotiation.answered(&body(&response, NEWEST)).expect("an answer") {
            Step::Done(versions) => {
                let offered = VersionRange { min: 0, max: 13 };
                assert_eq!(versions.of(ApiKey::PRODUCE), Some(offered));
                assert_eq!(versions.feature("transaction.version"), 2);
                assert_eq!(versions.feature("group.version"), 0);
            }
            other @ Step::AskAgain => panic!("{other:?}"),
        }
    }

    /// librdkafka#3283 (B70 a and b).
    #[test]
    fn a_refused_version_is_asked_once_more_at_the_common_one() {
        for (answer, next) in [
            (refusal(&[(ApiKey::API_VERSIONS, 0, 3)]), 3),
            (refusal(&[]), 0),
            (Bytes::from(&[0, 35, 0, 0, 0, 0][..]), 0),
            (Bytes::from(&[0, 35][..]), 0),
            // Refuses what it says it offers.
            (refusal(&[(ApiKey::API_VERSIONS, 0, 9)]), NEWEST - 1),
        ] {
            let mut negotiation = Negotiation::new();
            assert!(matches!(negotiation.answered(&answer), Ok(Step::AskAgain)));
            assert_eq!(negotiation.version(), next);
            let again = negotiation.answered(&answer).expect_err("refused twice");
            assert_eq!(again.kind(), ErrorKind::UnsupportedVersion);
        }
    }

    /// B70 c: some services hang up on a version that they do not know.
    #[test]
    fn a_broker_that_hangs_up_is_asked_the_same_and_then_version_0() {
        let mut negotiation = Negotiation::new();
        assert!(negotiation.ended());
        assert_eq!(negotiation.version(), NEWEST);
        assert!(negotiation.ended());
        assert_eq!(negotiation.version(), 0);
        assert!(!negotiation.ended());
    }

    #[test]
    fn other_errors_and_broken_answers_end_it() {
        let refused = ApiVersionsResponse {
            error_code: ErrorCode::INVALID_REQUEST,
            ..ApiVersionsResponse::default()
        };
        let error = Negotiation::new().answered(&body(&refused, NEWEST)).expect_err("code 42");
        assert_eq!(error.broker_code(), Some(ErrorCode::INVALID_REQUEST));
        for broken in [&[][..], &[0], &[0, 0, 1, 1], &[0, 0, 1, 0, 0, 0, 0, 0, 9]] {
            let error = Negotiation::new().answered(&Bytes::from(broken)).expect_err("broken");
            assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
        }
    }
}
