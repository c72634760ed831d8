//! Producers with an identity, and transactions by both of Kafka's protocols (KIP-98, KIP-890).

use ottla::protocol::messages::*;
use ottla::protocol::records::stamp;
use ottla::protocol::{Bytes, ErrorCode, Uuid};

use crate::common::{servers, unique, wait_until};
use crate::records::{plain, produce, same_produced};
use crate::sides::{Both, PATIENCE, Side, To};
use crate::{both, cluster};

/// Who a producer is at each side.
type Identities = [(i64, i16); 2];

fn init(id: Option<&str>) -> InitProducerIdRequest {
    InitProducerIdRequest {
        transactional_id: id.map(str::to_owned),
        transaction_timeout_ms: 60_000,
        ..Default::default()
    }
}

fn same_init(answer: &mut InitProducerIdResponse) {
    answer.producer_id = answer.producer_id.min(0);
    answer.ongoing_txn_producer_id = answer.ongoing_txn_producer_id.min(0);
}

/// A new identity at both, asked again while the end of the last transaction is under way.
fn identify(both: &mut Both, what: &str, id: Option<&str>) -> Identities {
    let to = id.map_or(To::Any, To::Transaction);
    for side in both.sides() {
        wait_until("an identity", PATIENCE, || {
            let answer = side.ask(to, 5, &init(id)).expect("an answer");
            !matches!(
                answer.error_code,
                ErrorCode::CONCURRENT_TRANSACTIONS | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
            )
        });
    }
    both.ask_once(what, to, 5, |_| init(id), same_init).map(|answer| {
        let answer = answer.expect("an answer");
        (answer.producer_id, answer.producer_epoch)
    })
}

#[test]
fn sequences() {
    let _calm = servers().calm();
    let (kafka, name) = (cluster(), unique("sequences"));
    let mut both = both(&kafka, &name);
    let who = identify(&mut both, "no id", None);
    let ask = |both: &mut Both, what: &str, epoch: i16, sequence: i32, values: &[&str]| {
        let request = |side: &Side, version| {
            let (id, first_epoch) = who[side.place];
            let mut batch = plain(values);
            stamp(&mut batch, id, first_epoch + epoch, sequence, false);
            produce(side, version, &name, 0, batch)
        };
        both.ask(what, To::Leader(&name), [9, 13], request, same_produced);
    };
    ask(&mut both, "the first batch, twice", 0, 0, &["a", "b"]);
    ask(&mut both, "the next, twice", 0, 2, &["c"]);
    ask(&mut both, "a gap", 0, 9, &["d"]);
    ask(&mut both, "the first again", 0, 0, &["a", "b"]);
    ask(&mut both, "a part of the first", 0, 0, &["a"]);
    for sequence in 3..9 {
        ask(&mut both, "one after the other, twice", 0, sequence, &["e"]);
    }
    ask(&mut both, "one that is forgotten", 0, 0, &["a", "b"]);
    ask(&mut both, "a newer epoch that does not begin", 1, 5, &["f"]);
    ask(&mut both, "a newer epoch", 1, 0, &["f"]);
    ask(&mut both, "the older epoch", 0, 9, &["f"]);
    ask(&mut both, "no sequence", 1, -1, &["f"]);
    let unknown = |side: &Side, version| {
        let mut batch = plain(&["g"]);
        stamp(&mut batch, who[side.place].0 + 100, 0, 5, false);
        produce(side, version, &name, 0, batch)
    };
    both.ask("an unknown producer", To::Leader(&name), [9, 13], unknown, same_produced);
    let describe = |topic: &str, index| DescribeProducersRequest {
        topics: vec![TopicRequest {
            name: topic.to_owned(),
            partition_indexes: vec![index],
            ..Default::default()
        }],
        ..Default::default()
    };
    let same = |answer: &mut DescribeProducersResponse| {
        for row in answer.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
            row.error_message = row.error_message.take().map(|_| String::new());
            row.active_producers.sort_by_key(|producer| producer.producer_id);
            for producer in &mut row.active_producers {
                (producer.producer_id, producer.last_timestamp) = (0, 0);
            }
        }
    };
    for (what, to, topic, index) in [
        ("producers", To::Leader(&name), name.as_str(), 0),
        ("at another broker", To::NotLeader(&name), &name, 0),
        ("no such partition", To::Any, &name, 9),
        ("no such topic", To::Any, "missing-here", 0),
    ] {
        both.ask(what, to, [0], |_, _| describe(topic, index), same);
    }
    both.finish();
}

