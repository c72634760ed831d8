//! The way of one request: observed, perhaps met by a fault, handled, answered.
//!
//! `apis!` lists what is served; everything else ends the connection, as Kafka does with what it does
//! not know. [`run`] is the loop around a handler that waits.

use super::api::api_versions;
use super::call::{Api, Call, Outcome};
use super::connection::Connection;
use crate::clock;
use crate::protocol::messages::{
    ApiVersionsRequest, CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest,
    DescribeProducersRequest, FetchRequest, FindCoordinatorRequest, InitProducerIdRequest,
    ListOffsetsRequest, MetadataRequest, OffsetCommitRequest, OffsetFetchRequest,
    OffsetForLeaderEpochRequest, ProduceRequest,
};
use crate::protocol::{
    ApiKey, Bytes, Message, RequestHeader, ResponseHeader, TaggedFields, Writer,
};

/// What goes back to the peer.
#[derive(Debug)]
pub(super) enum Reply {
    /// An answer, with its size in front.
    Send(Writer),
    /// An answer, after which the connection ends.
    SendAndClose(Writer, String),
    /// Nothing; the next request is read.
    Silence,
    /// Nothing; the connection ends.
    Close(String),
}

macro_rules! apis {
    ($($key:ident $request:ident,)+) => {
        /// The APIs that are served.
        pub(super) const SERVED: &[ApiKey] = &[$(ApiKey::$key,)+];

        fn route(connection: &mut Connection, header: &RequestHeader, body: &Bytes) -> Reply {
            match header.api {
                $(ApiKey::$key => run::<$request>(connection, header, body),)+
                other => Reply::Close(format!("{other} is not served")),
            }
        }
    };
}

apis! {
    PRODUCE ProduceRequest,
    FETCH FetchRequest,
    LIST_OFFSETS ListOffsetsRequest,
    METADATA MetadataRequest,
    OFFSET_COMMIT OffsetCommitRequest,
    OFFSET_FETCH OffsetFetchRequest,
    FIND_COORDINATOR FindCoordinatorRequest,
    API_VERSIONS ApiVersionsRequest,
    CREATE_TOPICS CreateTopicsRequest,
    DELETE_TOPICS DeleteTopicsRequest,
    DELETE_RECORDS DeleteRecordsRequest,
    INIT_PRODUCER_ID InitProducerIdRequest,
    OFFSET_FOR_LEADER_EPOCH OffsetForLeaderEpochRequest,
    DESCRIBE_PRODUCERS DescribeProducersRequest,
}

/// Serves one request.
pub(super) fn serve(connection: &mut Connection, header: &RequestHeader, body: &Bytes) -> Reply {
    connection.peer.client_id.clone_from(&header.client_id);
    let (broker, number) = (connection.broker, connection.peer.connection);
    connection.shared.observed.lock().add(broker, number, header.clone(), body.clone());
    let offered = connection.shared.state.lock().release.versions(header.api);
    match offered {
        Some(range) if range.contains(header.version) => route(connection, header, body),
        Some(_) if header.api == ApiKey::API_VERSIONS => {
            let release = connection.shared.state.lock().release;
            // In the form of version 0, which every client reads (KIP-511).
            answer(header, 0, &api_versions::unsupported(release))
        }
        _ => Reply::Close(format!("{} v{} is not served", header.api, header.version)),
    }
}

/// Runs the handler until it has an outcome.
fn run<R: Api>(connection: &mut Connection, header: &RequestHeader, body: &Bytes) -> Reply {
    let mut request = match R::decode_all(body, header.version) {
        Ok(request) => request,
        Err(error) => return Reply::Close(format!("{} v{}: {error}", header.api, header.version)),
    };
    let shared = std::sync::Arc::clone(&connection.shared);
    let arrived = clock::now();
    let mut first = true;
    let mut state = shared.state.lock();
    loop {
        if state.incarnation(connection.broker) != connection.incarnation {
            return Reply::Close("the broker stops".to_owned());
        }
        if state.is_frozen(connection.broker) {
            shared.changed.wait(&mut state);
            continue;
        }
        let changes = state.changes();
        let mut call = Call {
            state: &mut state,
            broker: connection.broker,
            version: header.version,
            peer: &mut connection.peer,
            now: clock::now(),
            arrived,
            now_ms: clock::unix_ms(),
            first,
        };
        let outcome = request.handle(&mut call);
        first = false;
        if state.changes() != changes {
            shared.changed.notify_all();
        }
        match outcome {
            Outcome::Answer(response) => {
                drop(state);
                return answer(header, header.version, &response);
            }
            Outcome::Silence => return Reply::Silence,
            Outcome::Close(why) => return Reply::Close(why.to_owned()),
            Outcome::Wait(until) => {
                shared.changed.wait_until(&mut state, until);
            }
        }
    }
}

/// The answer as it travels.
fn answer<M: Message>(header: &RequestHeader, version: i16, body: &M) -> Reply {
    let mut writer = Writer::new();
    writer.put_be([0; 4]);
    let head = ResponseHeader {
        correlation_id: header.correlation_id,
        tagged_fields: TaggedFields::default(),
    };
    let written = head
        .encode(&mut writer, header.api, version)
        .and_then(|()| body.encode(&mut writer, version));
    match written {
        Ok(()) => {
            writer.set_i32(0, writer.len() as i32 - 4);
            Reply::Send(writer)
        }
        Err(error) => {
            log::error!("the broker's answer to {} v{version} cannot be sent: {error}", header.api);
            Reply::Close(format!("an answer that cannot be sent: {error}"))
        }
    }
}
