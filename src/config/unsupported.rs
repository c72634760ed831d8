//! Properties of Kafka's Java producer that Ottla does not have, and why.
//!
//! A program that moves here brings its properties along: a name in this list gets the reason, not
//! only "unknown". A test asks Kafka's own class for its names, so that none is missing.

/// A name, or the beginning of names when it ends with a dot.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) reason: &'static str,
}

const SASL: &str = "SASL for clients is not in this version";
const TLS: &str = "TLS is not in this version";
const CLASSES: &str = "classes of Java are not loaded";
const SERIALIZER: &str =
    "a record's key and value bring their serializer along (ottla::producer::Serialize)";
const TRANSACTIONS: &str = "transactions are not in this version";
const METRICS: &str = "Java's metrics library is not there";

macro_rules! rows {
    ($($name:literal: $reason:expr;)+) => {
        &[$(Row { name: $name, reason: $reason },)+]
    };
}

pub(super) const ROWS: &[Row] = rows! {
    "bootstrap.resolve.timeout.ms": "names are resolved within the time-out of the call";
    "buffer.memory.allocation.strategy": "memory is pooled in one way";
    "client.dns.lookup": "all addresses of a name are tried, always";
    "client.rack": "records are read from leaders only, and partitions are not chosen by rack";
    "compression.lz4.level": "lz4 has one level";
    "config.providers": CLASSES;
    "enable.metrics.push": "metrics are not pushed to brokers (KIP-714)";
    "interceptor.classes": CLASSES;
    "key.serializer": SERIALIZER;
    "value.serializer": SERIALIZER;
    "metadata.cluster.check.enable": "brokers are not asked for their cluster's id (KIP-1242)";
    "metadata.max.idle.ms": "a topic is forgotten with its producer";
    "metadata.recovery.": "bootstrap servers are asked again whenever no known broker answers";
    "metric.reporters": METRICS;
    "metrics.": METRICS;
    "partitioner.rack.aware": "partitions are not chosen by rack";
    "retries": "delivery.timeout.ms bounds retries";
    "sasl.": SASL;
    "security.protocol": "TLS and SASL for clients are not in this version";
    "security.providers": CLASSES;
    "socket.connection.setup.timeout.max.ms":
        "the time-out of a connection attempt does not grow";
    "ssl.": TLS;
    "transaction.": TRANSACTIONS;
    "transactional.id": TRANSACTIONS;
};

/// Why Ottla does not have the property, `None` if it is none of Java's.
pub(super) fn reason(name: &str) -> Option<&'static str> {
    let is_meant = |row: &&Row| match row.name.strip_suffix('.') {
        Some(_) => name.starts_with(row.name),
        None => name == row.name,
    };
    ROWS.iter().find(is_meant).map(|row| row.reason)
}
