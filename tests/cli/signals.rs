//! SIGINT and SIGTERM: a clean end, with counts and with a code that does not promise too much.

use std::io::Read;

use super::*;

/// Without `-e` or `-c` a signal is how it ends: code 0.
#[test]
fn following_ends_with_a_signal() {
    let _calm = servers().calm();
    let topic = numbered(3, 1);
    for name in ["INT", "TERM"] {
        let mut process = Running::start(piped(&mut ottla(&[
            "consume",
            "-b",
            servers().bootstrap(),
            "-t",
            &topic,
            "-f",
            "%s ",
        ])));
        let mut three = [0; 6];
        process.stdout.as_mut().expect("piped").read_exact(&mut three).expect("three records");
        assert_eq!(&three, b"0 1 2 ");
        signal(&process, name);
        let said = ended(process).ended_with(0);
        assert!(said.counts().starts_with("read 3 records of 1 partition"), "{}", said.words);
        assert!(said.counts().ends_with(", interrupted"), "{}", said.words);
    }
}

/// What was asked for was not reached: code 1. What was written is whole records.
#[test]
fn a_signal_before_the_end_that_was_asked_for_is_not_a_success() {
    let _calm = servers().calm();
    let topic = numbered(20_000, 100);
    let mut process = Running::start(piped(&mut ottla(&[
        "consume",
        "-b",
        servers().bootstrap(),
        "-t",
        &topic,
        "-e",
    ])));
    // It stands in a write, since nobody reads on.
    let mut first = [0; 101];
    process.stdout.as_mut().expect("piped").read_exact(&mut first).expect("a line");
    signal(&process, "TERM");
    let mut noted = Vec::new();
    let stderr = process.stderr.as_mut().expect("piped");
    while !noted.ends_with(b"\n") {
        let mut byte = [0];
        stderr.read_exact(&mut byte).expect("the signal is noted");
        noted.extend(byte);
    }
    let said = ended(process).ended_with(1).told(&["interrupted"]);
    let lines = said.lines().len() + 1;
    assert!(lines < 20_000);
    assert_eq!(said.records.len() % 101, 0, "whole records");
    assert!(said.counts().starts_with(&format!("read {lines} records")), "{}", said.words);
}

/// A write into a pipe that nobody reads cannot be finished: the end is bounded all the same, and told.
#[test]
fn an_output_that_is_not_read_does_not_keep_the_process() {
    let _calm = servers().calm();
    let topic = numbered(20_000, 100);
    let mut directly = ottla(&["consume", "-b", servers().bootstrap(), "-t", &topic]);
    let group = unique("cli-group");
    let processes = [&mut directly, &mut worker(&topic, &group, &[])].map(|command| {
        let mut process = Running::start(piped(command));
        let mut output = process.stdout.take().expect("piped");
        output.read_exact(&mut [0; 101]).expect("a line");
        signal(&process, "TERM");
        (process, output)
    });
    for ((process, _unread), told) in
        processes.into_iter().zip(["standard output is not read", "did not end in time"])
    {
        let said = ended(process).ended_with(1).told(&[told]);
        assert!(said.counts().ends_with(", interrupted"), "{}", said.words);
    }
}

/// What was read is delivered, what was not is not claimed to be.
#[test]
fn sending_ends_with_what_was_read() {
    let _calm = servers().calm();
    let topic = topic(1, &[]);
    let mut command = ottla(&["send", "-b", servers().bootstrap(), "-t", &topic]);
    let mut process = Running::start(piped(&mut command).stdin(Stdio::piped()));
    let input = process.stdin.as_mut().expect("piped");
    input.write_all(b"one\ntwo\n").expect("it reads");
    let stored = || with_brokers(&["consume"], &["-t", &topic, "-e"], b"").lines();
    wait_until("both are stored while the input is open", LIMIT, || stored().len() == 2);
    signal(&process, "INT");
    let said = ended(process).ended_with(1);
    assert!(said.counts().starts_with("delivered 2 of 2 records, 0 failed"), "{}", said.words);
    assert!(said.counts().ends_with(", interrupted"), "{}", said.words);
    assert_eq!(stored(), ["one", "two"]);
}

/// A clean end in the middle: what was written is acknowledged, the next run goes on there, so nothing
/// is lost and nothing comes twice.
#[test]
fn workers_end_cleanly_and_a_later_run_goes_on() {
    let _calm = servers().calm();
    for name in ["INT", "TERM"] {
        let (topic, group) = (numbered(400, 100), unique("cli-group"));
        let folder = Folder::new();
        let mut command = worker(&topic, &group, &["--unit-size", "5", "--workers", "2"]);
        piped(&mut command).stdout(File::create(folder.path("out")).expect("a file"));
        let process = Running::start(&mut command);
        wait_until("the first records", LIMIT, || !folder.read("out").is_empty());
        signal(&process, name);
        let said = ended(process).ended_with(0);
        let first: Vec<usize> = folder.read("out").lines().map(number_of).collect();
        let counts = format!("processed {} records in ", first.len());
        assert!(said.counts().starts_with(&counts), "{counts}: {}", said.words);
        assert!(said.counts().ends_with(", interrupted"), "{}", said.words);

        let rest = Said::of(&run(&mut worker(&topic, &group, &["--drain"]), b"")).ended_with(0);
        let mut all: Vec<usize> =
            first.iter().copied().chain(rest.lines().iter().map(|line| number_of(line))).collect();
        all.sort_unstable();
        assert_eq!(all, (0..400).collect::<Vec<_>>());
    }
}

#[test]
fn a_drain_that_is_cut_short_is_not_a_success() {
    let _calm = servers().calm();
    let (topic, group) = (numbered(10, 1), unique("cli-group"));
    let gate = Gate::new();
    let process =
        Running::start(piped(&mut worker(&topic, &group, &["--drain", "--exec", &gate.pass()])));
    wait_until("a unit is in hand", LIMIT, || leased(&group) == 1);
    signal(&process, "TERM");
    ended(process).ended_with(1).told(&["interrupted"]);
}
