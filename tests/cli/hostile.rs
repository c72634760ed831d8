//! Every command against addresses and words that are wrong: bounded, and told by name.

use std::io::Read;

use super::*;

#[test]
fn brokers_that_cannot_be_reached_are_named() {
    let address = nobody();
    let redis = servers().redis_url();
    let cluster = ["-b", &address, "-X", "default.api.timeout.ms=1000", "-X", "max.block.ms=1000"];
    for command in [
        &["topics", "list"][..],
        &["topics", "create", "-t", "a"],
        &["topics", "delete", "-t", "a"],
        &["send", "-t", "a"],
        &["consume", "-t", "a", "-e"],
        &["consume", "-t", "a", "-g", "cli-nobody", "--redis", redis, "--drain"],
    ] {
        let said =
            call(&[command, &cluster].concat(), b"one\ntwo\n").ended_with(1).told(&[&address]);
        assert_eq!(said.records, b"", "{command:?}");
        // The error and the counts, and that it is tried again after failures 1, 2, 4, ...
        assert!(said.words.lines().count() <= 7, "not told per record: {}", said.words);
    }
}

/// A port of something else is no reason to wait for the time-out.
#[test]
fn a_port_that_is_not_kafkas_is_named_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    #[expect(clippy::disallowed_methods, reason = "detached: it ends with the tests")]
    std::thread::spawn(move || {
        while let Ok((mut peer, _)) = listener.accept() {
            let mut begin = [0; 4];
            if peer.read_exact(&mut begin).is_ok() {
                peer.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").ok();
            }
        }
    });
    let cluster = ["-b", &address, "-X", "default.api.timeout.ms=3600000"];
    call(&[&["topics", "list"][..], &cluster].concat(), b"")
        .ended_with(1)
        .told(&[&address, "HTTP"]);
}

#[test]
fn unknown_topics_are_named() {
    let _calm = servers().calm();
    let name = unique("cli-unknown");
    let group = unique("cli-group");
    let redis = servers().redis_url();
    let bounds = ["-t", &name, "-X", "default.api.timeout.ms=2000", "-X", "max.block.ms=2000"];
    for command in
        [&["send"][..], &["consume", "-e"], &["consume", "-g", &group, "--redis", redis, "--drain"]]
    {
        let said = with_brokers(command, &bounds, b"one\ntwo\n").ended_with(1).told(&[&name]);
        assert!(said.words.lines().count() <= 2, "told once: {}", said.words);
    }
    assert!(queue_of(&group).is_none(), "nothing is left behind in Redis");
}

#[test]
fn a_redis_that_cannot_be_reached_is_named() {
    let _calm = servers().calm();
    let topic = topic(1, &[]);
    let address = nobody();
    for (url, told) in [
        (format!("redis://:secret@{address}"), &address[..]),
        ("http://:secret@127.0.0.1:1".to_owned(), "the address of Redis"),
        ("secret".to_owned(), "the address of Redis"),
    ] {
        for said in [
            call(&["work-queue", "-g", "g", "--redis", &url], b""),
            with_brokers(&["consume"], &["-t", &topic, "-g", "g", "--redis", &url, "--drain"], b""),
        ] {
            let said = said.ended_with(1).told(&[told]);
            assert!(!said.words.contains("secret"), "a password is not told: {}", said.words);
        }
    }
}

/// Words that cannot be understood are refused before any server is asked: here none is there.
#[test]
fn nonsense_is_refused_before_connecting() {
    let address = nobody();
    for (arguments, code, told) in [
        (&["consume", "-t", "a", "-f", "%q"][..], 2, "%q"),
        (&["consume", "-t", "a", "-f", "%s %"], 2, "lone %"),
        (&["consume", "-t", "a", "-f", r"\x4"], 2, r"\x4"),
        (&["consume", "-t", "a", "-o", "yesterday"], 2, "yesterday"),
        (&["consume", "-t", "a", "-t", "b"], 1, "one topic"),
        (&["consume", "-t", "a", "-g", "g"], 2, "--redis"),
        (
            &[
                "consume",
                "-t",
                "a",
                "-g",
                "g",
                "--redis",
                "redis://h",
                "--workers",
                "0",
                "--exec",
                "x",
            ],
            1,
            "--workers",
        ),
        (&["send", "-t", "a", "-z", "rar"], 1, "rar"),
        (&["send", "-t", "a", "-K", r"\q"], 2, r"\q"),
        (&["send", "-t", "a", "/no/such/file"], 1, "/no/such/file"),
        (&["send", "-t", "a", "-X", "linger.sm=5"], 1, "linger.sm"),
        (&["send", "-t", "a", "-X", "linger.ms=soon"], 1, "linger.ms"),
    ] {
        let said = call(&[arguments, &["-b", &address]].concat(), b"one\n");
        let said = said.ended_with(code).told(&[told]);
        assert!(!said.words.contains(&address), "{arguments:?}: {}", said.words);
        assert_eq!(said.records, b"");
    }
}
