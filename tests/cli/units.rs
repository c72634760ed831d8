//! `ottla consume -g`: units to standard output or to commands.

use std::io::Read;

use super::*;

/// Runs a worker until everything is finished.
fn drain(topic: &str, group: &str, arguments: &[&str]) -> Said {
    let mut command = worker(topic, group, &[&["--drain"], arguments].concat());
    Said::of(&run(&mut command, b""))
}

fn numbers(said: &Said) -> Vec<usize> {
    said.lines().iter().map(|line| number_of(line)).collect()
}

/// Whether a process with this id is there.
fn lives(pid: &str) -> bool {
    // A zombie is none: its parent has ended, and nobody may have reaped it yet.
    let state = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    !state.is_empty() && !state.contains(") Z ")
}

#[test]
fn two_processes_share_a_topic() {
    let _calm = servers().calm();
    let (topic, group) = (numbered(100, 1), unique("cli-group"));
    let mut gate = Gate::new();
    // Both hold a unit before either may go on.
    let exec = format!("{} && cat", gate.pass());
    let processes: Vec<Running> = (0..2)
        .map(|_| {
            let arguments = ["--drain", "--unit-size", "10", "--exec", &exec];
            Running::start(piped(&mut worker(&topic, &group, &arguments)))
        })
        .collect();
    wait_until("each holds a unit", LIMIT, || leased(&group) == 2);
    gate.let_pass(10);
    let mut all = Vec::new();
    for process in processes {
        let said = ended(process).ended_with(0);
        let count = said.lines().len();
        let counts =
            format!("processed {count} records in {} units, 0 attempts failed", count / 10);
        assert!(said.counts().starts_with(&counts), "{counts}: {}", said.words);
        assert!(count >= 10, "each had a unit");
        all.extend(numbers(&said));
    }
    all.sort_unstable();
    assert_eq!(all, (0..100).collect::<Vec<_>>());
}

/// Another run of the group has nothing to do, and a new group everything.
#[test]
fn a_drained_topic_stays_drained_for_its_group() {
    let _calm = servers().calm();
    let (topic, group) = (numbered(50, 1), unique("cli-group"));
    let said = drain(&topic, &group, &["--workers", "3", "--unit-size", "7"]).ended_with(0);
    let mut seen = numbers(&said);
    seen.sort_unstable();
    assert_eq!(seen, (0..50).collect::<Vec<_>>());
    assert!(said.counts().starts_with("processed 50 records in 8 units, "), "{}", said.words);
    assert_eq!(said.words.lines().count(), 1, "{}", said.words);
    let said = drain(&topic, &group, &[]).ended_with(0);
    assert!(said.counts().starts_with("processed 0 records in 0 units, "), "{}", said.words);
    assert_eq!(drain(&topic, &unique("cli-other"), &[]).ended_with(0).lines().len(), 50);
}

#[test]
fn a_command_gets_each_unit_and_what_it_is() {
    let _calm = servers().calm();
    let (topic, group) = (numbered(25, 1), unique("cli-group"));
    let exec = r#"echo "$OTTLA_UNIT $OTTLA_TOPIC $OTTLA_PARTITION $OTTLA_START $OTTLA_END $OTTLA_ATTEMPT
$(cat)""#;
    let arguments = ["--unit-size", "10", "--exec", exec, "-f", r"%o=%s\n"];
    let said = drain(&topic, &group, &arguments).ended_with(0);
    let mut wanted = Vec::new();
    for (start, end) in [(0, 10), (10, 20), (20, 25)] {
        wanted.push(format!("{topic}/0/{start}-{end} {topic} 0 {start} {end} 1"));
        wanted.extend((start..end).map(|number| format!("{number}={number}")));
    }
    assert_eq!(said.lines(), wanted);
    assert!(said.counts().starts_with("processed 25 records in 3 units, 0 attempts failed"));
}

