//! The segment files of a retry store, and the lock of its folder.
//!
//! Owned by one producer; the lock file keeps every other one out, also of this process. Entries are appended to the newest
//! segment and made durable (`fdatasync`, and the folder's entry for a new file) before [`Log::append`] returns: what was told to
//! be stored survives a killed process and, as far as the disk keeps its word, a power cut. A segment is read whole, and
//! removed whole.
//!
//! At [`Log::open`] each segment is read; what follows the last whole entry is a torn write, or damage, and is cut off.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::entry::{self, End, Entry, HEAD};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::Bytes;

/// Bytes at which a segment is full; one batch may go past it.
const SEGMENT_BYTES: u64 = 4 * 1024 * 1024;
/// The file that is locked.
const LOCK: &str = "lock";
/// What names of segments end with.
const SUFFIX: &str = ".batches";

/// A folder of segments. All methods may be called from any thread; they block on the disk.
#[derive(Debug)]
pub(in crate::producer) struct Log {
    folder: PathBuf,
    bytes_max: u64,
    state: Mutex<State>,
    /// Held locked until it is closed.
    lock: Mutex<Option<File>>,
}

#[derive(Debug, Default)]
struct State {
    /// Sizes of all segments, by number.
    segments: BTreeMap<u64, u64>,
    /// The one that is written to.
    active: Option<(u64, File)>,
    /// The next number.
    next: u64,
    closed: bool,
}

impl State {
    fn bytes(&self) -> u64 {
        self.segments.values().sum()
    }
}

impl Log {
    /// Opens the store in `folder`, which is made if need be, for at most `bytes_max` bytes.
    ///
    /// # Errors
    /// `Config` when another producer has it open; `Io`.
    pub(in crate::producer) fn open(folder: &Path, bytes_max: u64) -> Result<Self> {
        let fail = |what: &str| {
            let message = format!("the retry store {}: {what}", folder.display());
            move |error: io::Error| Error::new(ErrorKind::Io, message).with_source(error)
        };
        fs::create_dir_all(folder).map_err(fail("the folder cannot be made"))?;
        let lock = lock(folder)?;
        let mut state = State::default();
        for file in fs::read_dir(folder).map_err(fail("the folder cannot be read"))? {
            let path = file.map_err(fail("the folder cannot be read"))?.path();
            let Some(number) = number_of(&path) else { continue };
            state.next = state.next.max(number + 1);
            let size = recover(&path).map_err(|error| match error {
                Recovery::Io(error) => fail("a segment cannot be read")(error),
                Recovery::Foreign => Error::new(
                    ErrorKind::Config,
                    format!("{} is no segment of this version of the retry store", path.display()),
                ),
            })?;
            if size > 0 {
                state.segments.insert(number, size);
            }
        }
        Ok(Self {
            folder: folder.to_owned(),
            bytes_max,
            state: Mutex::new(state),
            lock: Mutex::new(Some(lock)),
        })
    }

