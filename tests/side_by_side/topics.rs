//! Versions, metadata, topics and their settings.

use ottla::protocol::messages::*;
use ottla::protocol::{Bytes, Uuid};

use crate::common::{servers, unique};
use crate::sides::{Both, Side, To};
use crate::{both, cluster};

/// Only whether there is a message.
fn some(message: &mut Option<String>) {
    if let Some(text) = message {
        text.clear();
    }
}

#[test]
fn versions() {
    let _calm = servers().calm();
    let kafka = cluster();
    let mut both = Both::new(servers().bootstrap(), kafka.bootstrap());
    let request = |_: &Side, version| ApiVersionsRequest {
        client_software_name: if version >= 3 { "side".to_owned() } else { String::new() },
        client_software_version: if version >= 3 { "1.0".to_owned() } else { String::new() },
        ..Default::default()
    };
    let served: Vec<i16> = {
        let side = Side::new(1, kafka.bootstrap());
        let answer = side.ask(To::Any, 0, &ApiVersionsRequest::default()).expect("an answer");
        answer.api_keys.iter().map(|api| api.api_key).collect()
    };
    let same = |answer: &mut ApiVersionsResponse| {
        answer.api_keys.retain(|api| served.contains(&api.api_key));
        answer.api_keys.sort_by_key(|api| api.api_key);
        let of_ours = |name: &str| name == "transaction.version";
        answer.supported_features.retain(|feature| of_ours(&feature.name));
        answer.finalized_features.retain(|feature| of_ours(&feature.name));
        answer.finalized_features_epoch = 0;
    };
    both.ask("the offer", To::Any, 0..=5, request, same);
    let unnamed = |_: &Side, _| ApiVersionsRequest::default();
    both.ask("no software name", To::Any, 3..=5, unnamed, same);
    let elsewhere = |_: &Side, _| ApiVersionsRequest {
        cluster_id: Some("another".to_owned()),
        node_id: 1,
        client_software_name: "side".to_owned(),
        client_software_version: "1".to_owned(),
        ..Default::default()
    };
    both.ask("another cluster", To::Any, [5], elsewhere, same);
    both.finish();
}

/// Both listen without SASL.
#[test]
fn authentication_that_nobody_asked_for() {
    let _calm = servers().calm();
    let kafka = cluster();
    let mut both = Both::new(servers().bootstrap(), kafka.bootstrap());
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "", "NONE"] {
        let shake = |_: &Side, _| SaslHandshakeRequest {
            mechanism: mechanism.to_owned(),
            ..Default::default()
        };
        both.ask(mechanism, To::Any, 0..=1, shake, |_| ());
    }
    let token = |_: &Side, _| SaslAuthenticateRequest {
        auth_bytes: Bytes::from(b"\0user\0word".to_vec()),
        ..Default::default()
    };
    both.ask("a token", To::Any, 0..=2, token, |answer| some(&mut answer.error_message));
    both.finish();
}

fn asked(names: &[&str]) -> MetadataRequest {
    let topic =
        |name: &&str| MetadataRequestTopic { name: Some((*name).to_owned()), ..Default::default() };
    MetadataRequest {
        topics: Some(names.iter().map(topic).collect()),
        allow_auto_topic_creation: true,
        ..Default::default()
    }
}

fn same_metadata(answer: &mut MetadataResponse) {
    answer.cluster_id = answer.cluster_id.take().map(|_| String::new());
    answer.controller_id = answer.controller_id.min(0);
    answer.brokers.sort_by_key(|broker| broker.node_id);
    for broker in &mut answer.brokers {
        broker.port = 0;
    }
    // The real one answers in the order of a hash table.
    answer.topics.sort_by(|a, b| a.name.cmp(&b.name));
    for topic in &mut answer.topics {
        topic.topic_id = if topic.topic_id.is_zero() { Uuid::ZERO } else { Uuid([1; 16]) };
        for partition in &mut topic.partitions {
            partition.leader_id = partition.leader_id.min(0);
            partition.leader_epoch = partition.leader_epoch.min(0);
            partition.replica_nodes.sort_unstable();
            partition.isr_nodes.sort_unstable();
        }
    }
}

