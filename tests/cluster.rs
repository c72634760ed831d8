//! Client, metadata and topics on three real brokers.

mod common;

use std::time::Duration;

use common::{servers, unique, wait_until};
use ottla::admin::Topic;
use ottla::{Client, ErrorKind, protocol::ErrorCode};

const LIMIT: Duration = Duration::from_secs(60);

fn client() -> Client {
    Client::builder(servers().bootstrap()).build().expect("legal settings")
}

#[test]
fn one_bootstrap_server_leads_to_all_brokers() {
    let servers = servers();
    let _calm = servers.calm();
    let address = servers.broker_address(2);
    let client = Client::builder(&format!("bad.invalid:9092,{address}")).build().expect("legal");
    let brokers = client.brokers().expect("broker 2 answers");
    let found: Vec<String> =
        brokers.iter().map(|broker| format!("{}:{}", broker.host, broker.port)).collect();
    assert_eq!(found.join(","), servers.bootstrap());
    assert!(client.metadata().cluster_id().is_some());
    client.close(LIMIT).expect("closed");
    assert_eq!(client.refresh().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn topics_are_created_listed_used_and_deleted() {
    let servers = servers();
    let _calm = servers.calm();
    let client = client();
    let admin = client.admin();
    let (placed, counted, absurd) = (unique("placed"), unique("counted"), unique("absurd"));
    let topics = [
        Topic::new(&placed).assignment([[3, 1], [1, 2]]),
        Topic::new(&counted).partitions(6).replication(3).config("cleanup.policy", "compact"),
        Topic::new(&absurd).partitions(1).replication(9),
    ];
    let checked = admin.clone().validate_only().create_topics(topics.clone()).expect("answered");
    let fine: Vec<bool> = checked.iter().map(|topic| topic.result.is_ok()).collect();
    assert_eq!(fine, [true, true, false]);
    let error = client.topic(&counted).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownTopic, "it was only checked: {error}");

    let made = admin.create_topics(topics.clone()).expect("answered");
    let one = made[0].result.as_ref().expect("created");
    assert_eq!((one.partitions, one.replication), (Some(2), Some(2)));
    let two = made[1].result.as_ref().expect("created");
    assert_eq!((two.partitions, two.replication, two.existed), (Some(6), Some(3), false));
    let refused = made[2].result.as_ref().unwrap_err();
    assert_eq!(refused.broker_code(), Some(ErrorCode::INVALID_REPLICATION_FACTOR));
    assert!(refused.to_string().contains('9'), "the broker's own words: {refused}");

    // At once: every partition has a leader, and it is where it was put.
    let seen = client.topic(&placed).expect("the topic");
    let leaders: Vec<Option<i32>> = seen.partitions.iter().map(|part| part.leader).collect();
    assert_eq!(leaders, [Some(3), Some(1)]);
    assert_eq!(seen.id, one.id);
    assert!(seen.partitions.iter().all(|partition| partition.leader_epoch.is_some()));
    let told = servers
        .java_tool("org.apache.kafka.tools.TopicCommand", &["--describe", "--topic", &counted]);
    assert!(common::text(&told.stdout).contains("cleanup.policy=compact"));

    let again = admin.create_topics([topics[1].clone()]).expect("answered");
    let exists = again[0].result.as_ref().unwrap_err();
    assert_eq!(exists.broker_code(), Some(ErrorCode::TOPIC_ALREADY_EXISTS));
    let again = admin.clone().if_not_exists().create_topics([topics[1].clone()]).expect("answered");
    assert!(again[0].result.as_ref().expect("it is there").existed);

    let listed = admin.list_topics().expect("topics");
    for (name, partitions) in [(&placed, 2), (&counted, 6)] {
        let row = listed.iter().find(|topic| *topic.name == **name).expect("it is listed");
        assert_eq!(row.partitions.len(), partitions);
    }
    let gone = admin.delete_topics([&placed, &counted, &absurd]).expect("answered");
    let fine: Vec<bool> = gone.iter().map(|topic| topic.result.is_ok()).collect();
    assert_eq!(fine, [true, true, false]);
    let left = admin.list_topics().expect("topics");
    assert!(!left.iter().any(|topic| *topic.name == *placed || *topic.name == *counted));
}

#[test]
fn a_topic_can_be_made_again_at_once_and_is_another_one() {
    let servers = servers();
    let _calm = servers.calm();
    let client = client();
    let admin = client.admin();
    let topic = Topic::new(unique("again")).partitions(2).replication(3);
    let mut ids = Vec::new();
    for _ in 0..3 {
        let made = admin.create_topics([topic.clone()]).expect("answered");
        ids.push(made[0].result.as_ref().expect("created").id.expect("brokers of today give ids"));
        wait_until("the client sees the new topic", LIMIT, || {
            client.refresh().expect("metadata");
            client.topic(topic.name()).is_ok_and(|seen| seen.id == ids.last().copied())
        });
        let gone = admin.delete_topics([topic.name()]).expect("answered");
        gone[0].result.as_ref().expect("deleted");
    }
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[test]
fn a_look_at_a_missing_topic_does_not_create_it() {
    let servers = servers();
    let _calm = servers.calm();
    let name = unique("missing");
    let client =
        Client::builder(servers.bootstrap()).default_api_timeout(Duration::from_secs(2)).build();
    let client = client.expect("legal settings");
    let error = client.topic(&name).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownTopic);
    assert!(error.attempts().is_some_and(|attempts| attempts > 1), "{error}");
    let listed = client.admin().list_topics().expect("topics");
    assert!(!listed.iter().any(|topic| *topic.name == *name));
}

#[test]
fn a_client_outlives_the_outage_of_each_broker() {
    let servers = servers();
    let outage = servers.outage();
    let client = client();
    let name = unique("outage");
    let made = client.admin().create_topics([Topic::new(&name).partitions(3).replication(3)]);
    made.expect("answered")[0].result.as_ref().expect("created");
    for n in 1..=servers.brokers() {
        let id = i32::try_from(n).expect("a small number");
        outage.broker(n).stop();
        wait_until("the others lead all partitions", LIMIT, || {
            client.refresh().expect("the other brokers answer");
            let topic = client.topic(&name).expect("the topic");
            topic.partitions.iter().all(|part| part.leader.is_some_and(|leader| leader != id))
        });
        // Also what needs the controller.
        let other = unique("meanwhile");
        let made = client.admin().create_topics([Topic::new(&other).partitions(1).replication(2)]);
        made.expect("answered")[0].result.as_ref().expect("created");
        outage.broker(n).start();
        wait_until("the broker is known again", LIMIT, || {
            client.refresh().expect("metadata").broker(id).is_some()
        });
    }
}

#[test]
fn a_frozen_broker_is_passed_over() {
    let servers = servers();
    let outage = servers.outage();
    let client = Client::builder(servers.bootstrap())
        .request_timeout(Duration::from_secs(2))
        .build()
        .expect("legal settings");
    client.brokers().expect("brokers");
    for n in 1..=servers.brokers() {
        outage.broker(n).freeze();
        client.refresh().expect("another broker answers");
        outage.broker(n).thaw();
    }
}
