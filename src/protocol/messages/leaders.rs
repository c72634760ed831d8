//! Structs that Produce and Fetch responses share: where a partition's leader is now (KIP-951).
//!
//! The field that holds one says in which versions it occurs.

messages! {
    /// The leader of a partition.
    struct LeaderIdAndEpoch {
        /// The leader's id, -1 for none.
        leader_id: i32 [0+] = -1;
        /// The leader epoch, -1 when unknown.
        leader_epoch: i32 [0+] = -1;
    }

    /// Where a broker can be reached.
    struct NodeEndpoint {
        /// The broker's id.
        node_id: i32 [0+];
        /// Host name or address.
        host: String [0+];
        /// TCP port.
        port: i32 [0+];
        /// The rack, if known.
        rack: Option<String> [0+] null[0+];
    }
}
