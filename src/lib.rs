//! Ottla: a Kafka client for programs that use threads.
