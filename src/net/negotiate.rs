//! The first exchange on a connection: which versions does the broker speak?
//!
//! ApiVersions is asked in our newest version. A broker that does not know it answers error 35 in
//! the form of version 0, with the range it knows or an empty list: then it is asked again once,
//! in the highest version of that range or in version 0. A broker that closes instead (Azure Event
//! Hubs) is connected to anew and asked once more, then in version 0 (the rule of franz-go).

use super::connection::Connection;
use super::versions::BrokerVersions;
use super::{Endpoint, Settings};
use crate::clock::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use crate::protocol::{ApiKey, ErrorCode};

/// The versions that are tried when the broker closes on ApiVersions, one connection each.
const ATTEMPTS: [i16; 3] = [4, 4, 0];

/// Connects and negotiates.
pub(super) fn open(
    endpoint: &Endpoint,
    settings: &Settings,
    deadline: Deadline,
) -> Result<Connection> {
    let mut failure = None;
    for version in ATTEMPTS {
        let mut connection = Connection::connect(endpoint, settings, deadline)?;
        match ask(&mut connection, version, deadline) {
            Ok(response) => {
                connection.learn(BrokerVersions::new(&response));
                return Ok(connection);
            }
            Err(error) if error.kind() == ErrorKind::Disconnected => failure = Some(error),
            Err(error) => return Err(error.with_broker(endpoint)),
        }
    }
    Err(failure.expect("a loop that ends has failed at least once"))
}

/// Asks in `version`, and once more in one that the broker's refusal names.
fn ask(
    connection: &mut Connection,
    version: i16,
    deadline: Deadline,
) -> Result<ApiVersionsResponse> {
    let request = ApiVersionsRequest {
        client_software_name: env!("CARGO_PKG_NAME").to_owned(),
        client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Default::default()
    };
    let response = connection.ask_versions(&request, version, deadline)?;
    if response.error_code != ErrorCode::UNSUPPORTED_VERSION {
        return checked(response, version);
    }
    let offered = response.api_keys.iter().find(|api| api.api_key == ApiKey::API_VERSIONS.0);
    let again = offered.map_or(0, |api| api.max_version.clamp(0, version));
    checked(connection.ask_versions(&request, again, deadline)?, again)
}

fn checked(response: ApiVersionsResponse, version: i16) -> Result<ApiVersionsResponse> {
    if response.error_code.is_ok() {
        return Ok(response);
    }
    Err(Error::from_code(response.error_code, None).with_api(ApiKey::API_VERSIONS, version))
}
