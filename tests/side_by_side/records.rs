//! Records: produced, fetched, listed and deleted.

use ottla::protocol::messages::*;
use ottla::protocol::records::{BatchBuilder, Compression, Compressor, stamp};
use ottla::protocol::{Bytes, Uuid};

use crate::common::{servers, unique};
use crate::sides::{Side, To};
use crate::{both, cluster};

/// Where the fields of a batch are: leader's epoch, length, magic, checksum, number of records.
const LEADER_EPOCH: std::ops::Range<usize> = 12..16;
const LENGTH: std::ops::Range<usize> = 8..12;
const MAGIC: usize = 16;
const CRC: usize = 17;
const COUNT: usize = 57;
/// What stands before the part that the length counts.
const BEFORE_LENGTH: usize = 12;
/// A time in the past, the same for both.
pub(crate) const TIME: i64 = 1_700_000_000_000;

/// A batch of `values`, each a millisecond after the one before.
fn batch(values: &[&str], codec: Compression) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Vec::new());
    for (value, time) in values.iter().zip(TIME..) {
        builder.append(time, Some(b"key"), Some(value.as_bytes()), &[]).expect("it fits");
    }
    builder.finish(codec, None, &mut Compressor::new()).expect("a batch")
}

pub(crate) fn plain(values: &[&str]) -> Vec<u8> {
    batch(values, Compression::None)
}

