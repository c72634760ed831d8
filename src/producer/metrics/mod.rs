//! What a producer counts, and how it is read.
//!
//! ```text
//! meters      where it is counted: per batch, request and answer        (writers, readers)
//! tally       what is counted for a broker or a topic; windows of 30 s
//! histogram   log-linear buckets of fixed size, for quantiles
//! snapshot    ProducerMetrics: what Producer::metrics() gives           (the caller)
//! prometheus  the snapshot as text, exposition format 0.0.4
//! ```
//!
//! Names are those of Java's producer (`producer-metrics`, `producer-node-metrics`, `producer-topic-metrics`) with `_`
//! for `-`. Totals count from the start; rates, averages, maxima and quantiles look at the last 30 to 60 seconds, as
//! with Java's defaults. A broker takes about 12 KiB, a topic less than 2; both are kept while the producer lives.
//!
//! Not there: `record-size-max`, which would have to be counted per record; `io-*` and `select-*`, which measure Java's
//! selector; `txn-*`, as there are no transactions.

mod histogram;
mod meters;
mod prometheus;
mod snapshot;
mod tally;

pub(super) use meters::{BrokerMeter, Fate, Meters, Written};
pub use snapshot::{BrokerMetrics, ProducerMetrics, Times, TopicMetrics};
