//! `Metadata`, API 3, versions 0-13: brokers, topics, partitions, leaders.
//!
//! Any broker answers, from the one state. Topics are asked for by name, or (version 12 on) by id; one id
//! among the entries makes those by name be left out, as Kafka does; in versions 10 and 11 an id is
//! refused. One that is asked for twice is answered once. A topic that is not there is made when both the request and the broker allow it; this
//! answer then still says `UNKNOWN_TOPIC_OR_PARTITION` (`LEADER_NOT_AVAILABLE` before 2.8).

use std::collections::BTreeSet;

use super::super::call::{Api, Call, Outcome};
use super::super::release::Release;
use super::super::state::{Partition, State, Topic};
use crate::protocol::messages::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker,
    MetadataResponsePartition, MetadataResponseTopic,
};
use crate::protocol::{ErrorCode, Uuid};

impl Api for MetadataRequest {
    fn handle(&mut self, call: &mut Call<'_>) -> Outcome<MetadataResponse> {
        let named = match &self.topics {
            None => None,
            Some(topics) if topics.is_empty() && call.version == 0 => None,
            Some(topics) => Some(topics),
        };
        if call.version < 12
            && named.is_some_and(|topics| {
                topics.iter().any(|topic| topic.name.is_none() || !topic.topic_id.is_zero())
            })
        {
            return Outcome::Answer(self.refuse(ErrorCode::INVALID_REQUEST, call));
        }
        let rows = match named {
            None => {
                let state = &*call.state;
                state.topics().iter().map(|(name, topic)| row(state, name, topic)).collect()
            }
            Some(topics) => self.rows(topics, call),
        };
        Outcome::Answer(MetadataResponse { topics: rows, ..head(call.state) })
    }

    fn refuse(&self, error: ErrorCode, _call: &mut Call<'_>) -> MetadataResponse {
        let refused = |topic: &MetadataRequestTopic| MetadataResponseTopic {
            error_code: error,
            name: Some(topic.name.clone().unwrap_or_default()),
            topic_id: topic.topic_id,
            ..Default::default()
        };
        MetadataResponse {
            topics: self.topics.iter().flatten().map(refused).collect(),
            ..Default::default()
        }
    }

    fn topics(&self, state: &State) -> Vec<String> {
        let resolve = |topic: &MetadataRequestTopic| match &topic.name {
            Some(name) => Some(name.clone()),
            None => state.name_of(topic.topic_id).map(str::to_owned),
        };
        self.topics.iter().flatten().filter_map(resolve).collect()
    }

    fn throttle(response: &mut MetadataResponse, time_ms: i32) {
        response.throttle_time_ms = time_ms;
    }
}

trait Rows {
    fn rows(
        &self,
        topics: &[MetadataRequestTopic],
        call: &mut Call<'_>,
    ) -> Vec<MetadataResponseTopic>;
}

impl Rows for MetadataRequest {
    fn rows(
        &self,
        topics: &[MetadataRequestTopic],
        call: &mut Call<'_>,
    ) -> Vec<MetadataResponseTopic> {
        let by_id = topics.iter().any(|topic| !topic.topic_id.is_zero());
        if by_id {
            let mut seen = BTreeSet::new();
            let ids = topics.iter().map(|topic| topic.topic_id);
            let ids = ids.filter(|id| !id.is_zero() && seen.insert(*id));
            return ids.map(|id| row_by_id(call.state, id)).collect();
        }
        // Versions below 4 have no flag and mean yes.
        let may_create = call.version < 4 || self.allow_auto_topic_creation;
        let mut seen = BTreeSet::new();
        let names = topics.iter().filter_map(|topic| topic.name.as_deref());
        let once = names.filter(|name| seen.insert(*name));
        once.map(|name| row_by_name(call.state, name, may_create)).collect()
    }
}

/// All but the topics.
fn head(state: &State) -> MetadataResponse {
    let brokers = state.live().map(|(id, node)| MetadataResponseBroker {
        node_id: id,
        host: "127.0.0.1".to_owned(),
        port: i32::from(node.port),
        rack: None,
        ..Default::default()
    });
    MetadataResponse {
        brokers: brokers.collect(),
        cluster_id: Some(state.cluster_id.clone()),
        controller_id: state.controller(),
        ..Default::default()
    }
}

fn row_by_id(state: &State, id: Uuid) -> MetadataResponseTopic {
    match state.name_of(id).and_then(|name| Some((name, state.topics().get(name)?))) {
        Some((name, topic)) => row(state, name, topic),
        None => MetadataResponseTopic {
            error_code: ErrorCode::UNKNOWN_TOPIC_ID,
            name: None,
            topic_id: id,
            ..Default::default()
        },
    }
}

fn row_by_name(state: &mut State, name: &str, may_create: bool) -> MetadataResponseTopic {
    if let Some(topic) = state.topics().get(name) {
        return row(state, name, topic);
    }
    let missing = |error_code| MetadataResponseTopic {
        error_code,
        name: Some(name.to_owned()),
        ..Default::default()
    };
    let planned = state.plan_topic(name, -1, -1);
    match planned {
        Err(error) if error.code == ErrorCode::INVALID_TOPIC_EXCEPTION => missing(error.code),
        Ok(replicas) if may_create && state.settings.auto_create_topics => {
            state.create_topic(name, replicas, std::collections::BTreeMap::new());
            missing(if state.release < Release::V2_8 {
                ErrorCode::LEADER_NOT_AVAILABLE
            } else {
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            })
        }
        Err(error) if may_create && state.settings.auto_create_topics => missing(error.code),
        _ => missing(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
    }
}

fn row(state: &State, name: &str, topic: &Topic) -> MetadataResponseTopic {
    let partitions = topic.partitions.iter().enumerate();
    MetadataResponseTopic {
        name: Some(name.to_owned()),
        topic_id: if state.release.has_topic_ids() { topic.id } else { Uuid::ZERO },
        is_internal: name.starts_with("__"),
        partitions: partitions.map(|(index, partition)| part(state, index, partition)).collect(),
        ..Default::default()
    }
}

fn part(state: &State, index: usize, partition: &Partition) -> MetadataResponsePartition {
    let in_sync = state.in_sync(partition);
    let leaderless = partition.leader < 0;
    MetadataResponsePartition {
        error_code: if leaderless { ErrorCode::LEADER_NOT_AVAILABLE } else { ErrorCode::NONE },
        partition_index: index as i32,
        leader_id: partition.leader,
        leader_epoch: partition.leader_epoch,
        replica_nodes: partition.replicas.clone(),
        offline_replicas: partition
            .replicas
            .iter()
            .copied()
            .filter(|replica| !in_sync.contains(replica))
            .collect(),
        isr_nodes: in_sync,
        ..Default::default()
    }
}
