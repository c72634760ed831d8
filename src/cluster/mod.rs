//! What the client knows of the cluster, and how it reaches it: metadata, routing, retries.
//!
//! ```text
//! handle     Cluster: the object that everything shares; close, drop
//! routing    any / controller / leader / coordinator: one attempt each; look-ups
//! retry      the one retry loop
//! refresh    the metadata thread and those who wait for it
//! links      one exchange with one broker: pool, blacklist, throttling
//! metadata   the snapshot: brokers, topics, partitions, leaders (public views)
//! merge      from a snapshot and an answer to the next snapshot          (pure)
//! backoff    the pause after the n-th failure                            (pure)
//! blacklist  who did not answer, whom to ask instead                     (pure)
//! throttle   until when a broker wants to be left alone                  (pure)
//! ```
//!
//! A file may use those below it. Callers' threads do the calls; the thread "ottla-meta" does
//! nothing but fetch metadata. No lock is held while a socket is used.
//!
//! If you are debugging "it talks to the wrong broker", begin with merge; "it waits too long", with
//! retry; "it asks too often", with refresh.

mod backoff;
mod blacklist;
mod handle;
mod links;
mod merge;
mod metadata;
mod refresh;
mod retry;
mod routing;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod throttle;

pub(crate) use handle::Cluster;
pub(crate) use merge::{describe, is_unknown_topic, may_pass};
pub use metadata::{BrokerInfo, Metadata, PartitionInfo, TopicInfo};
pub(crate) use refresh::{METADATA_VERSIONS, metadata_request};
pub(crate) use routing::Target;
