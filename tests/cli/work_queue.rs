//! `ottla work-queue`.

use serde_json::json;

use super::*;

fn work_queue(group: &str, arguments: &[&str]) -> Said {
    let known = ["work-queue", "-g", group, "--redis", servers().redis_url()];
    call(&[&known, arguments].concat(), b"")
}

#[test]
fn the_queue_is_shown_in_numbers() {
    let _calm = servers().calm();
    let (topic, group) = (topic(2, &[]), unique("cli-group"));
    let input = "x\n".repeat(100);
    for partition in ["0", "1"] {
        let arguments = ["-t", &topic, "-p", partition];
        with_brokers(&["send"], &arguments, input.as_bytes()).ended_with(0);
    }
    let mut gate = Gate::new();
    let exec = format!("{} && cat", gate.pass());
    let arguments = ["--unit-size", "10", "--exec", &exec, "-X", "commit.interval.ms=50"];
    let process = Running::start(piped(&mut worker(&topic, &group, &arguments)));
    let shown = || {
        let arguments = ["--json", "-b", servers().bootstrap()];
        let said = work_queue(&group, &arguments).ended_with(0);
        serde_json::from_slice::<serde_json::Value>(&said.records).expect("JSON")
    };
    let planned = |queue: &serde_json::Value| {
        let found = queue["partitions"].as_array().expect("a list");
        found.len() == 2 && found.iter().all(|partition| partition["planned"] == 100)
    };
    wait_until("all is planned and a unit is in hand", LIMIT, || {
        queue_of(&group).is_some_and(|queue| planned(&queue) && queue["lists"]["leased"] == 1)
    });
    // More than is planned: the lag is against the end of the log.
    let queue = shown();
    assert_eq!(queue["group"], json!(group));
    assert!(queue["organiser"].is_string());
    assert_eq!(queue["lists"]["work"], 19);
    assert_eq!(queue["lists"]["leased"], 1);
    for list in ["delayed", "dead", "complete", "error", "skipped"] {
        assert_eq!(queue["lists"][list], 0, "{list}: {queue}");
    }
    let mut queued = 0;
    for (number, partition) in queue["partitions"].as_array().expect("a list").iter().enumerate() {
        assert_eq!(partition["topic"], json!(topic));
        assert_eq!(partition["partition"], json!(number));
        assert_eq!(partition["low"], 0);
        assert_eq!(partition["planned"], 100);
        assert_eq!(partition["lag"], 100);
        assert!(partition["oldest_ms"].is_u64());
        let units = &partition["units"];
        queued += units["queued"].as_u64().expect("a number");
        let live = |state: &str| units[state].as_u64().expect("a number");
        assert_eq!(live("queued") + live("leased"), 10);
    }
    assert_eq!(queued, 19);
    let workers = queue["workers"].as_array().expect("a list");
    assert_eq!(workers.len(), 1);
    assert_eq!(workers[0]["list"].as_array().map(Vec::len), Some(1), "the unit it holds");

    let table = work_queue(&group, &[]).ended_with(0);
    assert_eq!(table.counts(), "20 units in 2 partitions, 1 worker, 0 errors");
    let row = |name: &str| -> Vec<String> {
        let lines = table.lines();
        let line = lines.iter().find(|line| line.starts_with(name)).expect("a row").clone();
        line.split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(row("lists")[1..5], ["work", "19", "delayed", "0"]);
    assert_eq!(row(&format!("{topic}/0"))[1..4], ["0", "100", "100"]);
    assert_eq!(row("organiser")[1], queue["organiser"].as_str().expect("a name"));

    gate.let_pass(20);
    wait_until("all is finished", LIMIT, || {
        shown()["partitions"].as_array().is_some_and(|all| all.iter().all(|one| one["lag"] == 0))
    });
    let queue = shown();
    assert_eq!(queue["lists"]["complete"], 20);
    assert_eq!(queue["lists"]["work"], 0);
    assert_eq!(queue["partitions"][1]["low"], 100);
    assert_eq!(queue["partitions"][1]["oldest_ms"], json!(null));
    signal(&process, "TERM");
    ended(process).ended_with(0);
    assert_eq!(shown()["workers"], json!([]), "it signed off");
    assert_eq!(shown()["organiser"], json!(null));

    // The ends of the log are asked for only with -b: what is not planned yet counts as well then.
    with_brokers(&["send"], &["-t", &topic, "-p", "0"], b"x\nx\n").ended_with(0);
    assert_eq!(shown()["partitions"][0]["lag"], 2);
    assert_eq!(queue_of(&group).expect("the queue")["partitions"][0]["lag"], 0);
}

#[test]
fn a_group_that_nobody_knows_is_told() {
    let group = unique("cli-unknown");
    for arguments in [&[][..], &["--json"]] {
        let said = work_queue(&group, arguments).ended_with(1).told(&[&group]);
        assert_eq!(said.records, b"");
    }
}

/// A queue under another prefix is another queue, for `consume` as for `work-queue`.
#[test]
fn a_prefix_of_its_own_is_found() {
    let _calm = servers().calm();
    let (topic, group) = (numbered(10, 1), unique("cli-group"));
    let prefix = ["-X", "queue.prefix=cli-elsewhere"];
    let mut command = worker(&topic, &group, &[&prefix[..], &["--drain"]].concat());
    succeeded(run(&mut command, b""));
    work_queue(&group, &[]).ended_with(1);
    work_queue(&group, &prefix).ended_with(0).told(&["0 units in 1 partition"]);
}

/// Runs a worker of `group` on `topic` until all is finished; gives how that went.
fn drained(topic: &str, group: &str, arguments: &[&str]) -> Said {
    let always = ["--unit-size", "10", "--drain", "-X", "max.attempts=1"];
    Said::of(&run(&mut worker(topic, group, &[&always, arguments].concat()), b""))
}

/// The words of a row of a table.
fn row(said: &Said, name: &str) -> Vec<String> {
    let lines = said.lines();
    let line = lines.iter().find(|line| line.starts_with(name));
    let line = line.unwrap_or_else(|| panic!("no row {name} in {lines:?}"));
    line.split_whitespace().skip(1).map(str::to_owned).collect()
}

#[test]
fn what_failed_is_redriven_or_dropped() {
    let _calm = servers().calm();
    let (topic, group) = (numbered(40, 1), unique("cli-group"));
    let fails = "read -r first; case $first in 1?|3?) exit 7;; esac";
    drained(&topic, &group, &["--exec", fails]).ended_with(1);
    let shown = work_queue(&group, &[]).ended_with(0);
    assert_eq!(shown.counts(), "0 units in 1 partition, 0 workers, 2 errors");
    let failed = row(&shown, &format!("{topic}/0/10-20"));
    assert_eq!(failed[0], "1", "attempts");
    assert!(failed.concat().contains('7'), "the cause: {failed:?}");

    work_queue(&group, &["redrive", "-t", "another"]).ended_with(0).told(&["0 units"]);
    let said = work_queue(&group, &["redrive", "-t", &topic, "-p", "0"]).ended_with(0);
    assert_eq!(said.counts(), "queued again 2 units with 20 records in 1 partition");
    assert_eq!(row(&said, &format!("{topic}/0")), ["2", "20"]);
    let queue = queue_of(&group).expect("the queue");
    assert_eq!((&queue["partitions"][0]["low"], &queue["errors"]), (&json!(10), &json!([])));
    let said = drained(&topic, &group, &[]).ended_with(0);
    let mut again: Vec<usize> = said.lines().iter().map(|line| number_of(line)).collect();
    again.sort_unstable();
    assert_eq!(again, (10..20).chain(30..40).collect::<Vec<_>>());

    with_brokers(&["send"], &["-t", &topic], b"1x\n").ended_with(0);
    drained(&topic, &group, &["--exec", fails]).ended_with(1);
    let said = work_queue(&group, &["--json", "drop"]).ended_with(0);
    assert_eq!(said.counts(), "dropped 1 unit with 1 record in 1 partition");
    let rows: serde_json::Value = serde_json::from_slice(&said.records).expect("JSON");
    let wanted = json!([{"topic": topic, "partition": 0, "units": 1, "records": 1}]);
    assert_eq!(rows, wanted);
    work_queue(&group, &["redrive"]).ended_with(0).told(&["queued again 0 units"]);
    assert_eq!(queue_of(&group).expect("the queue")["partitions"][0]["low"], 41);
}

#[test]
fn a_position_is_moved_when_nobody_works() {
    let _calm = servers().calm();
    let (topic, group) = (numbered(40, 1), unique("cli-group"));
    drained(&topic, &group, &[]).ended_with(0);
    let reset = |arguments: &[&str]| {
        let brokers = ["-b", servers().bootstrap(), "reset"];
        work_queue(&group, &[&brokers, arguments].concat())
    };
    let name = format!("{topic}/0");
    let said = reset(&["--to", "25"]).ended_with(0);
    assert_eq!(row(&said, &name), ["40", "25", "0", "15"]);
    assert_eq!(
        said.counts(),
        "would move 1 partition, 0 records skipped, 15 records repeated; nothing was changed: --execute does it"
    );
    assert_eq!(drained(&topic, &group, &[]).ended_with(0).lines(), [""; 0]);

    let gate = Gate::new();
    with_brokers(&["send"], &["-t", &topic], b"40\n").ended_with(0);
    let process = Running::start(piped(&mut worker(&topic, &group, &["--exec", &gate.pass()])));
    wait_until("a unit is in hand", LIMIT, || leased(&group) == 1);
    reset(&["--to", "25", "--execute"])
        .ended_with(1)
        .told(&[&group, "an organiser holds the lock"]);
    signal(&process, "TERM");
    ended(process).ended_with(0);
    assert_eq!(queue_of(&group).expect("the queue")["partitions"][0]["low"], 40);

    let said = reset(&["--to", "25", "--execute"]).ended_with(0);
    assert_eq!(said.counts(), "moved 1 partition, 0 records skipped, 15 records repeated");
    let lines = drained(&topic, &group, &[]).ended_with(0).lines();
    let mut again: Vec<usize> = lines.iter().map(|line| number_of(line)).collect();
    again.sort_unstable();
    assert_eq!(again, (25..=40).collect::<Vec<_>>());

    let said = reset(&["--to", "-1h", "-t", &topic, "-p", "0"]).ended_with(0);
    assert_eq!(row(&said, &name), ["41", "0", "0", "41"]);
    let said = reset(&["--to", "@32503680000000"]).ended_with(0);
    assert_eq!(row(&said, &name), ["41", "41", "0", "0"]);
    reset(&["--to", "earliest", "-t", &topic, "-p", "1"])
        .ended_with(1)
        .told(&["no such partition"]);
    work_queue(&group, &["reset", "--to", "earliest"]).ended_with(1).told(&["-b"]);
    // A group that only Kafka knows, and one that nobody knows.
    let fresh = unique("cli-group");
    let arguments = ["-b", servers().bootstrap(), "reset", "--to", "30", "--execute"];
    work_queue(&fresh, &arguments).ended_with(1).told(&["no topic is named"]);
    let said = work_queue(&fresh, &[&arguments[..], &["-t", &topic]].concat()).ended_with(0);
    assert_eq!(row(&said, &name), ["-", "30", "0", "0"]);
    assert_eq!(drained(&topic, &fresh, &[]).ended_with(0).lines().len(), 11);
}

/// Without a terminal each view follows the one before; a signal ends it in peace.
#[test]
fn a_watched_queue_is_shown_until_a_signal() {
    let _calm = servers().calm();
    let (topic, group) = (numbered(10, 1), unique("cli-group"));
    drained(&topic, &group, &[]).ended_with(0);
    work_queue(&group, &["--watch", "drop"]).ended_with(1).told(&["--watch only shows"]);
    work_queue(&unique("cli-unknown"), &["--watch"]).ended_with(1).told(&["no queue of it"]);
    for (form, name) in [(&[][..], "INT"), (&["--json"], "TERM")] {
        let folder = Folder::new();
        let shown = File::create(folder.path("shown")).expect("a file");
        let known = ["work-queue", "-g", &group, "--redis", servers().redis_url(), "--watch=0.1"];
        let mut command = ottla(&[&known, form].concat());
        let command = command.stdin(Stdio::null()).stdout(shown).stderr(Stdio::piped());
        let process = Running::start(command);
        let views = || folder.read("shown").matches(&topic).count();
        wait_until("it is shown three times", LIMIT, || views() >= 3);
        signal(&process, name);
        let said = ended(process).ended_with(0);
        assert_eq!(said.counts(), "0 units in 1 partition, 0 workers, 0 errors");
        let text = folder.read("shown");
        assert!(!text.contains('\x1b'), "no terminal");
        if name == "TERM" {
            let view = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
            assert!(text.lines().all(|line| view(line)["partitions"][0]["low"] == 10));
        } else {
            assert_eq!(text.matches("organiser").count(), views());
        }
    }
}
