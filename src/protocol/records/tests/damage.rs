//! Damage of every kind: nothing panics, nothing runs away, nothing grows beyond its bound.

use proptest::prelude::*;

use super::laws::codec;
use super::*;

/// A batch per codec and format: each way into the reader.
fn samples() -> Vec<Vec<u8>> {
    let mut samples = Vec::new();
    let headers = [Header { key: "h", value: Some(b"1") }, Header { key: "h", value: None }];
    for codec in Compression::ALL {
        let mut builder = BatchBuilder::new(Vec::new());
        builder.append(1000, None, Some(b"hello hello hello hello hello"), &headers).expect("fits");
        builder.append(1005, Some(b"k"), None, &[]).expect("fits");
        builder.append(900, Some(&[7; 90]), Some(&[1; 300]), &[]).expect("fits");
        samples.push(builder.finish(codec, None, &mut Compressor::new()).expect("memory"));
    }
    for magic in [0, 1] {
        let set: Vec<u8> =
            (0..3).flat_map(|offset| message(magic, offset, 0, 9, &[b'x'; 40])).collect();
        samples.push(set.clone());
        samples.push(message(magic, 2, 1, 9, &gzip(&set)));
        samples.push(message(magic, 2, 2, 9, &snappy(&set)));
        samples.push(message(magic, 2, 3, 9, &lz4_frame(&set, 0x64, None, &[0; 4])));
    }
    samples
}

/// Goes through everything there is; the number of records that came out.
fn drain(bytes: &[u8], check_crcs: bool) -> usize {
    let mut batches = RecordBatches::new(Bytes::from(bytes));
    if !check_crcs {
        batches = batches.without_crc_check();
    }
    let mut decompressor = Decompressor::with_limit(1 << 20);
    let mut count = 0;
    while let Some(batch) = batches.next() {
        let Ok(batch) = batch else {
            assert!(batches.next().is_none());
            break;
        };
        assert!(batch.last_offset() >= batch.base_offset() && batch.base_offset() >= 0);
        drop(batch.control_kind(&mut decompressor));
        let Ok(records) = batch.records(&mut decompressor) else { continue };
        assert!(records.bytes().len() <= 1 << 20 || batch.compression() == Compression::None);
        for record in &records {
            let Ok(record) = record else { break };
            assert!(record.offset >= 0);
            count += 1;
            assert_eq!(record.headers.iter().count(), record.headers.len());
        }
    }
    let _ = batches.incomplete();
    count
}

#[test]
fn a_cut_at_any_byte_gives_no_record_and_no_error() {
    for sample in samples() {
        for cut in 0..sample.len() {
            let mut batches = RecordBatches::new(Bytes::from(&sample[..cut]));
            let read: Vec<RecordBatch> =
                batches.by_ref().collect::<Result<_, _>>().expect("a cut is no damage");
            let whole: usize = read.iter().map(RecordBatch::size).sum();
            match batches.incomplete() {
                Some(tail) => {
                    assert_eq!(tail.present, cut - whole);
                    assert!(tail.needed > tail.present);
                }
                None => assert_eq!(whole, cut),
            }
        }
    }
}

/// The length and the checksum are made right again, so that the inner layers meet the damage.
#[test]
fn a_body_cut_at_any_byte_is_an_error() {
    for sample in samples().into_iter().take(Compression::ALL.len()) {
        for cut in BATCH_HEAD_BYTES..sample.len() {
            let mut batch = sample[..cut].to_vec();
            let length = (cut - at::LENGTH.end) as i32;
            batch[at::LENGTH].copy_from_slice(&length.to_be_bytes());
            seal(&mut batch);
            let batch = only_batch(&batch).expect("the head is whole");
            assert!(plain(&batch).is_err(), "{} cut at {cut}", batch.compression());
        }
    }
}

#[test]
fn bytes_after_the_compressed_data_are_damage() {
    for sample in samples().into_iter().take(Compression::ALL.len()) {
        let mut batch = [&sample[..], &[0xaa; 3]].concat();
        let length = (batch.len() - at::LENGTH.end) as i32;
        batch[at::LENGTH].copy_from_slice(&length.to_be_bytes());
        seal(&mut batch);
        assert!(plain(&only_batch(&batch).expect("the head is whole")).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn flipped_bytes_never_panic(
        sample in proptest::sample::select(samples()),
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = sample.repeat(2);
        for (place, mask) in flips {
            let place = place.index(bytes.len());
            bytes[place] ^= mask;
        }
        drain(&bytes, false);
        drain(&bytes, true);
    }

    #[test]
    fn any_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), magic in 0..4_u8) {
        drain(&bytes, true);
        let mut framed = bytes;
        if framed.len() > BATCH_HEAD_BYTES {
            let length = (framed.len() - at::LENGTH.end) as i32;
            framed[at::LENGTH].copy_from_slice(&length.to_be_bytes());
            framed[at::MAGIC] = magic;
            drain(&framed, false);
        }
    }

    #[test]
    fn any_compressed_bytes_never_panic(
        codec in codec(),
        body in proptest::collection::vec(any::<u8>(), 0..300),
        known in any::<bool>(),
    ) {
        let head: &[u8] = match codec {
            Compression::Gzip => &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0],
            Compression::Snappy => b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01",
            Compression::Lz4 => &[0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82],
            Compression::Zstd => &[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58],
            Compression::None => &[],
        };
        let body = if known { [head, &body].concat() } else { body };
        let batch = RawBatch::of(&[record(0, 0, b"")]);
        let batch = RawBatch { attributes: i16::from(codec.id()), body, ..batch };
        drain(&batch.bytes(), true);
    }
}

