//! The thread `ottla-router`: partitions whose leader is not known, or not reachable, until it is.
//!
//! It asks for newer metadata, waits out each partition's back-off, and hands the partition to the
//! writer of the broker that the metadata names. While a partition is here its batches grow older;
//! those that run out of time are failed here.
//!
//! A topic that was deleted, or deleted and made again (its topic id is another one), is noticed
//! here: what was meant for the old topic fails and never goes to the new one.

use std::sync::Arc;
use std::time::Instant;

use super::accumulator::Partition;
use super::backlog::{IdentityState, Look, Taker};
use super::core::Core;
use super::writer::expiry_tick;
use crate::clock;

/// The body of the thread.
pub(super) fn run(core: &Arc<Core>) {
    let mut list: Vec<Arc<Partition>> = Vec::new();
    let tick = expiry_tick(core.limits.delivery_timeout);
    while !core.stopped.is_set() {
        core.router.begin_round();
        list.extend(core.router.arrivals());
        if core.router.take_overflow() {
            let all = core.topics.all_partitions();
            list.extend(all.into_iter().filter(|one| one.is_listed_on(&core.router)));
        }
        let now = clock::now();
        let mut next = now + tick;
        let mut leaderless = false;
        list.retain(|partition| match look(core, partition, now) {
            Step::Done => false,
            Step::Pause(until) => {
                next = next.min(until);
                true
            }
            Step::NoLeader => {
                leaderless = true;
                true
            }
        });
        if leaderless {
            core.cluster.request_refresh();
            next = next.min(now + core.client.retry_backoff);
        }
        let until = (!list.is_empty()).then_some(next);
        core.router.sleep(until, 1);
    }
}

/// What a look at one partition came to.
enum Step {
    /// It is not the router's any more.
    Done,
    /// It may go to its leader then.
    Pause(Instant),
    /// The metadata name no leader.
    NoLeader,
}

fn look(core: &Arc<Core>, partition: &Arc<Partition>, now: Instant) -> Step {
    let taker = Taker {
        queue: &core.router,
        connection: 0,
        request: 0,
        identity: IdentityState::Awaited,
        hurry: false,
    };
    let mut expired = Vec::new();
    let look = partition.look(&taker, now, &mut expired);
    core.expire_all(expired, now);
    if matches!(look, Look::Idle | Look::Moved) {
        return Step::Done;
    }
    core.refresh_topic(&partition.topic);
    if let Some(until) = partition.not_before()
        && until > now
    {
        return Step::Pause(until);
    }
    let Some(broker) = core.leader_of(partition) else { return Step::NoLeader };
    match core.queue_of(broker) {
        Ok(queue) => {
            partition.route(&queue);
            Step::Done
        }
        Err(error) => {
            log::error!("{error}");
            Step::NoLeader
        }
    }
}
