//! The thread `ottla-id`: asks a broker for a producer id, until there is one or it is certain that
//! there will be none.
//!
//! Any broker answers InitProducerId without a transactional id. Shortly after its start a broker
//! answers `COORDINATOR_LOAD_IN_PROGRESS` (14), because it has no block of ids yet; that and every
//! other passing failure is tried again while the producer lives. Batches that wait for it end by
//! `delivery.timeout.ms`.

use std::sync::Arc;

use super::core::Core;
use crate::clock::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::messages::InitProducerIdRequest;
use crate::protocol::{ErrorCode, VersionRange};

/// Versions in use; 6 is not stable yet.
const VERSIONS: VersionRange = VersionRange { min: 0, max: 5 };

/// The body of the thread.
pub(super) fn run(core: &Arc<Core>) {
    let mut failures = 0;
    while !core.stopped.is_set() {
        match ask(core) {
            Ok((id, epoch)) => {
                core.identities.answered(id, epoch);
                core.ring_all();
                return;
            }
            Err(error) if is_final(&error) => {
                core.refuse(&explain(error));
                return;
            }
            Err(error) => {
                log::warn!("producer: no producer id yet: {error}");
                failures += 1;
                core.stopped.wait(core.backoff(failures));
            }
        }
    }
    core.identities.unanswered();
}

fn ask(core: &Core) -> Result<(i64, i16)> {
    let deadline = Deadline::within(core.client.request_timeout);
    let request = InitProducerIdRequest {
        transactional_id: None,
        transaction_timeout_ms: i32::MAX,
        ..InitProducerIdRequest::default()
    };
    let response = core.cluster.call_any(&request, VERSIONS, deadline)?;
    if response.error_code != ErrorCode::NONE {
        return Err(Error::from_code(response.error_code, None));
    }
    if response.producer_id < 0 || response.producer_epoch < 0 {
        return Err(Error::new(ErrorKind::Protocol, "the broker gave a negative producer id"));
    }
    Ok((response.producer_id, response.producer_epoch))
}

/// Whether no later try can succeed.
fn is_final(error: &Error) -> bool {
    error.kind() == ErrorKind::UnsupportedVersion
        || (error.broker_code().is_some() && !error.is_retriable())
}

fn explain(error: Error) -> Error {
    if error.kind() != ErrorKind::UnsupportedVersion {
        return error;
    }
    let message = "the broker knows no idempotent producers; set enable.idempotence=false";
    Error::new(ErrorKind::UnsupportedVersion, message).with_source(error)
}