/// Zeros in about a thousandth of their size, or as little as the codec allows.
#[test]
fn a_bomb_ends_at_the_limit() {
    const LIMIT: usize = 1 << 18;
    let zeros = vec![0; 3_000_000];
    for (codec, body) in [
        (Compression::Gzip, gzip(&zeros)),
        (Compression::Snappy, snappy(&zeros)),
        (
            Compression::Lz4,
            Compressor::new().compress(Compression::Lz4, None, &zeros).expect("memory").to_vec(),
        ),
        (Compression::Zstd, zstd_stream(&zeros)),
        (Compression::Zstd, zstd::bulk::compress(&zeros, 3).expect("memory")),
    ] {
        let batch = RawBatch { attributes: i16::from(codec.id()), body, ..RawBatch::of(&[]) };
        let batch = RawBatch { last_offset_delta: 0, ..batch };
        let batch = only_batch(&batch.bytes()).expect("whole");
        let error = batch.records(&mut Decompressor::with_limit(LIMIT)).expect_err("too large");
        assert_eq!(error.kind(), &RecordsErrorKind::TooLarge { limit: LIMIT }, "{codec}");
        // Under the default limit it is what it is: zeros, which are no records.
        let records = batch.records(&mut Decompressor::new()).expect("below the limit");
        assert_eq!(records.bytes().len(), zeros.len());
        assert!(records.iter().next().expect("bytes are left").is_err());
    }
}

#[test]
fn the_limit_itself_is_allowed() {
    for codec in Compression::ALL.into_iter().skip(1) {
        let mut builder = BatchBuilder::new(Vec::new());
        builder.append(0, None, Some(&vec![5; 70_000]), &[]).expect("fits");
        let size = builder.len() - BATCH_HEAD_BYTES;
        let bytes = builder.finish(codec, None, &mut Compressor::new()).expect("memory");
        let batch = only_batch(&bytes).expect("whole");
        assert!(batch.records(&mut Decompressor::with_limit(size)).is_ok(), "{codec}");
        let error = batch.records(&mut Decompressor::with_limit(size - 1)).expect_err("above");
        assert_eq!(error.kind(), &RecordsErrorKind::TooLarge { limit: size - 1 }, "{codec}");
    }
}

/// Announced sizes of gigabytes, without the bytes to fill them: refused, and nothing reserved.
#[test]
fn announced_sizes_are_not_believed() {
    // A bare Snappy block of 4 GiB; a zstd frame with a window of 2 GiB and a content of 8 EiB.
    let snappy = hex("ff ff ff ff 0f 00 00");
    let zstd = hex("28 b5 2f fd c0 a8 00 00 00 00 00 00 00 7f 01 00 00");
    for (codec, body) in [(2, snappy), (4, zstd)] {
        let batch = RawBatch { attributes: codec, body, ..RawBatch::of(&[record(0, 0, b"")]) };
        let error = read_all(&batch.bytes()).expect_err("not there");
        assert!(matches!(error.kind(), RecordsErrorKind::BadCompression { .. }), "{error}");
    }
}

/// Linked blocks, checksums of blocks and an announced size: what other writers may set.
#[test]
fn lz4_frames_of_other_writers_are_read() {
    let first = record(0, 0, &[b'a'; 400]);
    let second = record(0, 1, &[b'a'; 400]);
    let plain = RawBatch::of(&[first.clone(), second.clone()]);
    let flags = 0x40 | 0x10 | 0x08 | 0x04;
    let mut frame = vec![0x04, 0x22, 0x4d, 0x18, flags, 0x40];
    frame.extend((plain.body.len() as u64).to_le_bytes());
    frame.push((twox_hash::XxHash32::oneshot(0, &frame[4..]) >> 8) as u8);
    let linked = lz4_flex::block::compress_with_dict(&second, &first);
    assert!(linked.len() < 30, "it refers to the block before");
    for block in [lz4_flex::block::compress(&first), linked] {
        frame.extend((block.len() as u32).to_le_bytes());
        frame.extend(&block);
        frame.extend(twox_hash::XxHash32::oneshot(0, &block).to_le_bytes());
    }
    frame.extend([0; 4]);
    frame.extend(twox_hash::XxHash32::oneshot(0, &plain.body).to_le_bytes());
    let skippable = [&[0x53, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9][..], &frame].concat();
    for body in [frame.clone(), skippable] {
        let batch = RawBatch { attributes: 3, body, ..plain.clone() };
        assert_eq!(offsets(&batch.bytes()), Ok(vec![0, 1]));
    }
    for place in [6, 14, 40, frame.len() - 1] {
        let mut body = frame.clone();
        body[place] ^= 1;
        let batch = RawBatch { attributes: 3, body, ..plain.clone() };
        assert!(offsets(&batch.bytes()).is_err(), "byte {place}");
    }
}
