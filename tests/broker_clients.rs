//! Other people's clients, unchanged, on the in-process cluster: kcat (librdkafka) and Kafka's own Java tools.

mod common;

use common::{java_tool_at, kcat_at, succeeded, text};
use ottla::broker::Cluster;

const TOOLS: &str = "org.apache.kafka.tools";

fn cluster() -> Cluster {
    Cluster::builder().brokers(3).topic("t", 3).start().expect("a cluster")
}

/// What a class of Kafka's tools prints, when it succeeds.
fn java(kafka: &Cluster, class: &str, arguments: &[&str], stdin: &[u8]) -> String {
    let class = format!("{TOOLS}.{class}");
    let output = succeeded(java_tool_at(kafka.bootstrap(), &class, arguments, stdin));
    text(&output.stdout).into_owned()
}

fn numbered(count: usize) -> String {
    (0..count).map(|n| format!("k{n}:v{n}\n")).collect::<Vec<_>>().concat()
}

#[test]
fn kcat_writes_and_reads_each_codec() {
    let kafka = cluster();
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        kafka.create_topic(codec, 1).expect("made");
        let send = ["-P", "-t", codec, "-K", ":", "-z", codec, "-X", "enable.idempotence=true"];
        kcat_at(kafka.bootstrap(), &send, numbered(1000).as_bytes());
        let read = ["-C", "-t", codec, "-e", "-q", "-K", ":"];
        let read = kcat_at(kafka.bootstrap(), &read, b"");
        assert!(text(&read.stdout) == numbered(1000), "{codec}");
        assert_eq!(kafka.log_end(codec, 0), Some(1000));
    }
}

#[test]
fn kcat_lists_and_queries() {
    let kafka = cluster();
    let listed = kcat_at(kafka.bootstrap(), &["-L"], b"");
    let listed = text(&listed.stdout);
    assert!(
        listed.contains("3 brokers") && listed.contains("topic \"t\" with 3 partitions"),
        "{listed}"
    );
    kcat_at(kafka.bootstrap(), &["-P", "-t", "t", "-p", "1"], b"a\nb\n");
    for (query, offset) in [("t:1:-1", 2), ("t:1:-2", 0), ("t:1:0", 0)] {
        let found = kcat_at(kafka.bootstrap(), &["-Q", "-t", query], b"");
        assert!(text(&found.stdout).contains(&format!("offset {offset}")), "{query}");
    }
}

#[test]
fn kcat_commits_and_aborts_transactions() {
    let kafka = cluster();
    kafka.create_topic("x", 1).expect("made");
    let transactional = ["-P", "-t", "x", "-X", "transactional.id=one"];
    kcat_at(kafka.bootstrap(), &transactional, b"a\nb\n");
    kcat_at(kafka.bootstrap(), &transactional, b"c\n");
    let read = ["-C", "-t", "x", "-e", "-q", "-X", "isolation.level=read_committed"];
    let read = kcat_at(kafka.bootstrap(), &read, b"");
    assert_eq!(text(&read.stdout), "a\nb\nc\n");
    assert_eq!(kafka.log_end("x", 0), Some(5), "two markers");
}

#[test]
fn kcat_shares_a_group() {
    let kafka = cluster();
    kcat_at(kafka.bootstrap(), &["-P", "-t", "t", "-K", ":"], numbered(300).as_bytes());
    let arguments = ["-X", "auto.offset.reset=earliest", "-c", "300", "-q", "-G", "g", "t"];
    let read = kcat_at(kafka.bootstrap(), &arguments, b"");
    assert_eq!(text(&read.stdout).lines().count(), 300);
    let described = java(
        &kafka,
        "consumer.group.ConsumerGroupCommand",
        &["--describe", "--group", "g", "--offsets"],
        b"",
    );
    let lags: Vec<&str> = described.lines().filter_map(|line| line.strip_prefix("g ")).collect();
    assert_eq!(lags.len(), 3, "{described}");
    assert!(lags.iter().all(|line| line.split_whitespace().nth(4) == Some("0")), "{described}");
}