/// A request with `records` for partition `index` of `topic`.
pub(crate) fn produce(
    side: &Side,
    version: i16,
    topic: &str,
    index: i32,
    records: Vec<u8>,
) -> ProduceRequest {
    let topic_id = if version >= 13 && topic != "missing-here" {
        side.topic(topic).topic_id
    } else {
        Uuid::ZERO
    };
    ProduceRequest {
        acks: -1,
        timeout_ms: 10_000,
        topic_data: vec![TopicProduceData {
            name: topic.to_owned(),
            topic_id,
            partition_data: vec![PartitionProduceData {
                index,
                records: Some(Bytes::from(records)),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn same_leader(leader: &mut LeaderIdAndEpoch) {
    leader.leader_id = leader.leader_id.min(0);
    leader.leader_epoch = leader.leader_epoch.min(0);
}

fn same_nodes(nodes: &mut [NodeEndpoint]) {
    for node in nodes {
        (node.node_id, node.port) = (0, 0);
    }
}

fn same_id(id: &mut Uuid) {
    *id = if id.is_zero() { Uuid::ZERO } else { Uuid([1; 16]) };
}

/// Only whether there is a message.
fn some(message: &mut Option<String>) {
    if let Some(text) = message {
        text.clear();
    }
}

pub(crate) fn same_produced(answer: &mut ProduceResponse) {
    same_nodes(&mut answer.node_endpoints);
    for topic in &mut answer.responses {
        same_id(&mut topic.topic_id);
        for row in &mut topic.partition_responses {
            same_leader(&mut row.current_leader);
            some(&mut row.error_message);
            for error in &mut row.record_errors {
                some(&mut error.batch_index_error_message);
            }
        }
    }
}

#[test]
fn produced() {
    let _calm = servers().calm();
    let (kafka, name) = (cluster(), unique("produced"));
    let mut both = both(&kafka, &name);
    let leader = To::Leader(&name);
    let mut ask =
        |what: &str, to, versions: &[i16], request: &dyn Fn(&Side, i16) -> ProduceRequest| {
            both.ask(what, to, versions.iter().copied(), request, same_produced);
        };
    let all: Vec<i16> = (0..=13).collect();
    let some_versions = [3, 7, 8, 9, 10, 12, 13];
    let records = |records: Vec<u8>| {
        let name = name.clone();
        move |side: &Side, version| produce(side, version, &name, 0, records.clone())
    };
    ask("a batch", leader, &all, &records(plain(&["a", "b"])));
    for codec in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        ask(&format!("{codec:?}"), leader, &[3, 6, 7, 13], &records(batch(&["a", "b"], codec)));
    }
    ask("at another broker", To::NotLeader(&name), &some_versions, &records(plain(&["a"])));
    let elsewhere = |topic: &'static str, index| {
        move |side: &Side, version| produce(side, version, topic, index, plain(&["a"]))
    };
    ask("no such topic", To::Any, &some_versions, &elsewhere("missing-here", 0));
    let no_partition = |side: &Side, version| produce(side, version, &name, 9, plain(&["a"]));
    ask("no such partition", To::Any, &some_versions, &no_partition);
    for acks in [0, 2, -2] {
        let wrong = |side: &Side, version| ProduceRequest {
            acks,
            ..produce(side, version, &name, 0, plain(&["a"]))
        };
        if acks != 0 {
            ask(&format!("acks {acks}"), leader, &[3, 8, 13], &wrong);
        }
    }
    ask("empty records", leader, &some_versions, &records(Vec::new()));
    let two = [plain(&["a"]), plain(&["b"])].concat();
    ask("two batches", leader, &some_versions, &records(two));
    let changed = |at: usize, value: u8| {
        let mut batch = plain(&["a", "b"]);
        batch[at] = value;
        records(batch)
    };
    ask("a wrong checksum", leader, &some_versions, &changed(CRC, 77));
    ask("another magic", leader, &some_versions, &changed(MAGIC, 9));
    ask("the magic of old sets", leader, &some_versions, &changed(MAGIC, 1));
    ask("a batch that is longer than said", leader, &some_versions, &changed(LENGTH.start, 1));
    ask("a batch that is shorter than said", leader, &some_versions, &changed(LENGTH.end - 1, 55));
    let resummed = |at: usize, bytes: &[u8]| {
        let mut batch = plain(&["a", "b"]);
        batch[at..at + bytes.len()].copy_from_slice(bytes);
        stamp(&mut batch, -1, -1, -1, false);
        records(batch)
    };
    ask("more records than there are", leader, &[3, 8, 13], &resummed(COUNT, &3_i32.to_be_bytes()));
    ask(
        "fewer records than there are",
        leader,
        &[3, 8, 13],
        &resummed(COUNT, &1_i32.to_be_bytes()),
    );
    ask("an unknown codec", leader, &[3, 8, 13], &resummed(21, &5_i16.to_be_bytes()));
    ask("a control batch", leader, &[3, 8, 13], &resummed(21, &0x20_i16.to_be_bytes()));
    let large = "x".repeat(1_100_000);
    ask("too large a batch", leader, &[3, 8, 13], &records(plain(&[&large])));
    both.finish();
}

/// Both clusters with some batches in the topic's partition.
pub(crate) fn filled(kafka: &ottla::broker::Cluster, name: &str) -> crate::sides::Both {
    let mut both = both(kafka, name);
    let sets: [(&[&str], Compression); 5] = [
        (&["a", "b", "c"], Compression::None),
        (&["d"], Compression::Gzip),
        (&["e", "f"], Compression::Lz4),
        (&["g", "h", "i", "j"], Compression::None),
        (&["k"], Compression::Zstd),
    ];
    for (values, codec) in sets {
        let request = |side: &Side, version| produce(side, version, name, 0, batch(values, codec));
        both.ask("filled", To::Leader(name), [13], request, same_produced);
    }
    both
}

/// Takes out what differs: the leader's epoch in each batch, and a last batch that is cut short,
/// which Kafka sends from its files and clients drop.
fn same_records(records: &mut Option<Bytes>) {
    let Some(bytes) = records else { return };
    let mut copy = bytes.to_vec();
    let mut at = 0;
    while let Some(length) = copy.get(at..).and_then(|rest| rest.get(LENGTH)) {
        let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        if copy.len() < at + BEFORE_LENGTH + length {
            break;
        }
        copy[at..][LEADER_EPOCH].fill(0);
        at += BEFORE_LENGTH + length;
    }
    copy.truncate(at);
    *records = Some(Bytes::from(copy));
}

pub(crate) fn same_fetched(answer: &mut FetchResponse) {
    same_nodes(&mut answer.node_endpoints);
    answer.session_id = answer.session_id.min(1);
    for topic in &mut answer.responses {
        same_id(&mut topic.topic_id);
        for row in &mut topic.partitions {
            same_leader(&mut row.current_leader);
            same_records(&mut row.records);
        }
    }
}

pub(crate) fn fetch(
    side: &Side,
    version: i16,
    topic: &str,
    index: i32,
    offset: i64,
) -> FetchRequest {
    let topic_id = if version >= 13 && topic != "missing-here" {
        side.topic(topic).topic_id
    } else {
        Uuid::ZERO
    };
    FetchRequest {
        max_wait_ms: 100,
        min_bytes: 1,
        max_bytes: 1 << 20,
        topics: vec![FetchTopic {
            topic: topic.to_owned(),
            topic_id,
            partitions: vec![FetchPartition {
                partition: index,
                fetch_offset: offset,
                partition_max_bytes: 1 << 20,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

#[test]
fn fetched() {
    let _calm = servers().calm();
    let (kafka, name) = (cluster(), unique("fetched"));
    let mut both = filled(&kafka, &name);
    let leader = To::Leader(&name);
    let mut ask =
        |what: &str, to, versions: &[i16], request: &dyn Fn(&Side, i16) -> FetchRequest| {
            both.ask(what, to, versions.iter().copied(), request, same_fetched);
        };
    let all: Vec<i16> = (4..=18).collect();
    let few = [4, 7, 12, 13, 16, 18];
    let at = |offset| {
        let name = name.clone();
        move |side: &Side, version| fetch(side, version, &name, 0, offset)
    };
    ask("everything", leader, &all, &at(0));
    // (whether it may hold more than asked for is told by the size)
    for offset in [1, 3, 4, 7, 10, 11] {
        ask(&format!("offset {offset}"), leader, &few, &at(offset));
    }
    for offset in [-1, 12, i64::MAX] {
        ask(&format!("offset {offset}"), leader, &all, &at(offset));
    }
    ask("at another broker", To::NotLeader(&name), &few, &at(0));
    ask("no such topic", To::Any, &all, &|side, version| {
        fetch(side, version, "missing-here", 0, 0)
    });
    ask("no such partition", To::Any, &few, &|side, version| fetch(side, version, &name, 5, 0));
    let unknown_id = |side: &Side, version| {
        let mut request = fetch(side, version, &name, 0, 0);
        request.topics[0].topic_id = Uuid([9; 16]);
        request
    };
    ask("an unknown id", leader, &[13, 16, 18], &unknown_id);
    let changed = |change: fn(&mut FetchRequest)| {
        let name = name.clone();
        move |side: &Side, version| {
            let mut request = fetch(side, version, &name, 0, 0);
            change(&mut request);
            request
        }
    };
    ask("no bytes asked for", leader, &few, &changed(|request| request.max_bytes = 0));
    ask("few bytes asked for", leader, &few, &changed(|request| request.max_bytes = 100));
    ask(
        "few bytes of the partition",
        leader,
        &few,
        &changed(|request| {
            request.topics[0].partitions[0].partition_max_bytes = 1;
        }),
    );
    ask(
        "200 bytes of the partition",
        leader,
        &few,
        &changed(|request| {
            request.topics[0].partitions[0].partition_max_bytes = 200;
        }),
    );
    ask(
        "negative bytes",
        leader,
        &few,
        &changed(|request| {
            request.topics[0].partitions[0].partition_max_bytes = -5;
        }),
    );
    ask(
        "more than there is, for a while",
        leader,
        &few,
        &changed(|request| {
            request.min_bytes = 1 << 20;
        }),
    );
    ask("committed records", leader, &few, &changed(|request| request.isolation_level = 1));
    ask("an unknown isolation", leader, &few, &changed(|request| request.isolation_level = 7));
    ask(
        "a later leader epoch",
        leader,
        &[9, 12, 13, 18],
        &changed(|request| {
            request.topics[0].partitions[0].current_leader_epoch = 1000;
        }),
    );
    ask("a session", leader, &[7, 12, 13, 18], &changed(|request| request.session_epoch = 0));
    ask(
        "an unknown session",
        leader,
        &[7, 12, 13, 18],
        &changed(|request| {
            (request.session_id, request.session_epoch) = (5, 3);
        }),
    );
    ask(
        "an illegal session epoch",
        leader,
        &[7, 12, 18],
        &changed(|request| {
            request.session_epoch = -7;
        }),
    );
    ask(
        "a last fetched epoch",
        leader,
        &[12, 13, 18],
        &changed(|request| {
            request.topics[0].partitions[0].last_fetched_epoch = 1000;
        }),
    );
    ask("no topics", leader, &few, &changed(|request| request.topics.clear()));
    ask(
        "a partition twice",
        leader,
        &few,
        &changed(|request| {
            let again = request.topics[0].partitions[0].clone();
            request.topics[0].partitions.push(again);
        }),
    );
    both.finish();
}
