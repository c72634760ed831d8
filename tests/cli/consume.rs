//! `ottla consume` without a group.

use std::io::Read;

use super::*;

fn read(topic: &str, arguments: &[&str]) -> Said {
    with_brokers(&["consume"], &[&["-t", topic], arguments].concat(), b"")
}

#[test]
fn reading_starts_and_stops_where_it_was_asked_to() {
    let _calm = servers().calm();
    let topic = numbered(10, 1);
    let numbers = |range: std::ops::Range<usize>| -> Vec<String> {
        range.map(|number| number.to_string()).collect()
    };
    for (arguments, wanted) in [
        (&["-e"][..], numbers(0..10)),
        (&["-e", "-o", "earliest"], numbers(0..10)),
        (&["-e", "-o", "latest"], vec![]),
        (&["-e", "-o", "7"], numbers(7..10)),
        (&["-e", "-o", "10"], vec![]),
        (&["-e", "-o", "-2"], numbers(8..10)),
        (&["-e", "-o", "-99"], numbers(0..10)),
        (&["-e", "-o", "@0"], numbers(0..10)),
        (&["-e", "-o", "@99999999999999"], vec![]),
        (&["-c", "4"], numbers(0..4)),
        (&["-c", "0"], vec![]),
        (&["-c", "3", "-o", "5"], numbers(5..8)),
        (&["-e", "-c", "99"], numbers(0..10)),
    ] {
        let said = read(&topic, arguments).ended_with(0);
        assert_eq!(said.lines(), wanted, "{arguments:?}");
        let noun = if wanted.len() == 1 { "record" } else { "records" };
        let counts = format!("read {} {noun} of ", wanted.len());
        assert!(said.counts().starts_with(&counts), "{arguments:?}: {}", said.words);
        assert_eq!(said.words.lines().count(), 1, "{arguments:?}: {}", said.words);
    }
}

#[test]
fn every_partition_is_read_or_those_that_were_named() {
    let _calm = servers().calm();
    let topic = topic(3, &[]);
    for partition in ["0", "1", "2"] {
        let input = format!("in {partition}\n");
        let arguments = ["-t", &topic, "-p", partition];
        with_brokers(&["send"], &arguments, input.as_bytes()).ended_with(0);
    }
    let mut all = read(&topic, &["-e"]).ended_with(0).told(&["of 3 partitions"]).lines();
    all.sort();
    assert_eq!(all, ["in 0", "in 1", "in 2"]);
    let one = read(&topic, &["-e", "-p", "1"]).ended_with(0).told(&["of 1 partition"]);
    assert_eq!(one.lines(), ["in 1"]);
    read(&topic, &["-e", "-p", "7"]).ended_with(1).told(&[&format!("{topic}-7")]);
}

