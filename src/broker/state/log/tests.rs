//! A log against a list of records.

use proptest::prelude::*;

use super::*;

const NOW_MS: i64 = 1_700_000_000_000;

#[derive(Clone, Debug)]
enum Step {
    /// Records as key and value; no value is a tombstone.
    Append(Vec<(u8, Option<u8>)>, Compression),
    Trim(u8),
    Truncate(u8),
    Compact,
}

fn step() -> impl Strategy<Value = Step> {
    let record = (0..4_u8, proptest::option::of(any::<u8>()));
    let codec = proptest::sample::select(Compression::ALL.to_vec());
    let append = (proptest::collection::vec(record, 1..6), codec)
        .prop_map(|(records, codec)| Step::Append(records, codec));
    prop_oneof![
        6 => append,
        1 => any::<u8>().prop_map(Step::Trim),
        1 => any::<u8>().prop_map(Step::Truncate),
        2 => Just(Step::Compact),
    ]
}

/// Offset, key, value.
type Row = (i64, u8, Option<u8>);

fn batch(records: &[(u8, Option<u8>)], first: i64, codec: Compression) -> RecordBatch {
    let mut builder = BatchBuilder::new(Vec::new());
    for (time, (key, value)) in (NOW_MS + first..).zip(records) {
        let value = value.map(|value| [value]);
        builder.append(time, Some(&[*key]), value.as_ref().map(|v| &v[..]), &[]).expect("room");
    }
    let bytes = builder.finish(codec, None, &mut Compressor::new()).expect("a batch");
    RecordBatches::new(Bytes::from(bytes)).next().expect("one").expect("well-formed")
}

