//! The way of one request: observed, perhaps met by a fault, handled, answered.
//!
//! `apis!` lists what is served; everything else ends the connection, as Kafka does with what it does
//! not know. [`run`] is the loop around a handler that waits.

use std::time::{Duration, Instant};

use super::api::api_versions;
use super::call::{Api, Call, Outcome};
use super::connection::Connection;
use super::faults::{Action, Asked, Strike};
use super::sasl::Step;
use super::state::State;
use crate::clock::{self, Deadline};
use crate::protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, ApiVersionsRequest, CreatePartitionsRequest,
    CreateTopicsRequest, DeleteGroupsRequest, DeleteRecordsRequest, DeleteTopicsRequest,
    DescribeClusterRequest, DescribeConfigsRequest, DescribeGroupsRequest,
    DescribeProducersRequest, DescribeTransactionsRequest, EndTxnRequest, FetchRequest,
    FindCoordinatorRequest, HeartbeatRequest, IncrementalAlterConfigsRequest,
    InitProducerIdRequest, JoinGroupRequest, LeaveGroupRequest, ListGroupsRequest,
    ListOffsetsRequest, ListTransactionsRequest, MetadataRequest, OffsetCommitRequest,
    OffsetDeleteRequest, OffsetFetchRequest, OffsetForLeaderEpochRequest, ProduceRequest,
    SaslAuthenticateRequest, SaslHandshakeRequest, SyncGroupRequest, TxnOffsetCommitRequest,
};
use crate::protocol::{
    ApiKey, Bytes, Message, RequestHeader, ResponseHeader, TaggedFields, Writer,
};

/// So often may one request wait in a replay.
const REPLAY_WAITS_MAX: u32 = 1000;

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
    JOIN_GROUP JoinGroupRequest,
    HEARTBEAT HeartbeatRequest,
    LEAVE_GROUP LeaveGroupRequest,
    SYNC_GROUP SyncGroupRequest,
    DESCRIBE_GROUPS DescribeGroupsRequest,
    LIST_GROUPS ListGroupsRequest,
    API_VERSIONS ApiVersionsRequest,
    CREATE_TOPICS CreateTopicsRequest,
    DELETE_TOPICS DeleteTopicsRequest,
    DELETE_RECORDS DeleteRecordsRequest,
    INIT_PRODUCER_ID InitProducerIdRequest,
    OFFSET_FOR_LEADER_EPOCH OffsetForLeaderEpochRequest,
    ADD_PARTITIONS_TO_TXN AddPartitionsToTxnRequest,
    ADD_OFFSETS_TO_TXN AddOffsetsToTxnRequest,
    END_TXN EndTxnRequest,
    TXN_OFFSET_COMMIT TxnOffsetCommitRequest,
    DELETE_GROUPS DeleteGroupsRequest,
    OFFSET_DELETE OffsetDeleteRequest,
    DESCRIBE_CONFIGS DescribeConfigsRequest,
    SASL_HANDSHAKE SaslHandshakeRequest,
    SASL_AUTHENTICATE SaslAuthenticateRequest,
    CREATE_PARTITIONS CreatePartitionsRequest,
    INCREMENTAL_ALTER_CONFIGS IncrementalAlterConfigsRequest,
    DESCRIBE_CLUSTER DescribeClusterRequest,
    DESCRIBE_PRODUCERS DescribeProducersRequest,
    DESCRIBE_TRANSACTIONS DescribeTransactionsRequest,
    LIST_TRANSACTIONS ListTransactionsRequest,
}

/// Serves one request.
pub(super) fn serve(connection: &mut Connection, header: &RequestHeader, body: &Bytes) -> Reply {
    connection.peer.client_id.clone_from(&header.client_id);
    let (broker, number) = (connection.broker, connection.peer.connection);
    connection.shared.observed.lock().add(broker, number, header.clone(), body.clone());
    if let Err(why) = connection.peer.sasl.admit(header.api, clock::now()) {
        return Reply::Close(why);
    }
    let offered = connection.shared.state.lock().release.versions(header.api);
    match offered {
        Some(range) if range.contains(header.version) => {
            if header.api == ApiKey::API_VERSIONS {
                connection.peer.sasl.versions_told();
            }
            route(connection, header, body)
        }
        Some(_) if header.api == ApiKey::API_VERSIONS => {
            let release = connection.shared.state.lock().release;
            // In the form of version 0, which every client reads (KIP-511).
            answer(header, 0, &api_versions::unsupported(release))
        }
        _ => Reply::Close(format!("{} v{} is not served", header.api, header.version)),
    }
}

/// Serves a token of SASL that comes without a header, as after `SaslHandshake` version 0.
pub(super) fn serve_raw_token(connection: &mut Connection, token: &Bytes) -> Reply {
    let mut state = connection.shared.state.lock();
    match state.sasl_token(&mut connection.peer.sasl, token, clock::now()) {
        Step::Continue(token) | Step::Done(token, _) => {
            let mut writer = Writer::new();
            writer.put_be((token.len() as i32).to_be_bytes());
            writer.put(&token);
            Reply::Send(writer)
        }
        Step::Failed(why) => Reply::Close(why),
        Step::IllegalState => Reply::Close("a token out of turn".to_owned()),
    }
}

