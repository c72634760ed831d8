//! producer.
