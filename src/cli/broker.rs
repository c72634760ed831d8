//! `ottla broker`: the in-process cluster as a process, for development in any language.

use std::time::Duration;

use super::args::BrokerArgs;
use super::signals::Ending;
use super::{End, report};
use crate::broker::Cluster;
use crate::error::Result;

/// How often the wait for a signal looks up; a signal ends it at once.
const WAIT: Duration = Duration::from_secs(3600);

pub(super) fn run(args: &BrokerArgs) -> Result<End> {
    let ending = Ending::watch()?;
    let mut builder = Cluster::builder().brokers(args.brokers).port(args.port);
    for (name, partitions) in &args.topics {
        builder = builder.topic(name, *partitions);
    }
    let cluster = builder.start()?;
    report::line(&format!(
        "ottla: brokers listen on {}, for this machine only",
        cluster.bootstrap()
    ));
    report::line(
        "ottla: for development: everything is in memory and nothing is kept after the end",
    );
    while !ending.wait(WAIT) {}
    let requests = cluster.observed_count();
    drop(cluster);
    report::line(&format!("ottla: {requests} requests served; nothing was kept"));
    Ok(End::Complete)
}