#[test]
fn metadata() {
    let _calm = servers().calm();
    let (kafka, name) = (cluster(), unique("metadata"));
    let mut both = both(&kafka, &name);
    both.ask("a topic", To::Any, 0..=13, |_, _| asked(&[&name]), same_metadata);
    both.ask("no topics", To::Any, 1..=13, |_, _| asked(&[]), same_metadata);
    let wrong = ["missing-here", "", "a b", "..", &"n".repeat(250)];
    both.ask("wrong names", To::Any, [0, 1, 4, 9, 10, 12, 13], |_, _| asked(&wrong), same_metadata);
    both.ask("a name twice", To::Any, [1, 9, 13], |_, _| asked(&[&name, &name]), same_metadata);
    let by_id = |id: Uuid| MetadataRequest {
        topics: Some(vec![MetadataRequestTopic { topic_id: id, name: None, ..Default::default() }]),
        ..Default::default()
    };
    both.ask("by id", To::Any, 10..=13, |side, _| by_id(side.topic(&name).topic_id), same_metadata);
    both.ask("an unknown id", To::Any, 10..=13, |_, _| by_id(Uuid([9; 16])), same_metadata);
    let mixed = |side: &Side, _| {
        let mut request = by_id(side.topic(&name).topic_id);
        request.topics.as_mut().expect("some").extend(asked(&[&name]).topics.expect("some"));
        request
    };
    both.ask("id and name", To::Any, 12..=13, mixed, same_metadata);
    both.ask(
        "the cluster",
        To::Any,
        0..=2,
        |_, _| DescribeClusterRequest::default(),
        |answer| {
            answer.cluster_id.clear();
            answer.controller_id = answer.controller_id.min(0);
            answer.brokers.sort_by_key(|broker| broker.broker_id);
            answer.brokers.iter_mut().for_each(|broker| broker.port = 0);
            some(&mut answer.error_message);
        },
    );
    both.finish();
}

fn creatable(name: &str, partitions: i32, replication: i16) -> CreatableTopic {
    CreatableTopic {
        name: name.to_owned(),
        num_partitions: partitions,
        replication_factor: replication,
        ..Default::default()
    }
}

fn same_created(answer: &mut CreateTopicsResponse) {
    answer.topics.sort_by(|a, b| a.name.cmp(&b.name));
    for topic in &mut answer.topics {
        topic.topic_id = if topic.topic_id.is_zero() { Uuid::ZERO } else { Uuid([1; 16]) };
        some(&mut topic.error_message);
        // Which settings the file of a broker holds is no matter of the protocol.
        topic.configs = topic.configs.take().map(|_| Vec::new());
    }
}

#[test]
fn topics_made_and_deleted() {
    let _calm = servers().calm();
    let (kafka, name) = (cluster(), unique("made"));
    let mut both = both(&kafka, &name);
    let create = |what: &str,
                  versions: &[i16],
                  both: &mut Both,
                  topics: &dyn Fn(i16) -> Vec<CreatableTopic>| {
        let request = |_: &Side, version| CreateTopicsRequest {
            topics: topics(version),
            timeout_ms: 10_000,
            ..Default::default()
        };
        both.ask(what, To::Any, versions.iter().copied(), request, same_created);
    };
    let all = [2, 3, 4, 5, 6, 7];
    create("a topic", &all, &mut both, &|v| vec![creatable(&format!("{name}-{v}"), 2, 3)]);
    create("again", &all, &mut both, &|v| vec![creatable(&format!("{name}-{v}"), 2, 3)]);
    create("defaults", &[4, 7], &mut both, &|v| vec![creatable(&format!("{name}-d{v}"), 1, -1)]);
    create("wrong counts", &[2, 7], &mut both, &|_| {
        vec![
            creatable("w1", 0, 1),
            creatable("w2", -2, 1),
            creatable("w3", 1, 0),
            creatable("w4", 1, 9),
        ]
    });
    create("wrong names", &[2, 7], &mut both, &|_| {
        vec![creatable("", 1, 1), creatable("a/b", 1, 1), creatable(".", 1, 1)]
    });
    create("a name twice", &[2, 7], &mut both, &|_| {
        vec![creatable("two", 1, 1), creatable("two", 1, 1)]
    });
    let set = |name: &str, value: &str| CreatableTopicConfig {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        ..Default::default()
    };
    create("wrong settings", &[2, 7], &mut both, &|_| {
        [("retention.ms", "x"), ("no.such.setting", "1"), ("cleanup.policy", "burn")]
            .iter()
            .enumerate()
            .map(|(n, (setting, value))| CreatableTopic {
                configs: vec![set(setting, value)],
                ..creatable(&format!("s{n}"), 1, 1)
            })
            .collect()
    });
    create("assignments", &[2, 7], &mut both, &|v| {
        let place = |index, brokers: &[i32]| CreatableReplicaAssignment {
            partition_index: index,
            broker_ids: brokers.to_vec(),
            ..Default::default()
        };
        let with =
            |name: &str, assignments| CreatableTopic { assignments, ..creatable(name, -1, -1) };
        vec![
            with(&format!("{name}-a{v}"), vec![place(0, &[2, 1]), place(1, &[3, 2])]),
            with("a1", vec![place(0, &[1, 1])]),
            with("a2", vec![place(1, &[1])]),
            with("a3", vec![place(0, &[77])]),
            CreatableTopic { num_partitions: 1, ..with("a4", vec![place(0, &[1])]) },
        ]
    });
    let delete = |names: &[String]| DeleteTopicsRequest {
        topic_names: names.to_vec(),
        topics: names
            .iter()
            .map(|name| DeleteTopicState { name: Some(name.clone()), ..Default::default() })
            .collect(),
        timeout_ms: 10_000,
        ..Default::default()
    };
    let same = |answer: &mut DeleteTopicsResponse| {
        answer.responses.sort_by(|a, b| a.name.cmp(&b.name));
        for row in &mut answer.responses {
            row.topic_id = if row.topic_id.is_zero() { Uuid::ZERO } else { Uuid([1; 16]) };
            some(&mut row.error_message);
        }
    };
    let by_version = |_: &Side, version: i16| {
        let mut request = delete(&[format!("{name}-{}", version + 1), "missing-here".to_owned()]);
        if version >= 6 {
            request.topic_names.clear();
        } else {
            request.topics.clear();
        }
        request
    };
    both.ask("deleted", To::Any, 1..=6, by_version, same);
    let unknown = |_: &Side, _| DeleteTopicsRequest {
        topics: vec![DeleteTopicState { topic_id: Uuid([9; 16]), ..Default::default() }],
        timeout_ms: 10_000,
        ..Default::default()
    };
    both.ask("an unknown id", To::Any, [6], unknown, same);
    both.finish();
}