#[test]
fn a_unit_whose_command_fails_is_tried_again_and_given_up_in_the_end() {
    let _calm = servers().calm();
    let (topic, group) = (numbered(20, 1), unique("cli-group"));
    let folder = Folder::new();
    // The unit from 10 on fails always, the other the first time.
    let exec = format!(
        r#"echo "$OTTLA_START $OTTLA_ATTEMPT" >> {}; [ $OTTLA_START = 0 ] && [ $OTTLA_ATTEMPT = 2 ] && cat"#,
        folder.path("attempts")
    );
    let arguments = ["--unit-size", "10", "--exec", &exec, "-X", "max.attempts=3"];
    let said = drain(&topic, &group, &arguments).ended_with(1);
    let said = said.told(&[
        &format!("unit {topic}/0/0-10, attempt 1: the handler failed: the command ended with exit status: 1"),
        &format!("unit {topic}/0/10-20 was given up"),
    ]);
    assert_eq!(numbers(&said), (0..10).collect::<Vec<_>>());
    let counts = "processed 10 records in 1 unit, 4 attempts failed, 1 units dead-lettered, ";
    assert!(said.counts().starts_with(counts), "{}", said.words);
    let attempts = folder.read("attempts");
    let mut attempts: Vec<&str> = attempts.lines().collect();
    attempts.sort_unstable();
    assert_eq!(attempts, ["0 1", "0 2", "10 1", "10 2", "10 3"]);

    let queue = queue_of(&group).expect("the group's queue");
    assert_eq!(queue["lists"]["error"], 1);
    assert_eq!(queue["errors"][0]["unit"], format!("{topic}/0/10-20"));
    assert_eq!(queue["errors"][0]["attempts"], 3);
    let error = queue["errors"][0]["error"].as_str().expect("words");
    assert!(error.contains("exit status: 1"), "{error}");
    assert_eq!(queue["partitions"][0]["low"], 20, "what was given up is finished");
}

/// The exit code decides, not how much of the unit was read.
#[test]
fn a_command_may_close_its_input_early() {
    let _calm = servers().calm();
    let (topic, group) = (numbered(5_000, 100), unique("cli-group"));
    let said = drain(&topic, &group, &["--exec", "head -n 1"]).ended_with(0);
    assert_eq!(numbers(&said), [0]);
    assert!(said.words.contains(" in 1 unit, 0 attempts failed, "), "{}", said.words);
    assert_eq!(queue_of(&group).expect("the queue")["partitions"][0]["low"], 5_000);
    assert!(!said.words.contains("roken pipe"), "{}", said.words);
}

/// SIGTERM is passed on to a command and what it started; its unit comes again.
#[test]
fn a_command_that_hangs_is_ended_and_its_unit_comes_again() {
    let _calm = servers().calm();
    let (topic, group) = (numbered(10, 1), unique("cli-group"));
    let gate = Gate::new();
    let note = gate.folder.path("pids");
    // The shell and a child of it, neither of which reads its input.
    let exec = format!("sh -c 'echo $$ >> {note}; {}; true'; echo $$ >> {note}", gate.pass());
    let process = Running::start(piped(&mut worker(&topic, &group, &["--exec", &exec])));
    wait_until("the command runs", LIMIT, || !gate.folder.read("pids").is_empty());
    signal(&process, "TERM");
    let said = ended(process).ended_with(0);
    assert!(
        said.counts().starts_with("processed 0 records in 0 units, 0 attempts failed"),
        "{}",
        said.words
    );
    let pids = gate.folder.read("pids");
    assert_eq!(pids.lines().count(), 1, "the shell did not outlive the signal either");
    assert!(!lives(&pids), "the child did not outlive it");
    assert_eq!(numbers(&drain(&topic, &group, &[]).ended_with(0)), (0..10).collect::<Vec<_>>());
}

