//! What goes into and out of a [`Group`](super::Group): joins, syncs, their answers, and the members.

use std::time::{Duration, Instant};

use crate::protocol::{Bytes, ErrorCode};

/// Who waits for an answer: the number of the connection, which waits for one thing at a time.
pub(in crate::broker) type Ticket = u64;

/// A member's wish to join.
#[derive(Clone, Debug)]
pub(in crate::broker) struct Join {
    pub(in crate::broker) ticket: Ticket,
    /// Empty for one that has none yet.
    pub(in crate::broker) member_id: String,
    /// What it is to be called if it has no id.
    pub(in crate::broker) new_member_id: String,
    /// The name of a static member (KIP-345).
    pub(in crate::broker) instance_id: Option<String>,
    pub(in crate::broker) client_id: String,
    pub(in crate::broker) client_host: String,
    pub(in crate::broker) session_timeout: Duration,
    pub(in crate::broker) rebalance_timeout: Duration,
    pub(in crate::broker) protocol_type: String,
    /// In the order in which the member likes them.
    pub(in crate::broker) protocols: Vec<(String, Bytes)>,
    /// Whether a member without an id must come again with the one it is given (KIP-394).
    pub(in crate::broker) comes_again: bool,
    /// Whether a leader may be told that nothing is to be assigned (KIP-814).
    pub(in crate::broker) may_skip_assignment: bool,
}

/// The answer to a [`Join`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::broker) struct Joined {
    pub(in crate::broker) error: ErrorCode,
    pub(in crate::broker) member_id: String,
    pub(in crate::broker) generation: i32,
    pub(in crate::broker) protocol_type: Option<String>,
    /// `None` where Kafka sends null (an empty name before version 7).
    pub(in crate::broker) protocol: Option<String>,
    pub(in crate::broker) leader: String,
    pub(in crate::broker) skip_assignment: bool,
    /// For the leader: everybody's id, static name and metadata of the chosen protocol.
    pub(in crate::broker) members: Vec<(String, Option<String>, Bytes)>,
}

impl Joined {
    /// A refusal.
    pub(in crate::broker) fn refused(error: ErrorCode, member_id: &str) -> Self {
        Self { error, member_id: member_id.to_owned(), generation: -1, ..Self::default() }
    }
}

/// A member's wish for its assignment; the leader brings everybody's.
#[derive(Clone, Debug, Default)]
pub(in crate::broker) struct Sync {
    pub(in crate::broker) ticket: Ticket,
    pub(in crate::broker) identity: Identity,
    pub(in crate::broker) generation: i32,
    /// As the member understood them, from version 5 on.
    pub(in crate::broker) protocol_type: Option<String>,
    pub(in crate::broker) protocol: Option<String>,
    pub(in crate::broker) assignments: Vec<(String, Bytes)>,
}

/// The answer to a [`Sync`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::broker) struct Synced {
    pub(in crate::broker) error: ErrorCode,
    pub(in crate::broker) protocol_type: Option<String>,
    pub(in crate::broker) protocol: Option<String>,
    pub(in crate::broker) assignment: Bytes,
}

/// How a member is named in a request.
#[derive(Clone, Debug, Default)]
pub(in crate::broker) struct Identity {
    pub(in crate::broker) member_id: String,
    pub(in crate::broker) instance_id: Option<String>,
}

/// What a waiting request is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::broker) enum Answer {
    /// To `JoinGroup`.
    Join(Joined),
    /// To `SyncGroup`.
    Sync(Synced),
}

/// A member of a group.
#[derive(Clone, Debug)]
pub(in crate::broker) struct Member {
    pub(in crate::broker) instance_id: Option<String>,
    pub(in crate::broker) client_id: String,
    pub(in crate::broker) client_host: String,
    pub(in crate::broker) assignment: Bytes,
    pub(super) session_timeout: Duration,
    pub(super) rebalance_timeout: Duration,
    pub(super) protocols: Vec<(String, Bytes)>,
    /// Who waits for the end of the join.
    pub(super) joining: Option<Ticket>,
    /// Who waits for the assignment.
    pub(super) syncing: Option<Ticket>,
    /// Whether it has never been in a generation.
    pub(super) new: bool,
    /// When it is given up; `None` while the broker keeps it waiting.
    pub(super) expires: Option<Instant>,
}

impl Member {
    pub(super) fn new(join: &Join, expires: Instant) -> Self {
        Self {
            instance_id: join.instance_id.clone(),
            client_id: join.client_id.clone(),
            client_host: join.client_host.clone(),
            assignment: Bytes::new(),
            session_timeout: join.session_timeout,
            rebalance_timeout: join.rebalance_timeout,
            protocols: join.protocols.clone(),
            joining: Some(join.ticket),
            syncing: None,
            new: true,
            expires: Some(expires),
        }
    }

    /// What it says of itself under `protocol`.
    pub(in crate::broker) fn metadata(&self, protocol: &str) -> Bytes {
        let found = self.protocols.iter().find(|(name, _)| name == protocol);
        found.map(|(_, metadata)| metadata.clone()).unwrap_or_default()
    }

    /// The bytes that it takes.
    pub(super) fn weight(&self) -> usize {
        let protocols: usize =
            self.protocols.iter().map(|(name, metadata)| name.len() + metadata.len()).sum();
        let names = self.instance_id.as_ref().map_or(0, String::len) + self.client_id.len();
        protocols + names + self.assignment.len()
    }
}
