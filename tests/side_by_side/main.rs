//! The in-process cluster beside real Kafka 4.4: one list of requests, valid, borderline and wrong, sent to both; the answers are
//! equal field by field.
//!
//! What may differ, and why; a case takes it out of both answers before they are compared:
//!
//! - Ids that each cluster draws for itself (cluster, topics, producers, members, sessions), ports, and times of the broker's
//!   own clock.
//! - Which broker leads or coordinates, and with that the leader's epoch after the topic is made.
//! - The words of error messages, unless clients show them: only whether there is one is compared.
//! - A fetch reads one segment of Kafka's log; the cases do not read across two. A last batch that is cut short.
//! - Produce with null records: the real one never answers (4.4.0), ours does.
//! - How many partitions keep offsets.
//! - ApiVersions: APIs that are not served in the process, and features that belong to them.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/wire.rs"]
mod wire;

mod groups;
mod offsets;
mod records;
mod sides;
mod topics;
mod transactions;

use ottla::broker::Cluster;
use ottla::protocol::messages::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};

use crate::sides::{Both, To};

/// Both clusters with the same topic `name` of one partition on three brokers.
fn both(cluster: &Cluster, name: &str) -> Both {
    common::servers().create_topic(name, 1, &[]);
    cluster.create_topic(name, 1).expect("made");
    let mut both = Both::new(common::servers().bootstrap(), cluster.bootstrap());
    // The cases' records are old.
    let kept = IncrementalAlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type: 2,
            resource_name: name.to_owned(),
            configs: vec![AlterableConfig {
                name: "retention.ms".to_owned(),
                value: Some("-1".to_owned()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    both.ask("records are kept", To::Any, [1], |_, _| kept.clone(), |_| ());
    both
}

fn cluster() -> Cluster {
    Cluster::builder().brokers(3).auto_create_topics(false).start().expect("a cluster")
}
