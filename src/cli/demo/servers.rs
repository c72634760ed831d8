//! What the demo runs on: servers that are given, or a cluster inside this process.

use crate::broker::Cluster;
use crate::cli::report;
use crate::error::Result;
use crate::work::{NodeBuilder, Redis};

/// Brokers of the cluster inside the process.
const BROKERS: i32 = 3;

/// Kafka, and where the units lie.
pub(super) enum Servers {
    /// Servers that run already.
    Given {
        /// Where the brokers are.
        bootstrap: String,
        /// Where the queue is.
        redis: String,
    },
    /// Brokers and queue inside this process; they end with the value.
    InProcess(Box<Cluster>),
}

impl Servers {
    /// Starts the brokers inside this process.
    pub(super) fn start() -> Result<Self> {
        let cluster = Cluster::builder().brokers(BROKERS).start()?;
        report::line(&format!(
            "Kafka and the work queue are inside this process: {BROKERS} brokers at {}; \
             -b and --redis name real ones",
            cluster.bootstrap()
        ));
        Ok(Self::InProcess(Box::new(cluster)))
    }

    /// Where the brokers are.
    pub(super) fn bootstrap(&self) -> &str {
        match self {
            Self::Given { bootstrap, .. } => bootstrap,
            Self::InProcess(cluster) => cluster.bootstrap(),
        }
    }

    /// Gives the node its queue.
    pub(super) fn queue(&self, node: NodeBuilder) -> NodeBuilder {
        match self {
            Self::Given { redis, .. } => node.queue(Redis::at(redis)),
            // In memory, as without a queue.
            Self::InProcess(_) => node,
        }
    }
}
