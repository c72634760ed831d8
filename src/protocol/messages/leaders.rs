//! Where a partition's leader is now: structs that responses of Produce and Fetch share (KIP-951).
//!
//! A broker that is not the leader any more says who is and where, which saves the client a look at
//! the metadata. The field that holds one says in which versions it occurs.

messages! {
    /// The leader of a partition.
    struct LeaderIdAndEpoch {
        /// The leader's id, -1 when unknown.
        leader_id: i32 [0+] = -1;
        /// Its leader epoch, -1 when unknown.
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
        /// Its rack, if it has one.
        rack: Option<String> [0+] null[0+];
    }
}