/// One that takes no notice of SIGTERM is killed after a while, or at once by a second signal.
#[test]
fn a_command_that_ignores_signals_is_killed() {
    let _calm = servers().calm();
    for (again, code, told) in [(false, 0, "processed 0 records"), (true, 130, "a second signal")] {
        let (topic, group) = (numbered(10, 1), unique("cli-group"));
        let gate = Gate::new();
        let note = gate.folder.path("pid");
        let exec = format!("trap '' TERM; echo $$ > {note}; {}; true", gate.pass());
        let arguments =
            ["--exec", &exec, "-X", "unit.lease.ms=1000", "-X", "worker.timeout.ms=1000"];
        let mut process = Running::start(piped(&mut worker(&topic, &group, &arguments)));
        wait_until("the command runs", LIMIT, || !gate.folder.read("pid").is_empty());
        signal(&process, "INT");
        if again {
            let mut noted = [0; 1];
            let stderr = process.stderr.as_mut().expect("piped");
            stderr.read_exact(&mut noted).expect("the first one is noted");
            // One that follows at once counts as the same: what `timeout` sends twice.
            signal(&process, "INT");
            poll_until(Duration::from_millis(600), || false);
            signal(&process, "INT");
        }
        ended(process).ended_with(code).told(&[told]);
        wait_until("the command is gone", LIMIT, || !lives(&gate.folder.read("pid")));
        assert_eq!(drain(&topic, &group, &[]).ended_with(0).lines().len(), 10);
    }
}

/// Records that stand in a pipe which nobody reads are not acknowledged, and come again when it is closed.
#[test]
fn a_unit_is_acknowledged_only_when_its_records_are_flushed() {
    let _calm = servers().calm();
    let (topic, group) = (numbered(2_000, 100), unique("cli-group"));
    // Wider than a pipe holds: the first batch cannot be flushed.
    let format = [r"%o %s", &"=".repeat(1_000), r"\n"].concat();
    let arguments = ["--drain", "-f", &format, "--unit-size", "1000"];
    let mut process = Running::start(piped(&mut worker(&topic, &group, &arguments)));
    let mut output = process.stdout.take().expect("piped");
    let mut first = [0; 4_096];
    output.read_exact(&mut first).expect("the first records");
    assert_eq!(number_of(&text(&first)), 0);
    let queue = queue_of(&group).expect("the group's queue");
    assert_eq!(queue["partitions"][0]["low"], 0, "nothing was flushed");
    assert_eq!(queue["lists"]["leased"], 1);
    drop(output);
    let said = ended(process).ended_with(141);
    assert!(said.counts().starts_with("processed 0 records in 0 units, "), "{}", said.words);

    let said = drain(&topic, &group, &["-f", r"%o\n"]).ended_with(0);
    let mut seen = numbers(&said);
    seen.sort_unstable();
    assert_eq!(seen, (0..2_000).collect::<Vec<_>>(), "all of it comes again");
}

/// Closed after a while: what was flushed is acknowledged batch by batch, the rest comes again.
#[test]
fn an_output_that_is_closed_midway_loses_nothing() {
    let _calm = servers().calm();
    let (topic, group) = (numbered(5_000, 200), unique("cli-group"));
    let arguments = ["--drain", "--workers", "2", "--unit-size", "500", "-f", r"%o %s\n"];
    let mut process = Running::start(piped(&mut worker(&topic, &group, &arguments)));
    let mut read = vec![0; 500_000];
    let mut output = process.stdout.take().expect("piped");
    output.read_exact(&mut read).expect("half of the records");
    drop(output);
    ended(process).ended_with(141);
    let whole = read.iter().rposition(|byte| *byte == b'\n').expect("a line");
    let first: Vec<usize> = text(&read[..whole]).lines().map(number_of).collect();
    let rest = drain(&topic, &group, &["-f", r"%o\n"]).ended_with(0);
    let mut all: Vec<usize> = first.iter().copied().chain(numbers(&rest)).collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    // What stood in the pipe when it was closed had been flushed into it: that much may be missing,
    // as with every program whose reader goes away.
    let missing = 5_000 - all.len();
    assert!(missing * 206 <= 65_536 + 206, "{missing} are missing");
    assert!(count < 10_000, "what was flushed does not come again");
}

#[test]
fn a_unit_is_not_acknowledged_when_the_output_is_full() {
    let _calm = servers().calm();
    let (topic, group) = (numbered(10, 1), unique("cli-group"));
    let mut command = worker(&topic, &group, &[]);
    piped(&mut command).stdout(OpenOptions::new().write(true).open("/dev/full").expect("Linux"));
    let said = ended(Running::start(&mut command)).ended_with(1);
    let said = said.told(&["standard output cannot be written", "No space left"]);
    assert!(said.counts().starts_with("processed 0 records in 0 units, "), "{}", said.words);
    assert_eq!(drain(&topic, &group, &[]).ended_with(0).lines().len(), 10);
}

