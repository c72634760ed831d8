//! `ottla send`.

use super::*;

/// All records of a one-partition topic as kcat sees them: key and value behind their lengths.
fn seen_by_kcat(topic: &str) -> Vec<u8> {
    let format = ["-C", "-t", topic, "-e", "-q", "-f", "%K<%k>%S<%s>;"];
    servers().kcat(&format, b"").stdout
}

fn send(topic: &str, arguments: &[&str], input: &[u8]) -> Said {
    with_brokers(&["send"], &[&["-t", topic], arguments].concat(), input)
}

/// Lines are bytes, not text; what stands before the first separator is the key.
#[test]
fn every_line_is_a_record_byte_for_byte() {
    let _calm = servers().calm();
    let topic = topic(1, &[]);
    let input = b"k\tv\tw\n\nplain\n\tno name\nk2\t\n\xff\xfe\t\x80\0z\r\nlast";
    let said = send(&topic, &["-K", r"\t"], input).ended_with(0);
    assert_eq!(said.records, b"");
    assert!(said.counts().starts_with("delivered 7 of 7 records, 0 failed, "), "{}", said.words);
    assert_eq!(said.words.lines().count(), 1, "{}", said.words);
    let wanted: &[&[u8]] = &[
        b"1<k>3<v\tw>;",
        b"-1<>0<>;",
        b"-1<>5<plain>;",
        b"0<>7<no name>;",
        b"2<k2>0<>;",
        b"2<\xff\xfe>4<\x80\0z\r>;",
        b"-1<>4<last>;",
    ];
    let seen = seen_by_kcat(&topic);
    assert_eq!(seen, wanted.concat(), "{}", text(&seen));
}

#[test]
fn an_empty_input_is_no_record_and_no_failure() {
    let _calm = servers().calm();
    let topic = topic(1, &[]);
    let said = send(&topic, &[], b"").ended_with(0);
    assert!(said.counts().starts_with("delivered 0 of 0 records, 0 failed"), "{}", said.words);
    assert_eq!(seen_by_kcat(&topic), b"");
}

/// A file that does not end with a line feed does not run into the next one.
#[test]
fn files_and_standard_input_are_sent_in_order() {
    let _calm = servers().calm();
    let topic = topic(1, &[]);
    let folder = Folder::new();
    let (first, empty, last) =
        (folder.write("a", b"1\n2"), folder.write("b", b""), folder.write("c", b"4\n"));
    send(&topic, &["-K", "::", &first, &empty, "-", &last], b"k::3\n")
        .ended_with(0)
        .told(&["delivered 4 of 4 records, 0 failed"]);
    assert_eq!(text(&seen_by_kcat(&topic)), "-1<>1<1>;-1<>1<2>;1<k>1<3>;-1<>1<4>;");
}

#[test]
fn a_file_that_is_missing_is_told_before_anything_is_sent() {
    let _calm = servers().calm();
    let topic = topic(1, &[]);
    let folder = Folder::new();
    let (here, missing) = (folder.write("here", b"1\n"), folder.path("missing"));
    let said = send(&topic, &[&here, &missing], b"").ended_with(1);
    said.told(&[&missing, "cannot be read", "No such file"]);
    assert_eq!(seen_by_kcat(&topic), b"");
    // What opens but cannot be read shows only then. It is told, and so is what was sent.
    let said = send(&topic, &[&here, &folder.path(".")], b"").ended_with(1);
    said.told(&["cannot be read", "directory", "delivered 1 of 1 record, 1 failed"]);
}

#[test]
fn the_codec_is_the_one_that_was_asked_for() {
    let _calm = servers().calm();
    let topic = topic(5, &[]);
    let line = [&[b'x'; 2_000][..], b"\n"].concat();
    for (partition, codec) in ["none", "gzip", "snappy", "lz4", "zstd"].iter().enumerate() {
        send(&topic, &["-z", codec, "-p", &partition.to_string()], &line).ended_with(0);
        // The low three bits of the attributes, at byte 21 of a batch v2 (KIP-98, KIP-110).
        let log = format!("broker-1/data/{topic}-{partition}/00000000000000000000.log");
        let log = servers().folder().join(log);
        let stored = || fs::read(&log).ok().and_then(|bytes| bytes.get(22).copied());
        wait_until("broker 1 has the batch", LIMIT, || stored().is_some());
        assert_eq!(stored().map(usize::from), Some(partition), "{codec}");
        let read = ["-C", "-t", &topic, "-p", &partition.to_string(), "-e", "-q"];
        assert_eq!(servers().kcat(&read, b"").stdout, line, "{codec}");
    }
}

/// Refused by us or by the broker: the line is named, and those after it are sent.
#[test]
fn a_line_that_is_too_large_is_named_and_the_rest_is_sent() {
    let _calm = servers().calm();
    let (ours, theirs) = (topic(1, &[]), topic(1, &["max.message.bytes=3000"]));
    let folder = Folder::new();
    let file = |width: usize| {
        let input = [&b"1\n"[..], &vec![b'x'; width], b"\n3\n"].concat();
        folder.write(&width.to_string(), &input)
    };
    for (topic, width) in [(&ours, 1_990), (&ours, 100_000), (&theirs, 50_000)] {
        let arguments = if topic == &ours { &["-X", "max.request.size=2000"][..] } else { &[] };
        let file = file(width);
        let said = send(topic, &[arguments, &[&file]].concat(), b"").ended_with(1);
        let said = said.told(&[&format!("line 2 of {file}: ")]);
        assert!(said.counts().starts_with("delivered 2 of 3 records, 1 failed"), "{}", said.words);
        assert_eq!(said.words.lines().count(), 2, "{}", said.words);
    }
    assert_eq!(text(&seen_by_kcat(&ours)), "-1<>1<1>;-1<>1<3>;".repeat(2));
    assert_eq!(text(&seen_by_kcat(&theirs)), "-1<>1<1>;-1<>1<3>;");
}

/// A failure of every line is told a few times in full and counted to the last.
#[test]
fn a_partition_that_does_not_exist_fails_every_line() {
    let _calm = servers().calm();
    let topic = topic(2, &[]);
    let input = "x\n".repeat(30);
    let bounds = ["-p", "9", "-X", "max.block.ms=50"];
    let said = send(&topic, &bounds, input.as_bytes()).ended_with(1);
    let said = said.told(&["line 1 of standard input: ", "9", "further failures are counted only"]);
    assert!(said.counts().starts_with("delivered 0 of 30 records, 30 failed"), "{}", said.words);
    assert_eq!(said.words.lines().count(), 12, "{}", said.words);
}
