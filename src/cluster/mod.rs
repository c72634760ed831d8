//! What the client knows of the cluster, and how it reaches it: metadata, routing, retries.
//!
//! ```text
//! metadata   the snapshot: brokers, topics, partitions, leaders (public views)
//! merge      from a snapshot and an answer to the next snapshot          (pure)
//! backoff    the pause after the n-th failure                            (pure)
//! blacklist  who did not answer, whom to ask instead                     (pure)
//! throttle   until when a broker wants to be left alone                  (pure)
//! ```

mod backoff;
mod blacklist;
mod merge;
mod metadata;
mod throttle;

pub use metadata::{BrokerInfo, Metadata, PartitionInfo, TopicInfo};