#[test]
fn identities() {
    let _calm = servers().calm();
    let (kafka, name, id) = (cluster(), unique("identities"), unique("txn"));
    let mut both = both(&kafka, &name);
    let to = To::Transaction(&id);
    let first = identify(&mut both, "an id", Some(&id));
    for version in 0..=6 {
        both.ask("again", to, [version], |_, _| init(Some(&id)), same_init);
    }
    both.ask("no id", To::Any, 0..=6, |_, _| init(None), same_init);
    both.ask("an empty id", To::Any, 0..=6, |_, _| init(Some("")), same_init);
    for transaction_timeout_ms in [0, -1, i32::MAX] {
        let request =
            |_: &Side, _| InitProducerIdRequest { transaction_timeout_ms, ..init(Some(&id)) };
        both.ask("a wrong time-out", to, 0..=6, request, same_init);
    }
    for (what, id_step, epoch_step) in
        [("an old epoch", 0, 0), ("another producer", 5, 0), ("a later epoch", 0, 90)]
    {
        let request = |side: &Side, _| {
            let (producer_id, producer_epoch) = first[side.place];
            InitProducerIdRequest {
                producer_id: producer_id + id_step,
                producer_epoch: producer_epoch + epoch_step,
                ..init(Some(&id))
            }
        };
        both.ask(what, to, 3..=6, request, same_init);
    }
    let half = |side: &Side, _| InitProducerIdRequest {
        producer_id: first[side.place].0,
        ..init(Some(&id))
    };
    both.ask("an epoch is missing", to, 3..=6, half, same_init);
    let two_phase = |_: &Side, _| InitProducerIdRequest { enable_2pc: true, ..init(Some(&id)) };
    both.ask("two phases", to, [6], two_phase, same_init);
    let kept = |_: &Side, _| InitProducerIdRequest { keep_prepared_txn: true, ..init(Some(&id)) };
    both.ask("a prepared one is kept", to, [6], kept, same_init);
    both.finish();
}

/// A transactional batch.
fn write(
    side: &Side,
    version: i16,
    (id, topic): (&str, &str),
    who: (i64, i16),
    sequence: i32,
) -> ProduceRequest {
    let mut batch = plain(&["t"]);
    stamp(&mut batch, who.0, who.1, sequence, true);
    ProduceRequest {
        transactional_id: Some(id.to_owned()),
        ..produce(side, version, topic, 0, batch)
    }
}

