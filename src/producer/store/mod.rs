//! The retry store: what could not be delivered goes to disk and is sent again (`retry.store.path`).
//!
//! ```text
//!  core.fail --Timeout, Closed--> keep --append--> log (segment files) --oldest first--> replay (ottla-store)
//!      ^                                                                                     |
//!      '-- it fails again: it is still on disk <-- partition <-- a batch of its own --------'
//! ```
//!
//! - `entry`: a batch as bytes, with its checksum. Pure.
//! - `log`: the segment files, their lock, their recovery.
//! - `keep`: which failures are stored, on the thread that found out; the batch's tickets tell
//!   [`StoredForRetry`](crate::ErrorKind::StoredForRetry) only after the disk has it.
//! - `replay`: thread `ottla-store`, from the start of the producer on: one stored batch per partition at a time, in the order
//!   in which they were stored; a segment is removed when every batch of it is acknowledged.
//!
//! **At least once.** A stored batch may have reached the broker before (its error says `possibly_persisted`), and a whole
//! segment is sent again if the process dies before its last batch was acknowledged. Idempotence does not reach over a
//! restart: consumers must expect duplicates of what was stored. Stored batches keep their order within a partition; records
//! that are sent meanwhile may pass them.
//!
//! **Stored** are records that ran out of `delivery.timeout.ms`, and those that `close` or `Drop` had to give up. Not stored is
//! what a broker refused for good, what was purged, and what belonged to a topic that was deleted: another attempt could not
//! end better. A stored batch is dropped, told as a failure, when its records themselves are
//! refused as it is sent again (too large, invalid, damaged), or when its topic was deleted and made again; any other refusal (an
//! authorisation that is missing, say) keeps it.
//!
//! **Durability**: `fdatasync` after every group of batches that fail together, before their tickets tell. A batch whose write
//! failed, or that found no space (`retry.store.max.bytes`), fails as it would have without a store.

mod entry;
mod keep;
mod log;
mod replay;
#[cfg(test)]
mod tests;

pub(super) use self::log::Log;
pub(super) use self::replay::stays;

#[cfg(test)]
mod testing {
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A folder of a test, removed with it.
    pub(super) struct Folder(PathBuf);

    impl Folder {
        pub(super) fn new() -> Self {
            static COUNT: AtomicU64 = AtomicU64::new(0);
            let count = COUNT.fetch_add(1, Ordering::SeqCst);
            let name = format!("ottla-store-{}-{count}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&path).expect("a folder");
            Self(path)
        }

        pub(super) fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            if let Err(error) = std::fs::remove_dir_all(&self.0) {
                eprintln!("{}: {error}", self.0.display());
            }
        }
    }
}
