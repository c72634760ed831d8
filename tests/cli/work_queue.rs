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
