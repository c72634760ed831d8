//! Known bytes, made and decoded by other programs.

use super::*;

const TWO_RECORDS: &str = "000000000000000000000049ffffffff020da0e7df00000000000100000000000003e8\
     00000000000003edffffffffffffffffffffffffffff000000021e000000010a68656c6c6f02026802310e000a02\
     026b0100";
const COMMIT: &str = "000000000000000000000042ffffffff029463d70f00300000000000000000000007d0\
     00000000000007d000000000000000090003ffffffff000000012000000008000000010c00000000000700";
const MAGIC_1: &str = "00000000000000000000001b942da341010000000000000003e8ffffffff00000005\
     68656c6c6f";
const MAGIC_0: &str = "0000000000000005000000101fecd70a0000000000016b0000000176";

#[test]
fn two_records_are_written_as_the_known_bytes() {
    let mut builder = BatchBuilder::new(vec![1; 200]);
    let headers = [Header { key: "h", value: Some(b"1") }];
    builder.append(1000, None, Some(b"hello"), &headers).expect("fits");
    builder.append(1005, Some(b"k"), None, &[]).expect("fits");
    let batch = builder.finish(Compression::None, None, &mut Compressor::new()).expect("no codec");
    assert_eq!(batch, hex(TWO_RECORDS));
}

#[test]
fn two_records_are_read_from_the_known_bytes() {
    let batch = only_batch(&hex(TWO_RECORDS)).expect("whole");
    assert_eq!((batch.base_offset(), batch.last_offset(), batch.max_timestamp()), (0, 1, 1005));
    assert_eq!(
        (batch.producer_id(), batch.base_sequence(), batch.leader_epoch()),
        (None, None, None)
    );
    assert!(!batch.is_control() && !batch.is_transactional());
    let first = Plain {
        offset: 0,
        timestamp_ms: 1000,
        key: None,
        value: Some(b"hello".to_vec()),
        headers: vec![("h".to_owned(), Some(b"1".to_vec()))],
    };
    let second = Plain {
        offset: 1,
        timestamp_ms: 1005,
        key: Some(b"k".to_vec()),
        value: None,
        headers: Vec::new(),
    };
    assert_eq!(plain(&batch), Ok(vec![first, second]));
}

#[test]
fn a_commit_marker_is_read() {
    let batch = only_batch(&hex(COMMIT)).expect("whole");
    assert!(batch.is_control() && batch.is_transactional());
    assert_eq!((batch.producer_id(), batch.producer_epoch()), (Some(9), Some(3)));
    assert_eq!(batch.base_sequence(), None);
    assert_eq!(batch.control_kind(&mut Decompressor::new()), Ok(Some(ControlKind::Commit)));
}

#[test]
fn messages_of_the_older_formats_are_read() {
    let mut set = hex(MAGIC_1);
    set.extend(hex(MAGIC_0));
    let batches: Vec<RecordBatch> =
        RecordBatches::new(Bytes::from(set)).collect::<Result<_, _>>().expect("whole");
    let records: Vec<Plain> =
        batches.iter().flat_map(|batch| plain(batch).expect("not damaged")).collect();
    let message = |offset, timestamp_ms, key: Option<&[u8]>, value: &[u8]| Plain {
        offset,
        timestamp_ms,
        key: key.map(<[u8]>::to_vec),
        value: Some(value.to_vec()),
        headers: Vec::new(),
    };
    assert_eq!(records, [message(0, 1000, None, b"hello"), message(5, -1, Some(b"k"), b"v")]);
}

#[test]
fn an_lz4_frame_begins_as_the_java_client_writes_it() {
    let mut builder = BatchBuilder::new(Vec::new());
    builder.append(0, None, Some(&[7; 1000]), &[]).expect("fits");
    let batch = builder.finish(Compression::Lz4, None, &mut Compressor::new()).expect("memory");
    assert_eq!(batch[BATCH_HEAD_BYTES..][..7], hex("04224d18604082"));
}
