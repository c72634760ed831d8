//! The harness itself: what the other tests of real servers take for granted.

mod common;

use std::time::Duration;

use common::{Running, servers, unique, wait_until};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn foreign_clients_reach_the_servers() {
    let servers = servers();
    let _calm = servers.calm();
    let topic = unique("harness");
    servers.create_topic(&topic, 2, &["cleanup.policy=compact"]);
    servers.kcat(&["-P", "-t", &topic, "-p", "1", "-K", ":"], b"k:one\nk:two\n");
    let read = servers.kcat(&["-C", "-t", &topic, "-e", "-q", "-f", "%p %o %k %s\n"], b"");
    assert_eq!(common::text(&read.stdout), "1 0 k one\n1 1 k two\n");
    let described = servers
        .java_tool("org.apache.kafka.tools.TopicCommand", &["--describe", "--topic", &topic]);
    assert!(common::text(&described.stdout).contains("cleanup.policy=compact"));
    servers.delete_topic(&topic);
    wait_until("the topic is gone", LIMIT, || servers.leader(&topic, 0) == 0);
}

#[test]
fn a_stopped_broker_loses_its_leaders_and_comes_back_in_sync() {
    let servers = servers();
    let outage = servers.outage();
    let topic = unique("harness");
    servers.create_topic(&topic, 1, &[]);
    let leader = servers.leader(&topic, 0);
    outage.broker(leader).stop();
    wait_until("another leader", LIMIT, || ![0, leader].contains(&servers.leader(&topic, 0)));
    servers.kcat(&["-P", "-t", &topic], b"while it was away\n");
    drop(outage);
    let _calm = servers.calm();
    let address = servers.broker_address(leader);
    let read = servers.kcat(&["-b", address, "-C", "-t", &topic, "-e", "-q"], b"");
    assert_eq!(common::text(&read.stdout), "while it was away\n");
}

#[test]
fn a_restarted_redis_is_empty() {
    let servers = servers();
    let outage = servers.outage();
    let key = unique("harness");
    servers.redis_cli(&["SET", &key, "1"]);
    assert_eq!(servers.redis_cli(&["GET", &key]), "1");
    outage.redis().freeze();
    outage.redis().stop();
    outage.redis().start();
    assert_eq!(servers.redis_cli(&["DBSIZE"]), "0");
    assert_eq!(
        servers.redis_cli(&["CONFIG", "GET", "maxmemory-policy"]),
        "maxmemory-policy\nnoeviction"
    );
}

#[test]
fn a_child_does_not_outlive_its_guard() {
    let child = Running::start(std::process::Command::new("sleep").arg("1000"));
    let process = format!("/proc/{}", child.id());
    assert!(std::path::Path::new(&process).exists());
    drop(child);
    assert!(!std::path::Path::new(&process).exists());
}
