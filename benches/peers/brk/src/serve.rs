//! A cluster as a process: says where it is, then at each line of standard input the CPU time that it has
//! taken so far, in seconds; ends at the end of input.

use std::io::{self, Write};

use ottla::broker::Cluster;
use peers_common::{Failure, Meter};
use rdkafka::mocking::MockCluster;

use crate::PARTITIONS;

/// Brokers of each cluster.
const BROKERS: i32 = 3;
/// A topic for each client.
const TOPICS: [&str; 2] = ["rdk", "ott"];

pub fn serve(which: &str) -> Result<(), Failure> {
    match which {
        "cluster" => {
            let start =
                TOPICS.iter().fold(Cluster::builder().brokers(BROKERS), |builder, topic| {
                    builder.topic(topic, PARTITIONS)
                });
            let cluster = start.start()?;
            answer(cluster.bootstrap())
        }
        "mock" => {
            let cluster = MockCluster::new(BROKERS)?;
            for topic in TOPICS {
                cluster.create_topic(topic, PARTITIONS, BROKERS)?;
            }
            answer(&cluster.bootstrap_servers())
        }
        _ => Err(format!("{which} is neither cluster nor mock").into()),
    }
}

fn answer(bootstrap: &str) -> Result<(), Failure> {
    let meter = Meter::start();
    let mut out = io::stdout().lock();
    writeln!(out, "{bootstrap}")?;
    for line in io::stdin().lines() {
        line?;
        writeln!(out, "{}", meter.cpu().as_secs_f64())?;
    }
    Ok(())
}