/// Runs the handler until it has an outcome, unless a fault strikes the request.
fn run<R: Api>(connection: &mut Connection, header: &RequestHeader, body: &Bytes) -> Reply {
    let mut request = match R::decode_all(body, header.version) {
        Ok(request) => request,
        Err(error) => return Reply::Close(format!("{} v{}: {error}", header.api, header.version)),
    };
    let shared = std::sync::Arc::clone(&connection.shared);
    let arrived = clock::now();
    let mut first = true;
    // Where nobody waits: the end of the last wait, and how many there were.
    let mut jumped: Option<Instant> = None;
    let mut jumps = 0;
    // `None` until the broker came to look at the request; it may be frozen when it arrives.
    let mut strike: Option<Option<Strike>> = None;
    let mut state = shared.state.lock();
    loop {
        if state.incarnation(connection.broker) != connection.incarnation {
            return Reply::Close("the broker stops".to_owned());
        }
        if state.is_frozen(connection.broker) {
            shared.changed.wait(&mut state);
            continue;
        }
        let strike = strike.get_or_insert_with(|| {
            let strike = find_strike(&state, &request, connection.broker, header);
            if strike.is_some() {
                // Whoever counts the strikes waits for this.
                shared.changed.notify_all();
            }
            strike
        });
        if let Some(strike) = strike
            && !strike.is_over()
            && let until = arrived + strike.delay
            && clock::now() < until
        {
            shared.changed.wait_until(&mut state, until);
            continue;
        }
        let action = strike.as_ref().map_or(Action::Serve, |strike| strike.action.clone());
        if action == Action::DropBefore {
            return Reply::Close("a fault".to_owned());
        }
        let changes = state.changes();
        let (now, now_ms) = (jumped.unwrap_or_else(clock::now), clock::unix_ms());
        // What is due is done before anybody looks.
        state.expire_transactions(now, now_ms);
        let mut call = Call {
            state: &mut state,
            broker: connection.broker,
            version: header.version,
            peer: &mut connection.peer,
            now,
            arrived,
            now_ms,
            first,
        };
        let outcome = match action {
            Action::Answer(_) if !request.has_answer() => Outcome::Close("a fault"),
            Action::Answer(error) => Outcome::Answer(request.refuse(error, &mut call)),
            _ => request.handle(&mut call),
        };
        first = false;
        if state.changes() != changes {
            shared.changed.notify_all();
        }
        match outcome {
            Outcome::Answer(mut response) => {
                drop(state);
                if let (Action::Throttle(time), Some(strike)) = (&action, &strike) {
                    R::throttle(&mut response, i32::try_from(time.as_millis()).unwrap_or(i32::MAX));
                    if let Some(why) = wait_for_client(connection, header, strike, *time) {
                        return Reply::Close(why);
                    }
                }
                if let Action::Spoil(how) = &action {
                    R::spoil(&mut response, how);
                }
                return damaged(answer(header, header.version, &response), &action);
            }
            Outcome::AnswerAndClose(response, why) => {
                drop(state);
                return match damaged(answer(header, header.version, &response), &action) {
                    Reply::Send(writer) => Reply::SendAndClose(writer, why.to_owned()),
                    other => other,
                };
            }
            Outcome::Silence if matches!(action, Action::Damage(_)) => {
                return Reply::Close("a fault".to_owned());
            }
            Outcome::Silence => return Reply::Silence,
            Outcome::Close(why) => return Reply::Close(why.to_owned()),
            Outcome::Wait(_) if connection.is_replay && jumps == REPLAY_WAITS_MAX => {
                return Reply::Close("it waits on and on".to_owned());
            }
            Outcome::Wait(until) if connection.is_replay => {
                let until = until.min(state.next_expiry().unwrap_or(until));
                jumped = Some(jumped.map_or(until, |before| before.max(until)));
                jumps += 1;
            }
            Outcome::Wait(until) => {
                let until = until.min(state.next_expiry().unwrap_or(until));
                shared.changed.wait_until(&mut state, until);
            }
        }
    }
}

/// The fault that strikes `request`, if one does.
fn find_strike<R: Api>(
    state: &State,
    request: &R,
    broker: i32,
    header: &RequestHeader,
) -> Option<Strike> {
    if state.faults.is_empty() {
        return None;
    }
    let client_id = header.client_id.as_deref();
    let topics = request.topics(state);
    state.faults.strike(&Asked { api: header.api, broker, client_id, topics })
}

/// Waits out a throttle time for a client whose version of the request leaves that to the broker; gives
/// the reason when the connection ends meanwhile.
fn wait_for_client(
    connection: &Connection,
    header: &RequestHeader,
    strike: &Strike,
    time: Duration,
) -> Option<String> {
    let facts = header.api.facts();
    if facts.is_none_or(|facts| facts.client_throttles.contains(header.version)) {
        return None;
    }
    let until = Deadline::within(time).instant();
    let shared = &connection.shared;
    let mut state = shared.state.lock();
    loop {
        if state.incarnation(connection.broker) != connection.incarnation {
            return Some("the broker stops".to_owned());
        }
        if strike.is_over() || shared.changed.wait_until(&mut state, until).timed_out() {
            return None;
        }
    }
}

/// The answer as a fault leaves it.
fn damaged(reply: Reply, action: &Action) -> Reply {
    let (Reply::Send(writer), Action::Damage(damage)) = (&reply, action) else { return reply };
    let mut bytes: Vec<u8> = writer.pieces().flatten().copied().collect();
    let goes_on = damage.inflict(&mut bytes);
    let mut writer = Writer::new();
    writer.put(&bytes);
    if goes_on { Reply::Send(writer) } else { Reply::SendAndClose(writer, "a fault".to_owned()) }
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
