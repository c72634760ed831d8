//! Topics made and changed, settings told and altered, in the words of Kafka 4.4.0.

use super::asking::Asking;
use crate::broker::Release;
use crate::protocol::ErrorCode;
use crate::protocol::messages::{
    AlterConfigsResource, AlterableConfig, CreatableTopic, CreatableTopicConfig,
    CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic,
    CreatePartitionsTopicResult, CreateTopicsRequest, DescribeClusterRequest,
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult,
    DescribeConfigsResult, IncrementalAlterConfigsRequest,
};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;

fn asking() -> Asking {
    Asking::new(Release::V4_4)
}

fn grow(
    asking: &mut Asking,
    name: &str,
    count: i32,
    replicas: Option<&[&[i32]]>,
) -> CreatePartitionsTopicResult {
    let assigned = |ids: &&[i32]| CreatePartitionsAssignment {
        broker_ids: ids.to_vec(),
        ..Default::default()
    };
    let topic = CreatePartitionsTopic {
        name: name.to_owned(),
        count,
        assignments: replicas.map(|all| all.iter().map(assigned).collect()),
        ..Default::default()
    };
    let request = CreatePartitionsRequest { topics: vec![topic], ..Default::default() };
    asking.ask(request, 3).results.remove(0)
}

#[test]
fn a_topic_grows_and_never_shrinks() {
    let mut asking = asking();
    for (name, count, replicas, code, message) in [
        ("t", 2, None, ErrorCode::INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        (
            "t",
            1,
            None,
            ErrorCode::INVALID_PARTITIONS,
            "The topic t currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            "t",
            4,
            Some(&[&[1, 2][..]][..]),
            ErrorCode::INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            "t",
            3,
            Some(&[&[77, 1][..]][..]),
            ErrorCode::INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 77, but no such broker is registered.",
        ),
        (
            "t",
            3,
            Some(&[&[1, 1][..]][..]),
            ErrorCode::INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            "t",
            3,
            Some(&[&[1][..]][..]),
            ErrorCode::INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes a partition with 1 replica(s), but this is not \
             consistent with previous partitions, which have 2 replica(s).",
        ),
    ] {
        let refused = grow(&mut asking, name, count, replicas);
        assert_eq!((refused.error_code, refused.error_message.as_deref()), (code, Some(message)));
    }
    let unknown = grow(&mut asking, "nonesuch", 3, None);
    assert_eq!(unknown.error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    let more = grow(&mut asking, "t", 3, Some(&[&[2, 1]]));
    assert_eq!((more.error_code, more.error_message), (ErrorCode::NONE, None));
    assert_eq!(grow(&mut asking, "t", 5, None).error_code, ErrorCode::NONE);
    let topic = &asking.state.topics()["t"];
    assert_eq!(topic.partitions.len(), 5);
    assert_eq!((topic.partitions[2].leader, topic.partitions[2].leader_epoch), (2, 0));
    assert!(topic.partitions.iter().all(|partition| partition.leader > 0));
}

fn describe(asking: &mut Asking, kind: i8, name: &str) -> DescribeConfigsResult {
    let resource = DescribeConfigsResource {
        resource_type: kind,
        resource_name: name.to_owned(),
        configuration_keys: None,
        ..Default::default()
    };
    let request = DescribeConfigsRequest {
        resources: vec![resource],
        include_synonyms: true,
        ..Default::default()
    };
    asking.ask(request, 4).results.remove(0)
}

fn setting(asking: &mut Asking, kind: i8, of: &str, name: &str) -> DescribeConfigsResourceResult {
    let all = describe(asking, kind, of).configs;
    all.into_iter().find(|config| config.name == name).expect("the setting")
}

/// Code and message.
type Refused = (ErrorCode, Option<String>);

fn alter(
    asking: &mut Asking,
    (kind, of): (i8, &str),
    operation: i8,
    name: &str,
    value: Option<&str>,
) -> Refused {
    let config = AlterableConfig {
        name: name.to_owned(),
        config_operation: operation,
        value: value.map(str::to_owned),
        ..Default::default()
    };
    let resource = AlterConfigsResource {
        resource_type: kind,
        resource_name: of.to_owned(),
        configs: vec![config],
        ..Default::default()
    };
    let request =
        IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    let row = asking.ask(request, 1).responses.remove(0);
    (row.error_code, row.error_message)
}

#[test]
fn a_value_is_told_with_its_source_and_with_what_stands_behind() {
    let mut asking = asking();
    let retention = |asking: &mut Asking| {
        let row = setting(asking, TOPIC, "t", "retention.bytes");
        let behind: Vec<(String, i8)> =
            row.synonyms.into_iter().map(|one| (one.value.expect("told"), one.source)).collect();
        (row.value.expect("told"), row.config_source, behind)
    };
    let default = || ("-1".to_owned(), 5);
    assert_eq!(retention(&mut asking), ("-1".to_owned(), 5, vec![default()]));
    let done = (ErrorCode::NONE, None);
    let name = "log.retention.bytes";
    assert_eq!(alter(&mut asking, (BROKER, ""), 0, name, Some("3")), done);
    assert_eq!(alter(&mut asking, (BROKER, "1"), 0, name, Some("2")), done);
    assert_eq!(alter(&mut asking, (TOPIC, "t"), 0, "retention.bytes", Some("1")), done);
    let mut all: Vec<(String, i8)> =
        (1..=3).map(|value: i8| (value.to_string(), value)).chain([default()]).collect();
    assert_eq!(retention(&mut asking), ("1".to_owned(), 1, all.clone()));
    assert_eq!(alter(&mut asking, (TOPIC, "t"), 1, "retention.bytes", None), done);
    all.remove(0);
    assert_eq!(retention(&mut asking), ("2".to_owned(), 2, all));
    // Without a default of the brokers, nothing stands behind.
    let row = setting(&mut asking, TOPIC, "t", "retention.ms");
    assert_eq!((row.value.as_deref(), row.config_source), (Some("604800000"), 5));
    assert!(row.synonyms.is_empty());
    assert_eq!(row.config_type, 5, "a long");
    assert_eq!(describe(&mut asking, TOPIC, "t").configs.len(), 37);
}

#[test]
fn a_broker_tells_its_own_settings_and_keeps_back_what_it_does_not_know() {
    let mut asking = asking();
    let row = setting(&mut asking, BROKER, "1", "node.id");
    assert_eq!((row.value.as_deref(), row.config_source, row.read_only), (Some("1"), 4, true));
    assert!(describe(&mut asking, BROKER, "").configs.is_empty());
    assert_eq!(alter(&mut asking, (BROKER, "1"), 0, "nope", Some("secret")).0, ErrorCode::NONE);
    let row = setting(&mut asking, BROKER, "1", "nope");
    assert_eq!((row.value, row.is_sensitive), (None, true));
    for (kind, name, code, message) in [
        (
            BROKER,
            "77",
            ErrorCode::INVALID_REQUEST,
            "Unexpected broker id, expected 1 or empty string, but received 77",
        ),
        (BROKER, "x", ErrorCode::INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
        (TOPIC, "nonesuch", ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ""),
        (
            TOPIC,
            "",
            ErrorCode::INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: the empty string is not allowed",
        ),
    ] {
        let refused = describe(&mut asking, kind, name);
        assert_eq!((refused.error_code, refused.error_message.as_deref()), (code, Some(message)));
    }
}

#[test]
fn settings_are_altered_one_by_one_or_refused_in_kafkas_words() {
    let mut asking = asking();
    let topic = (TOPIC, "t");
    let policy =
        |asking: &mut Asking| setting(asking, TOPIC, "t", "cleanup.policy").value.expect("told");
    alter(&mut asking, topic, 2, "cleanup.policy", Some("compact"));
    assert_eq!(policy(&mut asking), "delete,compact", "appended to the default");
    alter(&mut asking, topic, 3, "cleanup.policy", Some("delete"));
    assert_eq!(policy(&mut asking), "compact");
    alter(&mut asking, topic, 1, "cleanup.policy", None);
    assert_eq!(policy(&mut asking), "delete");
    for (resource, operation, name, value, code, message) in [
        (topic, 0, "nope", Some("1"), ErrorCode::INVALID_CONFIG, "Unknown topic config name: nope"),
        (
            topic,
            2,
            "retention.ms",
            Some("1"),
            ErrorCode::INVALID_CONFIG,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            topic,
            0,
            "retention.ms",
            None,
            ErrorCode::INVALID_REQUEST,
            "Null value not supported for : retention.ms",
        ),
        (
            (TOPIC, "nonesuch"),
            0,
            "retention.ms",
            Some("1"),
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            "The topic 'nonesuch' does not exist.",
        ),
        (
            (TOPIC, ""),
            0,
            "retention.ms",
            Some("1"),
            ErrorCode::INVALID_REQUEST,
            "Default topic resources are not allowed.",
        ),
        (
            (BROKER, "77"),
            0,
            "log.retention.ms",
            Some("1"),
            ErrorCode::INVALID_REQUEST,
            "Unexpected broker id, expected 1, but received 77",
        ),
        (
            (BROKER, "1"),
            0,
            "log.dirs",
            Some("1"),
            ErrorCode::INVALID_REQUEST,
            "Cannot update these configs dynamically: [log.dirs]",
        ),
        (
            (BROKER, "1"),
            0,
            "log.retention.ms",
            Some("abc"),
            ErrorCode::INVALID_REQUEST,
            "Invalid value abc for configuration log.retention.ms: Not a number of type LONG",
        ),
        ((7, "q"), 0, "a", Some("1"), ErrorCode::INVALID_REQUEST, "Unknown resource type 7"),
    ] {
        let refused = alter(&mut asking, resource, operation, name, value);
        assert_eq!(refused, (code, Some(message.to_owned())));
    }
    let request = || AlterConfigsResource {
        resource_type: TOPIC,
        resource_name: "t".to_owned(),
        ..Default::default()
    };
    let twice = IncrementalAlterConfigsRequest {
        resources: vec![request(), request()],
        ..Default::default()
    };
    let rows = asking.ask(twice, 1).responses;
    assert!(rows.iter().all(|row| row.error_code == ErrorCode::INVALID_REQUEST) && rows.len() == 2);
}

#[test]
fn a_topic_with_a_wrong_setting_is_not_made_and_one_with_right_ones_tells_them() {
    let mut asking = asking();
    let mut make = |name: &str, partitions: i32, setting: &str, value: Option<&str>| {
        let config = CreatableTopicConfig {
            name: setting.to_owned(),
            value: value.map(str::to_owned),
            ..Default::default()
        };
        let topic = CreatableTopic {
            name: name.to_owned(),
            num_partitions: partitions,
            replication_factor: 1,
            configs: vec![config],
            ..Default::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], ..Default::default() };
        asking.ask(request, 7).topics.remove(0)
    };
    for (partitions, setting, value, message) in [
        // The settings are looked at before the counts.
        (0, "nope", Some("1"), "Unknown topic config name: nope"),
        (1, "retention.ms", None, "Null value not supported for topic configs: retention.ms"),
        (
            1,
            "remote.storage.enable",
            Some("true"),
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with \
             remote log storage.",
        ),
    ] {
        let row = make("n", partitions, setting, value);
        assert_eq!(row.error_code, ErrorCode::INVALID_CONFIG);
        assert_eq!(row.error_message.as_deref(), Some(message));
    }
    let row = make("t", 1, "nope", Some("1"));
    assert_eq!(row.error_code, ErrorCode::TOPIC_ALREADY_EXISTS, "that comes first");
    let row = make("n", 1, "retention.ms", Some(" 5000 "));
    let configs = row.configs.expect("told");
    assert_eq!(configs.len(), 37);
    let retention = configs.iter().find(|one| one.name == "retention.ms").expect("told");
    assert_eq!((retention.value.as_deref(), retention.config_source), (Some("5000"), 1));
    assert_eq!(asking.state.topics()["n"].configs["retention.ms"], "5000");
}

#[test]
fn the_cluster_is_described_to_those_who_want_brokers() {
    let mut asking = asking();
    let mut ask = |endpoint_type: i8| {
        let request = DescribeClusterRequest {
            include_cluster_authorized_operations: true,
            endpoint_type,
            ..Default::default()
        };
        asking.ask(request, 2)
    };
    let answer = ask(1);
    let brokers: Vec<(i32, i32)> =
        answer.brokers.iter().map(|broker| (broker.broker_id, broker.port)).collect();
    assert_eq!(brokers, [(1, 9001), (2, 9002)]);
    assert_eq!((answer.controller_id, answer.cluster_authorized_operations), (1, 0x1fa0));
    assert_eq!(ask(2).error_code, ErrorCode::MISMATCHED_ENDPOINT_TYPE);
    assert_eq!(ask(3).error_code, ErrorCode::UNSUPPORTED_ENDPOINT_TYPE);
}