    /// Takes nothing more, and lets another producer open the folder.
    pub(in crate::producer) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.active = None;
        self.lock.lock().take();
    }

    /// Bytes of all segments.
    pub(in crate::producer) fn bytes(&self) -> u64 {
        self.state.lock().bytes()
    }

    /// Stores as many of `entries`, in order, as there is space for, durably; gives their number.
    ///
    /// # Errors
    /// `Io`; then none of them is stored.
    pub(super) fn append(&self, entries: &[Entry]) -> Result<usize> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Error::new(ErrorKind::Closed, "the retry store is closed"));
        }
        let used = state.bytes();
        let mut free = self.bytes_max.saturating_sub(used);
        if state.active.is_none() {
            free = free.saturating_sub(HEAD.len() as u64);
        }
        let mut buffer = Vec::new();
        let mut count = 0;
        for entry in entries {
            let before = buffer.len();
            entry::write(entry, &mut buffer);
            if buffer.len() as u64 > free {
                buffer.truncate(before);
                break;
            }
            count += 1;
        }
        if count == 0 {
            return Ok(0);
        }
        self.write(&mut state, &buffer).map_err(|error| {
            let message = format!("the retry store {}: a write failed", self.folder.display());
            Error::new(ErrorKind::Io, message).with_source(error)
        })?;
        Ok(count)
    }

    fn write(&self, state: &mut State, bytes: &[u8]) -> io::Result<()> {
        if state.active.is_none() {
            let number = state.next;
            let path = self.path_of(number);
            let mut file = OpenOptions::new().append(true).create_new(true).open(&path)?;
            state.next += 1;
            file.write_all(&HEAD)?;
            File::open(&self.folder)?.sync_all()?;
            state.segments.insert(number, HEAD.len() as u64);
            state.active = Some((number, file));
        }
        let State { active, segments, .. } = state;
        let (number, file) = active.as_mut().expect("it was just opened");
        let size = segments.get_mut(number).expect("the active segment is listed");
        let written = file.write_all(bytes).and_then(|()| file.sync_data());
        match written {
            Ok(()) => *size += bytes.len() as u64,
            Err(error) => {
                // Nothing may follow a torn entry: another segment is begun, whatever the disk makes of this one.
                if let Err(error) = file.set_len(*size) {
                    log::warn!("producer: the retry store could not take back a write: {error}");
                }
                state.active = None;
                return Err(error);
            }
        }
        if *size >= SEGMENT_BYTES {
            state.active = None;
        }
        Ok(())
    }

    /// The segments, oldest first; what is appended from now on goes to a newer one.
    pub(super) fn segments(&self) -> Vec<u64> {
        let mut state = self.state.lock();
        state.active = None;
        state.segments.keys().copied().collect()
    }

    /// The entries of a segment.
    pub(super) fn read(&self, number: u64) -> io::Result<Vec<Entry>> {
        let bytes = Bytes::from(fs::read(self.path_of(number))?);
        let (entries, end) = entry::read(&bytes);
        if end != End::Clean {
            ::log::error!(
                "producer: the retry store's segment {number} was damaged: {} of its batches are left ({end:?})",
                entries.len()
            );
        }
        Ok(entries)
    }

    /// Removes a segment.
    pub(super) fn remove(&self, number: u64) -> io::Result<()> {
        fs::remove_file(self.path_of(number))?;
        self.state.lock().segments.remove(&number);
        Ok(())
    }

    fn path_of(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:020}{SUFFIX}"))
    }
}

/// Takes the lock of the folder. `flock` and not std's `File::try_lock`, which Rust has from 1.89 on.
fn lock(folder: &Path) -> Result<File> {
    let path = folder.join(LOCK);
    let fail = |error: io::Error| {
        let message = format!("{} cannot be locked", path.display());
        Error::new(ErrorKind::Io, message).with_source(error)
    };
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(fail)?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let message =
                format!("retry.store.path: another producer has {} open", folder.display());
            Err(Error::new(ErrorKind::Config, message))
        }
        Err(error) => Err(fail(error.into())),
    }
}

fn number_of(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_suffix(SUFFIX)?.parse().ok()
}

enum Recovery {
    Io(io::Error),
    Foreign,
}

