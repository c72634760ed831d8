//! The brokers of the cluster: which are up, where they listen, who is the controller.

use super::State;

/// A broker.
#[derive(Clone, Debug)]
pub(in crate::broker) struct Node {
    /// Where it listens or listened last.
    pub(in crate::broker) port: u16,
    /// Whether it runs.
    pub(in crate::broker) up: bool,
    /// Whether it hangs: it takes connections and requests and answers nothing.
    pub(in crate::broker) frozen: bool,
    /// Counts its stops. A connection that is older than the present count ends.
    incarnation: u64,
}

impl State {
    /// `broker` listens on `port`.
    pub(in crate::broker) fn broker_started(&mut self, broker: i32, port: u16) {
        let node = self.nodes.entry(broker).or_insert(Node {
            port,
            up: false,
            frozen: false,
            incarnation: 0,
        });
        (node.port, node.up, node.frozen) = (port, true, false);
        self.elect_leaders();
        self.changed();
    }

    /// `broker` is gone: the others take over what it led.
    pub(in crate::broker) fn broker_stopped(&mut self, broker: i32) {
        if let Some(node) = self.nodes.get_mut(&broker) {
            node.up = false;
        }
        self.fetch_sessions.remove(&broker);
        self.elect_leaders();
        self.changed();
    }

    /// Makes `broker` hang, or go on.
    pub(in crate::broker) fn set_frozen(&mut self, broker: i32, frozen: bool) {
        if let Some(node) = self.nodes.get_mut(&broker) {
            node.frozen = frozen;
        }
        self.changed();
    }

    /// Every connection of `broker` that exists now ends, waiting ones included.
    pub(in crate::broker) fn end_connections(&mut self, broker: i32) {
        if let Some(node) = self.nodes.get_mut(&broker) {
            node.incarnation += 1;
        }
        self.changed();
    }

    /// Counts the stops of `broker`.
    pub(in crate::broker) fn incarnation(&self, broker: i32) -> u64 {
        self.nodes.get(&broker).map_or(0, |node| node.incarnation)
    }

    /// Whether `broker` hangs.
    pub(in crate::broker) fn is_frozen(&self, broker: i32) -> bool {
        self.nodes.get(&broker).is_some_and(|node| node.frozen)
    }

    /// Whether `broker` runs.
    pub(in crate::broker) fn is_up(&self, broker: i32) -> bool {
        self.nodes.get(&broker).is_some_and(|node| node.up)
    }

    /// All brokers, by id.
    pub(in crate::broker) fn nodes(&self) -> impl Iterator<Item = (i32, &Node)> {
        self.nodes.iter().map(|(id, node)| (*id, node))
    }

    /// The brokers that run, by id.
    pub(in crate::broker) fn live(&self) -> impl Iterator<Item = (i32, &Node)> {
        self.nodes().filter(|(_, node)| node.up)
    }

    /// The controller: the first broker that runs; -1 without one.
    pub(in crate::broker) fn controller(&self) -> i32 {
        self.live().next().map_or(-1, |(id, _)| id)
    }
}
