//! Requests to the handlers themselves: no socket, no thread, the time as the test wants it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::broker::Release;
use crate::broker::call::{Api, Call, Outcome, Peer};
use crate::broker::state::{Settings, State};
use crate::clock;
use crate::protocol::messages::{
    FetchPartition, FetchRequest, FetchResponse, FetchTopic, InitProducerIdRequest, PartitionData,
    PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData,
};
use crate::protocol::records::{BatchBuilder, Compression, Compressor, stamp};
use crate::protocol::{Bytes, ErrorCode, Message, Writer};

/// The wall clock of these tests.
pub(super) const NOW_MS: i64 = 1_700_000_000_000;

/// A cluster without sockets.
pub(super) struct Asking {
    pub(super) state: State,
    pub(super) start: Instant,
    pub(super) now_ms: i64,
}

/// A producer's place in its stream: id, epoch, first sequence number.
pub(super) type Place = (i64, i16, i32);

impl Asking {
    /// Brokers 1 and 2 of `release` with topic `t` of two partitions, led by 1 and 2.
    pub(super) fn new(release: Release) -> Self {
        Self::with(release, &[])
    }

    /// As [`Asking::new`], the topic with settings.
    pub(super) fn with(release: Release, configs: &[(&str, &str)]) -> Self {
        let settings = Settings {
            auto_create_topics: false,
            partitions: 1,
            replication: 2,
            bytes_max: 1 << 20,
            group_session_timeout_ms_min: 6_000,
        };
        let mut state = State::new(release, settings, 1);
        state.broker_started(1, 9001);
        state.broker_started(2, 9002);
        let replicas = state.plan_topic("t", 2, 2).expect("a topic");
        let configs: BTreeMap<String, String> =
            configs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        state.create_topic("t", replicas, configs);
        Self { state, start: clock::now(), now_ms: NOW_MS }
    }

    /// One run of a request at broker 1, `after` its arrival.
    pub(super) fn run<R: Api>(
        &mut self,
        request: &mut R,
        version: i16,
        after: Option<Duration>,
    ) -> Outcome<R::Response> {
        let mut peer = Peer::default();
        self.state.expire_transactions(self.start + after.unwrap_or_default(), self.now_ms);
        request.handle(&mut Call {
            state: &mut self.state,
            broker: 1,
            version,
            peer: &mut peer,
            now: self.start + after.unwrap_or_default(),
            arrived: self.start,
            now_ms: self.now_ms,
            first: after.is_none(),
        })
    }

    /// The answer to a request that need not wait.
    pub(super) fn ask<R: Api>(&mut self, mut request: R, version: i16) -> R::Response {
        match self.run(&mut request, version, None) {
            Outcome::Answer(response) => {
                let written = response.encode(&mut Writer::new(), version);
                written.expect("the version has a place for all that is said");
                response
            }
            _ => panic!("there is an answer"),
        }
    }

    /// Produces `records` to a partition of `t` with version 12.
    pub(super) fn produce(&mut self, partition: i32, records: Bytes) -> PartitionProduceResponse {
        self.produce_as(12, -1, partition, records)
    }

    pub(super) fn produce_as(
        &mut self,
        version: i16,
        acks: i16,
        partition: i32,
        records: Bytes,
    ) -> PartitionProduceResponse {
        let answer = self.ask(produce(acks, partition, records), version);
        answer.responses[0].partition_responses[0].clone()
    }

    /// Gives the producer of a transactional id that broker 1 coordinates its id and epoch.
    pub(super) fn init(&mut self, id: &str) -> (i64, i16) {
        assert!(self.state.move_coordinator(id, 1), "broker 1 runs");
        let answer = self.ask(
            InitProducerIdRequest {
                transactional_id: Some(id.to_owned()),
                transaction_timeout_ms: 60_000,
                ..Default::default()
            },
            5,
        );
        assert_eq!(answer.error_code, ErrorCode::NONE);
        (answer.producer_id, answer.producer_epoch)
    }

    /// Fetches from partition 0 of `t` at once.
    pub(super) fn fetch(&mut self, offset: i64, committed: bool) -> PartitionData {
        let mut request = fetch(0, offset);
        request.isolation_level = i8::from(committed);
        let answer: FetchResponse = self.ask(request, 12);
        answer.responses[0].partitions[0].clone()
    }
}

/// A request that produces `records`.
pub(super) fn produce(acks: i16, partition: i32, records: Bytes) -> ProduceRequest {
    ProduceRequest {
        transactional_id: Some("x".to_owned()),
        acks,
        timeout_ms: 1000,
        topic_data: vec![TopicProduceData {
            name: "t".to_owned(),
            partition_data: vec![PartitionProduceData {
                index: partition,
                records: Some(records),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// A request that reads a partition, without waiting.
pub(super) fn fetch(partition: i32, fetch_offset: i64) -> FetchRequest {
    FetchRequest {
        max_bytes: 1 << 20,
        min_bytes: 1,
        topics: vec![FetchTopic {
            topic: "t".to_owned(),
            partitions: vec![FetchPartition {
                partition,
                fetch_offset,
                partition_max_bytes: 1 << 20,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// A batch of records with key `k` and these values, one millisecond apart.
pub(super) fn batch(values: &[&str]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Vec::new());
    for (index, value) in (0..).zip(values) {
        let value = Some(value.as_bytes());
        builder.append(NOW_MS + index, Some(b"k"), value, &[]).expect("room");
    }
    builder.finish(Compression::None, None, &mut Compressor::new()).expect("a batch")
}

/// A batch of `count` records of a producer.
pub(super) fn of_producer(place: Place, count: usize, transactional: bool) -> Bytes {
    let mut batch = batch(&vec!["v"; count]);
    stamp(&mut batch, place.0, place.1, place.2, transactional);
    Bytes::from(batch)
}
