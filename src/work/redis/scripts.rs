//! The scripts' texts: one file per transition, and what they share in files of its own.
//!
//! A script is put together from the shared parts that it needs, in an order in which each part finds those
//! it uses. Limits that the in-memory queue has too are written in from there. A script is sent once and then
//! named by its hash.

use r2d2_redis::redis;

use crate::work::queue::{COMPLETE_LOG_MAX, ERROR_LOG_MAX, SKIPPED_LOG_MAX};

/// The log of finished units is cut once it is longer than its limit by this, not at every unit.
const LOG_SLACK: usize = 100;

/// Where the scripts read the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScriptClock {
    /// From the server.
    Server,
    /// From a key that a test sets.
    #[cfg(test)]
    Manual,
}

impl ScriptClock {
    fn source(self) -> &'static str {
        match self {
            Self::Server => include_str!("scripts/clock_server.lua"),
            #[cfg(test)]
            Self::Manual => include_str!("scripts/clock_manual.lua"),
        }
    }
}

/// Parts, each with those it uses before it.
const LISTS: &[&str] = &[include_str!("scripts/lists.lua")];
const PARTS: &[&str] = &[include_str!("scripts/ranges.lua"), include_str!("scripts/parts.lua")];
const UNITS: &[&str] = &[include_str!("scripts/units.lua")];
const PLAN: &[&str] = &[
    include_str!("scripts/ranges.lua"),
    include_str!("scripts/parts.lua"),
    include_str!("scripts/units.lua"),
];
const PROGRESS: &[&str] = &[
    include_str!("scripts/ranges.lua"),
    include_str!("scripts/units.lua"),
    include_str!("scripts/progress.lua"),
];
const SETTLE: &[&str] = &[
    include_str!("scripts/ranges.lua"),
    include_str!("scripts/units.lua"),
    include_str!("scripts/progress.lua"),
    include_str!("scripts/settle.lua"),
];
const STEER: &[&str] = &[
    include_str!("scripts/ranges.lua"),
    include_str!("scripts/units.lua"),
    include_str!("scripts/steering.lua"),
];

const FINISH: &[&str] = &[
    include_str!("scripts/ranges.lua"),
    include_str!("scripts/units.lua"),
    include_str!("scripts/progress.lua"),
    include_str!("scripts/settle.lua"),
    include_str!("scripts/finishing.lua"),
];

/// A script, put together.
pub(super) struct Script {
    /// By which it is named.
    pub(super) hash: String,
    pub(super) text: String,
}

/// Declares a field per script: its file and the parts it uses.
macro_rules! scripts {
    ($($name:ident: $parts:expr;)*) => {
        /// Every script, put together.
        pub(super) struct Scripts {
            $(pub(super) $name: Script,)*
        }

        impl Scripts {
            pub(super) fn new(clock: ScriptClock) -> Self {
                Self {
                    $($name: assemble(
                        clock,
                        $parts,
                        include_str!(concat!("scripts/", stringify!($name), ".lua")),
                    ),)*
                }
            }
        }
    };
}

scripts! {
    elect: &[];
    resign: &[];
    partitions: PARTS;
    init: PARTS;
    note_committed: &[];
    plan: PLAN;
    reset: PARTS;
    promote: UNITS;
    reap_leases: SETTLE;
    reap_workers: LISTS;
    audit_begin: &[];
    audit_units: PARTS;
    audit_requeue: &[];
    audit_lists: LISTS;
    dead: UNITS;
    bury: SETTLE;
    heartbeat: &[];
    unregister: LISTS;
    claim: &[];
    discard: UNITS;
    begin: &[];
    renew: PROGRESS;
    finish: FINISH;
    finish_next: FINISH;
    give_back: SETTLE;
    reposition: PARTS;
    redrive: STEER;
    drop_failed: STEER;
    view: &[];
    view_partition: PARTS;
}

impl std::fmt::Debug for Scripts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scripts").finish_non_exhaustive()
    }
}

/// The line of a script at which its shared parts stand; without one they stand first.
const PARTS_HERE: &str = "-- (shared parts)";

fn assemble(clock: ScriptClock, parts: &[&str], script: &str) -> Script {
    let mut shared = include_str!("scripts/common.lua").to_owned();
    for part in parts {
        shared += part;
    }
    // What all keys of the group begin with. It carries the hash tag, so that every key lies in one slot of a cluster.
    let mut text = "local base = KEYS[1]\n".to_owned();
    text += clock.source();
    match script.split_once(PARTS_HERE) {
        Some((before, after)) => text.extend([before, &shared, after]),
        None => text.extend([&shared, script]),
    }
    for (name, limit) in [
        ("COMPLETE_LOG_MAX", COMPLETE_LOG_MAX),
        ("ERROR_LOG_MAX", ERROR_LOG_MAX),
        ("SKIPPED_LOG_MAX", SKIPPED_LOG_MAX),
        ("LOG_SLACK", LOG_SLACK),
    ] {
        text = text.replace(name, &limit.to_string());
    }
    let hash = redis::Script::new(&text).get_hash().to_owned();
    Script { hash, text }
}
