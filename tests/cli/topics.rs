//! `ottla topics`.

use super::*;

#[test]
fn topics_are_created_as_asked_listed_and_deleted() {
    let _calm = servers().calm();
    let name = unique("cli-topics");
    let create = [
        "-t",
        &name,
        "--partitions",
        "3",
        "--replication",
        "2",
        "--config",
        "cleanup.policy=compact",
        "--config",
        "segment.bytes=1048576",
    ];
    let said = with_brokers(&["topics", "create"], &create, b"").ended_with(0);
    assert_eq!(said.words, format!("{name}: created\ncreated 1 of 1 topic\n"));
    assert_eq!(said.records, b"");

    let described = servers()
        .java_tool("org.apache.kafka.tools.TopicCommand", &["--describe", "--topic", &name]);
    let described = text(&described.stdout).into_owned();
    for part in [
        "PartitionCount: 3",
        "ReplicationFactor: 2",
        "cleanup.policy=compact",
        "segment.bytes=1048576",
    ] {
        assert!(described.contains(part), "{part} is not in {described}");
    }
    let list = || with_brokers(&["topics", "list"], &[], b"").ended_with(0);
    let listed = list();
    assert!(listed.lines().contains(&format!("{name}\t3\t2")), "{:?}", listed.lines());
    let count = listed.lines().len();
    assert_eq!(listed.words, format!("{count} topics (name, partitions, replicas)\n"));
    assert!(!listed.lines().iter().any(|line| line.starts_with("__")), "Kafka's own are left out");

    let again = with_brokers(&["topics", "create"], &create, b"").ended_with(1);
    let again = again.told(&[&format!("ottla: {name}: "), "TOPIC_ALREADY_EXISTS"]);
    assert_eq!(again.counts(), "created 0 of 1 topic");
    let again = [&create[..], &["--if-not-exists"]].concat();
    with_brokers(&["topics", "create"], &again, b"")
        .ended_with(0)
        .told(&[&format!("{name}: exists already")]);

    let delete = || with_brokers(&["topics", "delete"], &["-t", &name], b"");
    let said = delete().ended_with(0);
    assert_eq!(said.words, format!("{name}: deleted\ndeleted 1 of 1 topic\n"));
    wait_until("the topic is no longer listed", LIMIT, || {
        !list().lines().iter().any(|line| line.starts_with(&format!("{name}\t")))
    });
    let said = delete().ended_with(1).told(&[&format!("ottla: {name}: ")]);
    assert_eq!(said.counts(), "deleted 0 of 1 topic");
}

/// What is wrong is named with its topic, and the topics beside it are created all the same.
#[test]
fn a_wrong_setting_fails_its_topic_alone() {
    let _calm = servers().calm();
    let (good, bad) = (unique("cli-good"), "no/such+name");
    let said = with_brokers(&["topics", "create"], &["-t", bad, "-t", &good], b"").ended_with(1);
    let said = said.told(&[
        &format!("ottla: {bad}: "),
        "the name contains '/'",
        &format!("{good}: created"),
    ]);
    assert_eq!(said.counts(), "created 1 of 2 topics");

    let name = unique("cli-bad");
    for (arguments, told) in [
        (["--config", "retention.ms=soon"], "retention.ms"),
        (["--config", "no.such.setting=1"], "no.such.setting"),
        (["--partitions", "0"], "one partition at least"),
        (["--replication", "9"], "INVALID_REPLICATION_FACTOR"),
    ] {
        let arguments = [&["-t", &name], &arguments[..]].concat();
        let said = with_brokers(&["topics", "create"], &arguments, b"").ended_with(1);
        let said = said.told(&[&format!("ottla: {name}: "), told]);
        assert_eq!(said.counts(), "created 0 of 1 topic");
    }
    with_brokers(&["topics", "create"], &["-t", &name, "--config", "alone"], b"")
        .ended_with(2)
        .told(&["--config", "NAME=VALUE"]);
}