#[test]
fn javas_console_tools_write_and_read() {
    let kafka = cluster();
    let lines = (0..500).map(|n| format!("line {n}\n")).collect::<Vec<_>>().concat();
    java(&kafka, "ConsoleProducer", &["--topic", "t"], lines.as_bytes());
    for group in [&["--from-beginning"][..], &["--from-beginning", "--group", "console"]] {
        let limit = ["--topic", "t", "--max-messages", "500", "--timeout-ms", "60000"];
        let arguments: Vec<&str> = limit.iter().chain(group).copied().collect();
        let read = java(&kafka, "consumer.ConsoleConsumer", &arguments, b"");
        let mut read: Vec<&str> = read.lines().collect();
        let mut sent: Vec<&str> = lines.lines().collect();
        read.sort_unstable();
        sent.sort_unstable();
        assert_eq!(read, sent, "{group:?}");
    }
    let groups = java(&kafka, "consumer.group.ConsumerGroupCommand", &["--list"], b"");
    assert!(groups.lines().any(|line| line == "console"), "{groups}");
}

#[test]
fn javas_topic_command_makes_alters_describes_and_deletes() {
    let kafka = cluster();
    let settings =
        ["--partitions", "2", "--replication-factor", "3", "--config", "retention.ms=60000"];
    let create: Vec<&str> =
        ["--create", "--topic", "made"].iter().chain(&settings).copied().collect();
    java(&kafka, "TopicCommand", &create, b"");
    java(&kafka, "TopicCommand", &["--alter", "--topic", "made", "--partitions", "4"], b"");
    let described = java(&kafka, "TopicCommand", &["--describe", "--topic", "made"], b"");
    assert!(described.contains("PartitionCount: 4"), "{described}");
    assert!(described.contains("ReplicationFactor: 3"), "{described}");
    assert!(described.contains("retention.ms=60000"), "{described}");
    java(&kafka, "TopicCommand", &["--delete", "--topic", "made"], b"");
    let listed = java(&kafka, "TopicCommand", &["--list"], b"");
    assert!(!listed.lines().any(|line| line == "made"), "{listed}");
}

#[test]
fn javas_measuring_and_verifying_clients_work() {
    let kafka = cluster();
    let load =
        ["--topic", "t", "--num-records", "20000", "--record-size", "100", "--throughput", "-1"];
    let performed = java(&kafka, "ProducerPerformance", &load, b"");
    assert!(performed.contains("20000 records sent"), "{performed}");
    let verify = ["--topic", "v", "--max-messages", "200", "--throughput", "-1"];
    kafka.create_topic("v", 2).expect("made");
    let verified = java(&kafka, "VerifiableProducer", &verify, b"");
    assert_eq!(verified.matches("producer_send_success").count(), 200, "{verified}");
    let verify = [
        "--topic",
        "v",
        "--group-id",
        "verify",
        "--max-messages",
        "200",
        "--reset-policy",
        "earliest",
    ];
    let verified = java(&kafka, "VerifiableConsumer", &verify, b"");
    assert!(verified.contains("\"shutdown_complete\""), "{verified}");
}

#[test]
fn javas_transactions_command_finds_transactions_and_producers() {
    let kafka = cluster();
    kafka.create_topic("x", 1).expect("made");
    kcat_at(kafka.bootstrap(), &["-P", "-t", "x", "-X", "transactional.id=one"], b"a\n");
    let listed = java(&kafka, "TransactionsCommand", &["list"], b"");
    assert!(listed.contains("one") && listed.contains("CompleteCommit"), "{listed}");
    let described =
        java(&kafka, "TransactionsCommand", &["describe", "--transactional-id", "one"], b"");
    assert!(described.contains("CompleteCommit"), "{described}");
    let producers = ["describe-producers", "--topic", "x", "--partition", "0"];
    let producers = java(&kafka, "TransactionsCommand", &producers, b"");
    assert_eq!(producers.lines().count(), 2, "a headline and a producer: {producers}");
}

#[test]
fn javas_compatibility_test_passes() {
    let kafka = cluster();
    let expected = [
        ("--offsets-for-times-supported", "True"),
        ("--cluster-id-supported", "True"),
        // A first record above the limit comes all the same (KIP-74).
        ("--expect-record-too-large-exception", "False"),
        ("--create-topics-supported", "True"),
        // A cluster without an authorizer has no ACLs to tell.
        ("--describe-acls-supported", "False"),
        ("--describe-configs-supported", "True"),
        ("--idempotent-producer-supported", "True"),
        ("--num-cluster-nodes", "3"),
        ("--topic", "t"),
    ];
    let arguments: Vec<&str> = expected.iter().flat_map(|(name, value)| [*name, *value]).collect();
    java(&kafka, "ClientCompatibilityTest", &arguments, b"");
}
