//! Offsets: listed, of leader epochs, and deleted records.

use ottla::protocol::messages::*;

use crate::cluster;
use crate::common::{servers, unique};
use crate::records::{TIME, filled};
use crate::sides::{Side, To};

fn list(topic: &str, index: i32, timestamp: i64) -> ListOffsetsRequest {
    ListOffsetsRequest {
        replica_id: -1,
        topics: vec![ListOffsetsTopic {
            name: topic.to_owned(),
            partitions: vec![ListOffsetsPartition {
                partition_index: index,
                timestamp,
                ..Default::default()
            }],
            ..Default::default()
        }],
        timeout_ms: 10_000,
        ..Default::default()
    }
}

fn same_listed(answer: &mut ListOffsetsResponse) {
    for topic in &mut answer.topics {
        for row in &mut topic.partitions {
            row.leader_epoch = row.leader_epoch.min(0);
        }
    }
}

#[test]
fn listed() {
    let _calm = servers().calm();
    let (kafka, name) = (cluster(), unique("listed"));
    let mut both = filled(&kafka, &name);
    let leader = To::Leader(&name);
    let mut ask =
        |what: &str, to, versions: &[i16], request: &dyn Fn(&Side, i16) -> ListOffsetsRequest| {
            both.ask(what, to, versions.iter().copied(), request, same_listed);
        };
    let all: Vec<i16> = (1..=11).collect();
    for time in [-1, -2, -3, -4, -5, -6, -7, 0, TIME, TIME + 2, TIME + 3, TIME + 4, i64::MAX] {
        ask(&format!("time {time}"), leader, &all, &|_, _| list(&name, 0, time));
    }
    for isolation_level in [1, 7] {
        let request = |_: &Side, _| ListOffsetsRequest { isolation_level, ..list(&name, 0, -1) };
        ask(&format!("isolation {isolation_level}"), leader, &[2, 7, 11], &request);
    }
    let few = [1, 4, 7, 11];
    ask("at another broker", To::NotLeader(&name), &few, &|_, _| list(&name, 0, -1));
    ask("no such topic", To::Any, &few, &|_, _| list("missing-here", 0, -1));
    ask("no such partition", To::Any, &few, &|_, _| list(&name, 8, -1));
    let twice = |_: &Side, _| {
        let mut request = list(&name, 0, -1);
        let again = request.topics[0].partitions[0].clone();
        request.topics[0].partitions.push(again);
        request
    };
    ask("a partition twice", leader, &few, &twice);
    let later = |_: &Side, _| {
        let mut request = list(&name, 0, -1);
        request.topics[0].partitions[0].current_leader_epoch = 1000;
        request
    };
    ask("a later epoch", leader, &[4, 7, 11], &later);
    both.finish();
}

#[test]
fn leader_epochs() {
    let _calm = servers().calm();
    let (kafka, name) = (cluster(), unique("epochs"));
    let mut both = filled(&kafka, &name);
    let request =
        |topic: &str, partition, current_leader_epoch, leader_epoch| OffsetForLeaderEpochRequest {
            replica_id: -1,
            topics: vec![OffsetForLeaderTopic {
                topic: topic.to_owned(),
                partitions: vec![OffsetForLeaderPartition {
                    partition,
                    current_leader_epoch,
                    leader_epoch,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
    let same = |answer: &mut OffsetForLeaderEpochResponse| {
        for row in answer.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
            row.leader_epoch = row.leader_epoch.min(0);
        }
    };
    let leader = To::Leader(&name);
    for (what, to, topic, partition, current, epoch) in [
        ("a later epoch", leader, name.as_str(), 0, -1, 1000),
        ("a negative epoch", leader, &name, 0, -1, -1),
        ("a later leader", leader, &name, 0, 1000, 0),
        ("at another broker", To::NotLeader(&name), &name, 0, -1, 0),
        ("no such topic", To::Any, "missing-here", 0, -1, 0),
        ("no such partition", To::Any, &name, 7, -1, 0),
    ] {
        both.ask(what, to, 2..=4, |_, _| request(topic, partition, current, epoch), same);
    }
    let present = |side: &Side, _| {
        let epoch = side.topic(&name).partitions[0].leader_epoch;
        request(&name, 0, epoch, epoch)
    };
    both.ask("the present epoch", leader, 2..=4, present, same);
    both.finish();
}

#[test]
fn deleted() {
    let _calm = servers().calm();
    let (kafka, name) = (cluster(), unique("deleted"));
    let mut both = filled(&kafka, &name);
    let request = |topic: &str, partition_index, offset| DeleteRecordsRequest {
        topics: vec![DeleteRecordsTopic {
            name: topic.to_owned(),
            partitions: vec![DeleteRecordsPartition {
                partition_index,
                offset,
                ..Default::default()
            }],
            ..Default::default()
        }],
        timeout_ms: 10_000,
        ..Default::default()
    };
    let leader = To::Leader(&name);
    let name = name.as_str();
    for (what, to, topic, partition, offset) in [
        ("to 2", leader, name, 0, 2),
        ("to 1, again", leader, name, 0, 1),
        ("beyond the end", leader, name, 0, 12),
        ("a negative offset", leader, name, 0, -5),
        ("at another broker", To::NotLeader(name), name, 0, 3),
        ("no such topic", To::Any, "missing-here", 0, 3),
        ("no such partition", To::Any, name, 7, 3),
        ("to the end", leader, name, 0, -1),
    ] {
        both.ask(what, to, 0..=2, |_, _| request(topic, partition, offset), |_| ());
        let listed = |_: &Side, _| list(name, 0, -2);
        both.ask(what, leader, [7], listed, same_listed);
    }
    both.finish();
}