/// As for kcat, `^` begins a regular expression; internal topics never match, and new ones are taken up.
#[test]
fn topics_by_regular_expression_are_read_also_those_made_later() {
    let _calm = servers().calm();
    let (first, group) = (numbered(10, 1), unique("cli-group"));
    // The offsets of this group make sure that there is an internal topic.
    let known = ["--drain"];
    succeeded(run(&mut worker(&first, &unique("cli-group"), &known), b""));
    let pattern = format!("^({first}|__consumer_offsets|__transaction_state)");
    let arguments = ["-f", "%t %s\n", "-X", "commit.interval.ms=50"];
    let process = Running::start(piped(&mut worker(&pattern, &group, &arguments)));
    let low = || {
        let queue = queue_of(&group)?;
        let partitions = queue["partitions"].as_array()?.clone();
        Some(partitions.iter().map(|one| (one["topic"].to_string(), one["low"].as_i64())).collect())
    };
    let wanted = |topics: &[&str]| {
        let low_of = |topic: &&str| (format!("\"{topic}\""), Some(10));
        Some(topics.iter().map(low_of).collect::<Vec<_>>())
    };
    wait_until("the first is read", LIMIT, || low() == wanted(&[&first]));
    let second = format!("{first}-b");
    with_brokers(&["topics", "create"], &["-t", &second, "--partitions", "1"], b"").ended_with(0);
    with_brokers(&["send"], &["-t", &second], "x\n".repeat(10).as_bytes()).ended_with(0);
    wait_until("the second is read", LIMIT, || low() == wanted(&[&first, &second]));
    signal(&process, "TERM");
    let said = ended(process).ended_with(0);
    let of = |topic: &str| said.lines().iter().filter(|line| line.starts_with(topic)).count();
    assert_eq!((said.lines().len(), of(&format!("{second} "))), (20, 10));

    let wrong = ["-t", "^(", "-g", &group, "--redis", servers().redis_url()];
    with_brokers(&["consume"], &wrong, b"").ended_with(1).told(&["no regular expression"]);
    with_brokers(&["consume"], &["-t", "^a", "-e"], b"").ended_with(1).told(&["-g"]);
}

/// What is given up is stored with its cause, and its letters are not read as records of the same pattern.
#[test]
fn dead_letters_go_to_the_topic_that_was_named() {
    let _calm = servers().calm();
    let (source, group) = (numbered(30, 1), unique("cli-group"));
    let letters = format!("{source}-letters");
    with_brokers(&["topics", "create"], &["-t", &letters, "--partitions", "1"], b"").ended_with(0);
    let fails = "read -r first; case $first in 1?) exit 7;; esac";
    let pattern = format!("^{source}");
    let bounds = ["--records-per-second", "100000", "--bytes-per-second", "100000000"];
    let arguments = ["--unit-size", "10", "-X", "max.attempts=1", "--exec", fails];
    let said = drain(
        &pattern,
        &group,
        &[&arguments, &bounds[..], &["--dead-letter-topic", &letters]].concat(),
    );
    said.ended_with(1).told(&["1 units dead-lettered"]);
    let said =
        with_brokers(&["consume"], &["-t", &letters, "-e", "-f", "%s %h\n"], b"").ended_with(0);
    let mut numbers: Vec<usize> = said.lines().iter().map(|line| number_of(line)).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (10..20).collect::<Vec<_>>());
    assert!(
        said.lines().iter().all(|line| line.contains(&format!("ottla.topic={source}"))),
        "{said:?}"
    );
    let partitions = queue_of(&group).expect("the queue")["partitions"].clone();
    assert_eq!(partitions.as_array().map(Vec::len), Some(1), "{partitions}");

    let unknown = unique("cli-unknown");
    let said = drain(&source, &group, &["--dead-letter-topic", &unknown]);
    said.ended_with(1).told(&[&unknown]);
}