/// Offsets that retention took are told, not passed over in silence.
#[test]
fn offsets_that_are_gone_are_told() {
    let _calm = servers().calm();
    let topic = numbered(10, 1);
    let folder = Folder::new();
    let json =
        format!(r#"{{"version":1,"partitions":[{{"topic":"{topic}","partition":0,"offset":4}}]}}"#);
    let file = folder.write("offsets", json.as_bytes());
    servers()
        .java_tool("org.apache.kafka.tools.DeleteRecordsCommand", &["--offset-json-file", &file]);
    assert_eq!(read(&topic, &["-e"]).ended_with(0).lines(), ["4", "5", "6", "7", "8", "9"]);
    let said = read(&topic, &["-e", "-o", "1"]).ended_with(0);
    let said = said.told(&["offsets 1 to 3 are no longer in the log"]);
    assert_eq!(said.lines().len(), 6);
}

/// The same format gives the same bytes as kcat, for records that kcat wrote: null and empty keys and
/// values, headers, every codec.
#[test]
fn a_format_shows_what_kcat_shows() {
    let _calm = servers().calm();
    let topic = topic(1, &[]);
    let write = |arguments: &[&str], input: &[u8]| {
        servers().kcat(&[&["-P", "-t", &topic, "-p", "0"], arguments].concat(), input);
    };
    write(&["-K", ":"], b"key:value\n:no name\nk:\n");
    write(&["-Z", "-K", ":"], b"tombstone:\n:nobody\n");
    write(&["-z", "gzip", "-H", "a=1", "-H", "b=x=y", "-H", "a=2"], b"with headers\n");
    write(&["-z", "snappy", "-H", "null", "-H", "empty="], b"\xff\xfe\x80\n");
    write(&["-z", "lz4"], "übermäßig\n".as_bytes());
    write(&["-z", "zstd", "-K", ":"], &[b"z:", &[b'z'; 3_000][..], b"\n"].concat());
    for format in [
        "%t",
        "%p",
        "%o",
        "%k",
        "%s",
        "%h",
        "%T",
        "%K",
        "%S",
        r"\n",
        r"\t",
        r"%t\t%p\t%o\t%T\t%K:%k\t%S:%s\t%h\n",
        "100%% %s",
    ] {
        let format = format!("{format}|");
        let kcat = ["-C", "-t", &topic, "-p", "0", "-e", "-q", "-f", &format];
        let theirs = servers().kcat(&kcat, b"").stdout;
        let ours = read(&topic, &["-e", "-f", &format]).ended_with(0).records;
        assert_eq!(text(&ours), text(&theirs), "{format}");
        assert_eq!(ours, theirs, "{format}");
    }
    let lengths = read(&topic, &["-e", "-f", "%K/%S "]).ended_with(0);
    assert_eq!(text(&lengths.records), "3/5 0/7 1/0 9/-1 -1/6 -1/12 -1/3 -1/12 1/3000 ");
}

/// As `| head -n 1`: quiet, with the code of a death by SIGPIPE, and with the counts.
#[test]
fn an_output_that_is_closed_ends_it() {
    let _calm = servers().calm();
    let topic = numbered(3_000, 100);
    let mut process =
        Running::start(piped(&mut ottla(&["consume", "-b", servers().bootstrap(), "-t", &topic])));
    let mut line = [0; 101];
    process.stdout.take().expect("piped").read_exact(&mut line).expect("a line");
    assert_eq!(number_of(&text(&line)), 0);
    let said = ended(process).ended_with(141);
    assert!(said.counts().starts_with("read "), "{}", said.words);
    assert_eq!(said.words.lines().count(), 1, "{}", said.words);
}

#[test]
fn an_output_that_is_full_is_a_failure() {
    let _calm = servers().calm();
    let topic = numbered(10, 1);
    for command in [&["consume", "-t", &topic, "-e"][..], &["topics", "list"]] {
        let mut command = ottla(&[command, &["-b", servers().bootstrap()]].concat());
        piped(&mut command)
            .stdout(OpenOptions::new().write(true).open("/dev/full").expect("Linux"));
        let said = ended(Running::start(&mut command)).ended_with(1);
        said.told(&["standard output cannot be written", "No space left"]);
    }
}

/// An offset that is not there yet is a slip of the pen for who wants to end at the end.
#[test]
fn an_offset_beyond_the_end_is_told() {
    let _calm = servers().calm();
    let topic = numbered(3, 1);
    let said = read(&topic, &["-e", "-o", "99999999999"]).ended_with(1);
    let said = said.told(&["ends at 3: offset 99999999999 is not there"]);
    assert_eq!(said.records, b"");
    assert!(said.counts().starts_with("read 0 records of 1 partition, 1 failed"), "{}", said.words);
    read(&topic, &["-e", "-o", "3"]).ended_with(0);
}

#[test]
fn a_topic_that_is_deleted_meanwhile_is_not_waited_for_for_ever() {
    let _calm = servers().calm();
    let topic = numbered(3, 1);
    let mut process =
        Running::start(piped(&mut ottla(&["consume", "-b", servers().bootstrap(), "-t", &topic])));
    let mut three = [0; 6];
    process.stdout.as_mut().expect("piped").read_exact(&mut three).expect("three records");
    with_brokers(&["topics", "delete"], &["-t", &topic], b"").ended_with(0);
    let said = ended(process).ended_with(1);
    assert!(said.counts().starts_with("read 3 records of 1 partition, 1 failed"), "{}", said.words);
}