/// Cuts off what is torn; removes a segment of which nothing is left. Gives its size.
fn recover(path: &Path) -> Result<u64, Recovery> {
    let bytes = Bytes::from(fs::read(path).map_err(Recovery::Io)?);
    let (entries, end) = entry::read(&bytes);
    let whole = match end {
        End::Foreign => return Err(Recovery::Foreign),
        End::Clean => bytes.len(),
        End::TornAt(whole) => {
            log::warn!(
                "producer: the retry store's {} is torn or damaged after {} batches: {} of {} bytes are cut off",
                path.display(),
                entries.len(),
                bytes.len() - whole,
                bytes.len()
            );
            let file = OpenOptions::new().write(true).open(path).map_err(Recovery::Io)?;
            file.set_len(whole as u64).and_then(|()| file.sync_all()).map_err(Recovery::Io)?;
            whole
        }
    };
    if entries.is_empty() {
        fs::remove_file(path).map_err(Recovery::Io)?;
        return Ok(0);
    }
    Ok(whole as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::entry::tests::entries;
    use super::super::testing::Folder;
    use super::*;
    use crate::protocol::Uuid;

    fn all(log: &Log) -> Vec<Entry> {
        log.segments().into_iter().flat_map(|number| log.read(number).expect("read")).collect()
    }

    fn entry(bytes: usize) -> Entry {
        let batch = Bytes::from(vec![7; bytes]);
        Entry { topic: "t".to_owned(), topic_id: Uuid::ZERO, partition: 3, records: 1, batch }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Files as a crash may leave them: the last one cut at any byte, with rubbish behind.
        #[test]
        fn a_torn_last_write_loses_nothing_before_it(
            groups in proptest::collection::vec(entries(), 1..5),
            cut in any::<prop::sample::Index>(),
            rubbish in any::<Vec<u8>>(),
        ) {
            let folder = Folder::new();
            let log = Log::open(folder.path(), 1 << 30).expect("open");
            for group in &groups {
                prop_assert_eq!(log.append(group).expect("written"), group.len());
            }
            let stored: Vec<Entry> = groups.concat();
            prop_assert_eq!(&all(&log), &stored);
            drop(log);
            let path = folder.path().join(format!("{:020}{SUFFIX}", 0));
            let whole = fs::read(&path).unwrap_or_default();
            let cut = cut.index(whole.len() + 1);
            fs::write(&path, [&whole[..cut], &rubbish].concat()).expect("written");
            let opened = Log::open(folder.path(), 1 << 30);
            let Ok(log) = opened else {
                // The rubbish reads as another version: refused, not thrown away.
                prop_assert!(cut < HEAD.len());
                return Ok(());
            };
            let read = all(&log);
            prop_assert!(stored.starts_with(&read), "only whole ones, in order");
            let kept: usize = read.iter().map(|entry| 34 + entry.topic.len() + entry.batch.len()).sum();
            let largest = stored.iter().map(|entry| 34 + entry.topic.len() + entry.batch.len()).max();
            prop_assert!(kept + HEAD.len() + largest.unwrap_or(0) >= cut, "{kept} of {cut}");
            // It goes on behind what is left.
            prop_assert_eq!(log.append(&[entry(10)]).expect("written"), 1);
            let mut more = read;
            more.push(entry(10));
            prop_assert_eq!(all(&log), more);
        }
    }

    #[test]
    fn the_space_is_bounded_and_comes_back_with_the_segment() {
        let folder = Folder::new();
        let log = Log::open(folder.path(), 1000).expect("open");
        let five = vec![entry(265); 5];
        assert_eq!(log.append(&five).expect("written"), 3, "300 bytes each");
        assert_eq!(log.append(&five).expect("nothing to write"), 0);
        let on_disk: u64 = log
            .segments()
            .iter()
            .map(|n| fs::metadata(log.path_of(*n)).expect("there").len())
            .sum();
        assert!(on_disk == log.bytes() && on_disk <= 1000, "{on_disk}");
        for number in log.segments() {
            log.remove(number).expect("removed");
        }
        assert_eq!(log.bytes(), 0);
        assert_eq!(log.append(&five).expect("written"), 3);
    }

    #[test]
    fn a_full_segment_is_followed_by_another() {
        let folder = Folder::new();
        let log = Log::open(folder.path(), 1 << 30).expect("open");
        for _ in 0..5 {
            assert_eq!(log.append(&[entry(SEGMENT_BYTES as usize / 2)]).expect("written"), 1);
        }
        assert_eq!(log.segments().len(), 3);
        drop(log);
        assert_eq!(all(&Log::open(folder.path(), 1 << 30).expect("open")).len(), 5);
    }

    #[test]
    fn one_producer_at_a_time_has_it() {
        let folder = Folder::new();
        let log = Log::open(folder.path(), 1000).expect("open");
        let error = Log::open(folder.path(), 1000).expect_err("it is open");
        assert_eq!(error.kind(), ErrorKind::Config);
        drop(log);
        Log::open(folder.path(), 1000).expect("it is free again");
    }

    #[test]
    fn a_segment_of_another_version_is_refused_and_kept() {
        let folder = Folder::new();
        let path = folder.path().join(format!("{:020}{SUFFIX}", 4));
        fs::write(&path, b"OTTLAST\x09something").expect("written");
        let error = Log::open(folder.path(), 1000).expect_err("foreign");
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(path.exists());
    }
}
