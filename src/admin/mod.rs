//! Topics: create, delete, list.
//!
//! [`Admin`] comes from [`Client::admin`]. Each call runs on the caller's thread within one deadline
//! and gives one result per topic: what the broker says of one topic never hides what it says of
//! another.
//!
//! ```text
//! handle   Admin: options; list
//! topic    Topic: what is to be created, and what is refused before anything is sent
//! create   CreateTopics, then the wait until the topics can be used
//! delete   DeleteTopics, then the wait until they are gone
//! items    one result per topic over several attempts                    (pure)
//! ```
//!
//! A request that changes something can be carried out although its answer was lost. Such an
//! outcome is marked ([`Error::possibly_persisted`](crate::Error::possibly_persisted)) rather than
//! guessed.
//!
//! [`Client::admin`]: crate::Client::admin

mod create;
mod delete;
mod handle;
mod items;
#[cfg(test)]
mod tests;
mod topic;

pub use create::{CreatedTopic, TopicCreation};
pub use delete::TopicDeletion;
pub use handle::Admin;
pub use topic::Topic;