/// All records, read in pieces of about `bytes_max`.
fn read_all(log: &Log, bytes_max: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut from = log.start();
    loop {
        let range = Range { from, until: log.end(), bytes_max, first_whole: true };
        let (bytes, upper) = log.read(range);
        assert_eq!(bytes.len(), log.readable(range));
        if bytes.is_empty() {
            return rows;
        }
        let mut next = from;
        for batch in RecordBatches::new(bytes) {
            let batch = batch.expect("well-formed, checksum and all");
            for record in &batch.records(&mut Decompressor::new()).expect("records") {
                let record = record.expect("well-formed");
                assert_eq!(record.timestamp_ms, NOW_MS + record.offset);
                if record.offset >= from {
                    let key = record.key.expect("a key")[0];
                    rows.push((record.offset, key, record.value.map(|value| value[0])));
                }
            }
            next = batch.last_offset() + 1;
        }
        assert!(next > from && next <= upper, "a whole batch came");
        from = next;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_log_holds_what_a_list_would(
        steps in proptest::collection::vec(step(), 1..40),
        bytes_max in 1..400_usize,
    ) {
        let meter = Meter::default();
        let rules = Rules::of(&std::collections::BTreeMap::new(), Release::V4_4);
        let mut log = Log::new(&meter);
        let mut rows: Vec<Row> = Vec::new();
        for step in steps {
            match step {
                Step::Append(records, codec) => {
                    let end = log.end();
                    let appended = log.append(&batch(&records, end, codec), 0, None, NOW_MS);
                    prop_assert_eq!(appended.base_offset, end);
                    rows.extend((end..).zip(&records).map(|(at, (key, value))| (at, *key, *value)));
                }
                Step::Trim(part) => {
                    let to = log.start() + (log.end() - log.start()) * i64::from(part) / 255;
                    let moves = to > log.start();
                    prop_assert_eq!(log.trim_start(to, Release::V4_4), moves);
                    prop_assert_eq!(log.start(), to);
                    rows.retain(|row| row.0 >= to);
                }
                Step::Truncate(part) => {
                    let to = log.start() + (log.end() - log.start()) * i64::from(part) / 255;
                    log.truncate(to, NOW_MS);
                    rows.retain(|row| row.0 < log.end());
                }
                Step::Compact => {
                    log.compact(&rules, NOW_MS);
                    let all = rows.clone();
                    rows.retain(|row| !all.iter().any(|other| other.1 == row.1 && other.0 > row.0));
                }
            }
            prop_assert_eq!(&read_all(&log, bytes_max), &rows);
            let bytes: usize = log.batches().map(RecordBatch::size).sum();
            prop_assert_eq!(log.bytes(), bytes);
            prop_assert!(meter.bytes() >= bytes);
            let middle = i64::midpoint(log.start(), log.end());
            let found = log.find_time(NOW_MS + middle).map(|found| found.offset);
            prop_assert_eq!(found, rows.iter().map(|row| row.0).find(|at| *at >= middle));
            let latest = log.find_latest_time().map(|found| found.offset);
            prop_assert_eq!(latest, rows.last().map(|row| row.0));
        }
        drop(log);
        prop_assert_eq!(meter.bytes(), 0);
    }
}

fn of_producer(
    id: i64,
    sequence: i32,
    transactional: bool,
    records: &[(u8, Option<u8>)],
) -> RecordBatch {
    let mut bytes = batch(records, 0, Compression::None).bytes().to_vec();
    stamp(&mut bytes, id, 0, sequence, transactional);
    RecordBatches::new(Bytes::from(bytes)).next().expect("one").expect("well-formed")
}

/// Base offset, last offset, count of records, whether a marker: of each batch.
fn shape(log: &Log) -> Vec<(i64, i64, u32, bool)> {
    log.batches()
        .map(|batch| {
            let count = batch.record_count().expect("magic 2");
            (batch.base_offset(), batch.last_offset(), count, batch.is_control())
        })
        .collect()
}

#[test]
fn compaction_keeps_the_last_batch_of_a_producer_and_drops_what_was_aborted() {
    let rules = Rules::of(&std::collections::BTreeMap::new(), Release::V4_4);
    let mut log = Log::new(&Meter::default());
    let marker = |producer_id, commit| Marker {
        producer_id,
        epoch: 0,
        commit,
        coordinator_epoch: 0,
        now_ms: NOW_MS,
    };
    let append = |log: &mut Log, batch| log.append(&batch, 0, None, NOW_MS);
    append(&mut log, of_producer(1, 0, false, &[(1, Some(1)), (2, Some(1))]));
    append(&mut log, of_producer(1, 2, false, &[(1, Some(2))]));
    append(&mut log, of_producer(2, 0, true, &[(3, Some(3))]));
    log.append_marker(marker(2, false), 0).expect("the present epoch");
    append(&mut log, of_producer(3, 0, false, &[(1, Some(4)), (4, None)]));
    log.compact(&rules, NOW_MS);
    let kept =
        [(0, 1, 1, false), (2, 2, 0, false), (3, 3, 0, false), (4, 4, 1, true), (5, 6, 2, false)];
    assert_eq!(shape(&log), kept);
    let horizon = NOW_MS + rules.tombstones_ms;
    log.compact(&rules, horizon - 1);
    assert_eq!(shape(&log), kept, "the tombstone may not go yet");
    log.compact(&rules, horizon);
    let without =
        [(0, 1, 1, false), (2, 2, 0, false), (3, 3, 0, false), (4, 4, 1, true), (5, 6, 1, false)];
    assert_eq!(shape(&log), without);
    let empty = log.batches().nth(1).expect("kept for its producer");
    assert_eq!((empty.producer_id(), empty.base_sequence()), (Some(1), Some(2)));
}

#[test]
fn a_log_that_was_truncated_knows_its_producers_by_what_is_left() {
    let mut log = Log::new(&Meter::default());
    for sequence in 0..3 {
        let batch = of_producer(1, sequence, true, &[(1, Some(1))]);
        assert_eq!(log.producers.check(&batch, Release::V4_4, true), Ok(Checked::Next));
        log.append(&batch, 0, None, NOW_MS);
    }
    log.truncate(1, NOW_MS);
    assert_eq!((log.end(), log.last_stable()), (1, 0));
    let again = of_producer(1, 1, true, &[(1, Some(1))]);
    assert_eq!(log.producers.check(&again, Release::V4_4, true), Ok(Checked::Next));
    log.forget_producers();
    assert_eq!(log.last_stable(), 0, "the open transaction is not lost");
}
