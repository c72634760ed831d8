//! Which broker coordinates a group or a transactional id.
//!
//! The name's hash chooses a broker, as it chooses a partition of `__consumer_offsets` in Kafka; where
//! that one does not run, the next that does. A name that was moved is where it was moved to, while that
//! broker runs. What is coordinated is shared by all brokers, so nothing is lost with a coordinator.

use super::State;

/// More names than that are not moved at one time: the first ones go back.
const MOVED_MAX: usize = 10_000;

impl State {
    /// The coordinator of a group or a transactional id, `None` when no broker runs.
    pub(in crate::broker) fn coordinator(&self, name: &str) -> Option<i32> {
        if let Some(moved) = self.moved.get(name)
            && self.is_up(*moved)
        {
            return Some(*moved);
        }
        let brokers: Vec<i32> = self.nodes().map(|(id, _)| id).collect();
        let first = java_hash(name) as usize % brokers.len().max(1);
        let around = brokers.iter().cycle().skip(first).take(brokers.len());
        around.copied().find(|broker| self.is_up(*broker))
    }

    /// Whether `broker` is the coordinator.
    pub(in crate::broker) fn coordinates(&self, broker: i32, name: &str) -> bool {
        self.coordinator(name) == Some(broker)
    }

    /// Moves what is called `name` to another coordinator; `false` when that one does not run.
    pub(in crate::broker) fn move_coordinator(&mut self, name: &str, broker: i32) -> bool {
        if !self.is_up(broker) {
            return false;
        }
        if self.moved.len() >= MOVED_MAX {
            self.moved.pop_first();
        }
        self.moved.insert(name.to_owned(), broker);
        self.changed();
        true
    }
}

/// `String.hashCode` of Java without its sign, as `Utils.abs` in Kafka leaves it.
pub(super) fn java_hash(name: &str) -> u32 {
    let hash = |hash: u32, unit: u16| hash.wrapping_mul(31).wrapping_add(u32::from(unit));
    name.encode_utf16().fold(0, hash) & 0x7fff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_javas() {
        assert_eq!(java_hash("group"), 98_629_247);
        assert_eq!(java_hash(""), 0);
    }
}