#[test]
fn partitions_and_settings() {
    let _calm = servers().calm();
    let (kafka, name) = (cluster(), unique("settings"));
    let mut both = both(&kafka, &name);
    let grow = |counts: &[(&str, i32)]| CreatePartitionsRequest {
        topics: counts
            .iter()
            .map(|(name, count)| CreatePartitionsTopic {
                name: (*name).to_owned(),
                count: *count,
                assignments: None,
                ..Default::default()
            })
            .collect(),
        timeout_ms: 10_000,
        ..Default::default()
    };
    let same = |answer: &mut CreatePartitionsResponse| {
        answer.results.sort_by(|a, b| a.name.cmp(&b.name));
        answer.results.iter_mut().for_each(|row| some(&mut row.error_message));
    };
    let grown = |_: &Side, version: i16| grow(&[(&name, i32::from(version) + 2)]);
    both.ask("more", To::Any, 0..=3, grown, same);
    let wrong = |_: &Side, _| grow(&[(&name, 1), ("missing-here", 3)]);
    both.ask("fewer, and none", To::Any, [0, 3], wrong, same);

    let alter = |resource_type, resource: &str, changes: &[(&str, i8, Option<&str>)]| {
        IncrementalAlterConfigsRequest {
            resources: vec![AlterConfigsResource {
                resource_type,
                resource_name: resource.to_owned(),
                configs: changes
                    .iter()
                    .map(|(name, config_operation, value)| AlterableConfig {
                        name: (*name).to_owned(),
                        config_operation: *config_operation,
                        value: value.map(str::to_owned),
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            }],
            ..Default::default()
        }
    };
    let same = |answer: &mut IncrementalAlterConfigsResponse| {
        answer.responses.iter_mut().for_each(|row| some(&mut row.error_message));
    };
    for (what, changes) in [
        ("set", &[("retention.ms", 0, Some("60000"))][..]),
        ("append", &[("cleanup.policy", 2, Some("compact"))]),
        ("subtract", &[("cleanup.policy", 3, Some("delete"))]),
        ("append to no list", &[("retention.ms", 2, Some("1"))]),
        ("a wrong value", &[("retention.ms", 0, Some("soon"))]),
        ("an unknown name", &[("no.such.setting", 0, Some("1"))]),
        ("an unknown operation", &[("retention.ms", 9, Some("1"))]),
        ("no value", &[("retention.ms", 0, None)]),
        ("one twice", &[("retention.ms", 0, Some("1")), ("retention.ms", 0, Some("2"))]),
    ] {
        both.ask(what, To::Any, 0..=1, |_, _| alter(2, &name, changes), same);
    }
    let missing = |_: &Side, _| alter(2, "missing-here", &[("retention.ms", 0, Some("1"))]);
    both.ask("no such topic", To::Any, 0..=1, missing, same);

    let describe = |resource_type, resource: &str, keys: &[&str]| DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type,
            resource_name: resource.to_owned(),
            configuration_keys: Some(keys.iter().map(|key| (*key).to_owned()).collect()),
            ..Default::default()
        }],
        ..Default::default()
    };
    let same = |answer: &mut DescribeConfigsResponse| {
        for row in &mut answer.results {
            some(&mut row.error_message);
            row.configs.sort_by(|a, b| a.name.cmp(&b.name));
            row.configs.iter_mut().for_each(|config| config.documentation = None);
        }
    };
    let keys =
        ["retention.ms", "cleanup.policy", "max.message.bytes", "flush.ms", "no.such.setting"];
    both.ask("described", To::Any, 1..=4, |_, _| describe(2, &name, &keys), same);
    both.ask("no such topic", To::Any, 1..=4, |_, _| describe(2, "missing-here", &keys), same);
    both.ask("no such type", To::Any, [1, 4], |_, _| describe(99, "x", &[]), same);
    both.finish();
}