fn add(id: &str, topic: &str, index: i32, who: (i64, i16)) -> AddPartitionsToTxnRequest {
    AddPartitionsToTxnRequest {
        v3_and_below_transactional_id: id.to_owned(),
        v3_and_below_producer_id: who.0,
        v3_and_below_producer_epoch: who.1,
        v3_and_below_topics: vec![AddPartitionsToTxnTopic {
            name: topic.to_owned(),
            partitions: vec![index],
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn end(id: &str, who: (i64, i16), committed: bool) -> EndTxnRequest {
    EndTxnRequest {
        transactional_id: id.to_owned(),
        producer_id: who.0,
        producer_epoch: who.1,
        committed,
        ..Default::default()
    }
}

fn same_end(answer: &mut EndTxnResponse) {
    answer.producer_id = answer.producer_id.min(0);
}

/// Waits until the last transaction of `id` is over at both.
fn settle(both: &Both, id: &str) {
    let request = DescribeTransactionsRequest {
        transactional_ids: vec![id.to_owned()],
        ..Default::default()
    };
    for side in both.sides() {
        wait_until("the end of a transaction", PATIENCE, || {
            let answer = side.ask(To::Transaction(id), 0, &request).expect("an answer");
            answer.transaction_states[0].transaction_state.starts_with("Complete")
        });
    }
}

/// Describes and lists the transaction.
fn look(both: &mut Both, what: &str, id: &str) {
    let to = To::Transaction(id);
    let describe = |_: &Side, _| DescribeTransactionsRequest {
        transactional_ids: vec![id.to_owned()],
        ..Default::default()
    };
    both.ask(what, to, [0], describe, |answer| {
        for row in &mut answer.transaction_states {
            row.producer_id = row.producer_id.min(0);
            row.transaction_start_time_ms = row.transaction_start_time_ms.min(0);
            row.topics.sort_by(|a, b| a.topic.cmp(&b.topic));
            // How many partitions keep the offsets is a setting.
            let kept = row.topics.iter_mut().filter(|topic| topic.topic == "__consumer_offsets");
            kept.for_each(|topic| topic.partitions.fill(0));
        }
    });
    let list = |_: &Side, _| ListTransactionsRequest {
        state_filters: vec!["Ongoing".to_owned(), "CompleteCommit".to_owned(), "Odd".to_owned()],
        ..Default::default()
    };
    both.ask(what, to, 0..=2, list, |answer| {
        answer.transaction_states.retain(|row| row.transactional_id == id);
        answer.transaction_states.iter_mut().for_each(|row| row.producer_id = 0);
    });
}

#[test]
fn the_first_protocol() {
    let _calm = servers().calm();
    let (kafka, name, id) = (cluster(), unique("first"), unique("txn"));
    let (mut both, group) = (both(&kafka, &name), unique("group"));
    let (id, to, leader) = (id.as_str(), To::Transaction(&id), To::Leader(&name));
    look(&mut both, "nothing yet", id);
    let who = identify(&mut both, "an id", Some(id));
    look(&mut both, "empty", id);
    let at = |side: &Side| who[side.place];
    let ends = |committed| move |side: &Side, _: i16| end(id, who[side.place], committed);
    both.ask("nothing to commit", to, 0..=4, ends(true), same_end);
    both.ask("nothing to abort", to, 0..=4, ends(false), same_end);
    let unannounced = |side: &Side, version| write(side, version, (id, &name), at(side), 0);
    both.ask("not announced", leader, [3, 9, 11], unannounced, same_produced);
    for (what, topic, index) in
        [("no such topic", "missing-here", 0), ("no such partition", name.as_str(), 9)]
    {
        both.ask(what, to, 0..=3, |side, _| add(id, topic, index, at(side)), |_| ());
    }
    both.ask("announced", to, 0..=3, |side, _| add(id, &name, 0, at(side)), |_| ());
    look(&mut both, "begun", id);
    for (what, more_id, more_epoch) in [("a stranger", 1000, 0), ("a later epoch", 0, 1)] {
        let other = |side: &Side| (at(side).0 + more_id, at(side).1 + more_epoch);
        both.ask(what, to, 0..=3, |side, _| add(id, &name, 0, other(side)), |_| ());
        both.ask(what, to, 0..=4, |side, _| end(id, other(side), true), same_end);
        let written = |side: &Side, version| write(side, version, (id, &name), other(side), 0);
        both.ask(what, leader, [9, 11], written, same_produced);
    }
    let unknown = |side: &Side, _| end("unknown-here", at(side), true);
    both.ask("an unknown id", To::Transaction("unknown-here"), 0..=4, unknown, same_end);
    let written = |side: &Side, version| write(side, version, (id, &name), at(side), 0);
    both.ask("written, twice", leader, [9, 11], written, same_produced);
    let offsets = |side: &Side, _| AddOffsetsToTxnRequest {
        transactional_id: id.to_owned(),
        producer_id: at(side).0,
        producer_epoch: at(side).1,
        group_id: group.clone(),
        ..Default::default()
    };
    let commit = |side: &Side, version| commit(side, version, (id, &group, &name), at(side));
    let of_group = To::Group(&group);
    both.ask("offsets, announced", to, 0..=4, offsets, |_| ());
    both.ask("offsets", of_group, 0..=4, commit, same_committed);
    let unstable = |_: &Side, _| OffsetFetchRequest {
        group_id: group.clone(),
        topics: None,
        require_stable: true,
        ..Default::default()
    };
    both.ask("unstable offsets", of_group, [7], unstable, |_| ());
    both.ask("committed", to, [4], ends(true), same_end);
    settle(&both, id);
    both.ask("committed again", to, [4], ends(true), same_end);
    both.ask("aborted after all", to, [4], ends(false), same_end);
    both.ask("stable offsets", of_group, [7], unstable, |_| ());
    look(&mut both, "committed", id);
    both.ask("announced", to, [3], |side, _| add(id, &name, 0, at(side)), |_| ());
    let next = |side: &Side, version| write(side, version, (id, &name), at(side), 1);
    both.ask("written", leader, [11], next, same_produced);
    both.ask("aborted", to, [3], ends(false), same_end);
    settle(&both, id);
    look(&mut both, "aborted", id);
    let fetch = |side: &Side, version| FetchRequest {
        isolation_level: 1,
        ..crate::records::fetch(side, version, &name, 0, 1)
    };
    // From the first marker on, which begins a segment of Kafka's log: it is much younger.
    both.ask("read", leader, [4, 12, 17], fetch, same_read);
    both.finish();
}

/// Takes producer ids out, and with them the checksums: of the records their form is left.
fn same_read(answer: &mut FetchResponse) {
    crate::records::same_fetched(answer);
    for row in answer.responses.iter_mut().flat_map(|topic| &mut topic.partitions) {
        for aborted in row.aborted_transactions.iter_mut().flatten() {
            aborted.producer_id = 0;
        }
        row.records = row.records.take().map(|bytes| {
            let batches = ottla::protocol::records::RecordBatches::new(bytes);
            let form = batches.map(|batch| {
                let batch = batch.expect("a batch");
                let (first, last) = (batch.base_offset(), batch.last_offset());
                format!(
                    "{first}-{last} {} {:?} {:?};",
                    batch.is_control(),
                    batch.is_transactional(),
                    batch.record_count()
                )
            });
            Bytes::from(form.collect::<String>().into_bytes())
        });
    }
}

fn commit(
    side: &Side,
    version: i16,
    (id, group, topic): (&str, &str, &str),
    who: (i64, i16),
) -> TxnOffsetCommitRequest {
    TxnOffsetCommitRequest {
        transactional_id: id.to_owned(),
        group_id: group.to_owned(),
        producer_id: who.0,
        producer_epoch: who.1,
        topics: vec![TxnOffsetCommitRequestTopic {
            name: topic.to_owned(),
            topic_id: if version >= 6 { side.topic(topic).topic_id } else { Uuid::ZERO },
            partitions: vec![TxnOffsetCommitRequestPartition {
                committed_offset: 3,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn same_committed(answer: &mut TxnOffsetCommitResponse) {
    for topic in &mut answer.topics {
        topic.topic_id = if topic.topic_id.is_zero() { Uuid::ZERO } else { Uuid([1; 16]) };
    }
}

#[test]
fn the_second_protocol() {
    let _calm = servers().calm();
    let (kafka, name, id) = (cluster(), unique("second"), unique("txn"));
    let (mut both, group) = (both(&kafka, &name), unique("group"));
    let (id, to, leader) = (id.as_str(), To::Transaction(&id), To::Leader(&name));
    let who = identify(&mut both, "an id", Some(id));
    let ends = |who: Identities, committed| move |side: &Side| end(id, who[side.place], committed);
    let ended = |both: &mut Both, what: &str, who: Identities, committed: bool| {
        let answers = both.ask_once(what, to, 5, ends(who, committed), same_end);
        let next = answers.map(|answer| answer.expect("an answer"));
        settle(both, id);
        next.map(|answer| (answer.producer_id, answer.producer_epoch))
    };
    both.ask_once("nothing to commit", to, 5, ends(who, true), same_end);
    // An abort of nothing moves the epoch on, so that what is still under way is refused.
    let who = ended(&mut both, "nothing to abort", who, false);
    for version in [12, 13] {
        let request = |side: &Side| write(side, version, (id, &name), who[side.place], 0);
        both.ask_once("written without a word", leader, version, request, same_produced);
    }
    look(&mut both, "begun", id);
    let commit = |side: &Side, version| commit(side, version, (id, &group, &name), who[side.place]);
    both.ask("offsets without a word", To::Group(&group), [5, 6], commit, same_committed);
    look(&mut both, "with offsets", id);
    let other = who.map(|(id, epoch)| (id, epoch + 5));
    both.ask_once("a later epoch", to, 5, ends(other, true), same_end);
    let next = ended(&mut both, "committed", who, true);
    both.ask_once("committed again", to, 5, ends(who, true), same_end);
    both.ask_once("aborted after all", to, 5, ends(who, false), same_end);
    look(&mut both, "committed", id);
    let late = |side: &Side| write(side, 13, (id, &name), who[side.place], 1);
    both.ask_once("under the earlier epoch", leader, 13, late, same_produced);
    let gap = |side: &Side| write(side, 13, (id, &name), next[side.place], 1);
    both.ask_once("it does not begin at 0", leader, 13, gap, same_produced);
    let fresh = |side: &Side| write(side, 13, (id, &name), next[side.place], 0);
    both.ask_once("under the new epoch", leader, 13, fresh, same_produced);
    ended(&mut both, "aborted", next, false);
    both.ask_once("aborted again", to, 5, ends(next, false), same_end);
    both.ask_once("committed after all", to, 5, ends(next, true), same_end);
    look(&mut both, "aborted", id);
    let fetch = |side: &Side, version| FetchRequest {
        isolation_level: 1,
        ..crate::records::fetch(side, version, &name, 0, 1)
    };
    both.ask("read", leader, [4, 12, 17], fetch, same_read);
    both.finish();
}
