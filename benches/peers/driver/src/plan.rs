//! What is measured: the cases and the clients.

use std::fmt;

use peers_common::{Codec, Mode};

/// A column of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    pub mode: Mode,
    pub size: usize,
    pub codec: Codec,
    /// Whether the records have keys.
    pub keys: bool,
    /// Threads that send.
    pub threads: usize,
}

/// A client in one setting.
pub struct Client {
    /// Its name in the table.
    pub label: &'static str,
    /// The program of this workspace that is it.
    pub program: &'static str,
    pub idempotent: bool,
    consumes: bool,
}

/// The first is what the ratios refer to.
pub const CLIENTS: [Client; 4] = [
    Client { label: "rdkafka", program: "rdk", idempotent: false, consumes: true },
    Client { label: "rdkafka idempotent", program: "rdk", idempotent: true, consumes: false },
    Client { label: "ottla idempotent", program: "ott", idempotent: true, consumes: true },
    Client { label: "rskafka", program: "rsk", idempotent: false, consumes: true },
];

/// The cases of a run that names none.
pub const CASES: [Case; 8] = [
    Case::new(Mode::Produce, 100, Codec::None),
    Case::new(Mode::Produce, 100, Codec::Lz4),
    Case::new(Mode::Produce, 1024, Codec::None),
    Case::new(Mode::Produce, 1024, Codec::Lz4),
    Case::new(Mode::Consume, 100, Codec::None),
    Case::new(Mode::Consume, 100, Codec::Lz4),
    Case::new(Mode::Consume, 1024, Codec::None),
    Case::new(Mode::Consume, 1024, Codec::Lz4),
];

/// The cases that only a run which names them has.
pub fn more_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for size in [100, 1024] {
        for codec in [Codec::Snappy, Codec::Zstd, Codec::Gzip] {
            cases.push(Case::new(Mode::Produce, size, codec));
        }
        for codec in [Codec::None, Codec::Lz4] {
            let case = Case::new(Mode::Produce, size, codec);
            cases.push(Case { keys: true, ..case });
            cases.push(Case { threads: 2, ..case });
            cases.push(Case { threads: 4, ..case });
        }
        cases.push(Case::new(Mode::Latency, size, Codec::None));
    }
    cases
}

impl Client {
    pub fn does(&self, case: &Case) -> bool {
        // rskafka batches for nobody: it has no use for keys, threads, or single records.
        let plain =
            matches!(case.codec, Codec::None | Codec::Lz4) && !case.keys && case.threads == 1;
        match case.mode {
            Mode::Produce => plain || self.program != "rsk",
            Mode::Latency => self.program != "rsk",
            Mode::Consume => self.consumes,
        }
    }
}

impl Case {
    const fn new(mode: Mode, size: usize, codec: Codec) -> Self {
        Self { mode, size, codec, keys: false, threads: 1 }
    }

    /// Records of a run, when it is `records` of 100 B. Large ones are fewer, for the sake of the disk,
    /// and those that are waited for one by one, for the sake of time.
    pub fn n(self, records: u64) -> u64 {
        match (self.mode, self.size) {
            (Mode::Latency, _) => (records / 400).max(1),
            (_, 101..) => (records / 4).max(1),
            _ => records,
        }
    }

    /// How to write what this case reads.
    pub fn filling(self) -> Case {
        Case { mode: Mode::Produce, ..self }
    }

    /// Whether one of `words` is a part of the label; no words match all.
    pub fn matches(self, words: &[String]) -> bool {
        let label = self.to_string();
        words.is_empty() || words.iter().any(|word| label.contains(word.as_str()))
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = if self.size == 1024 { "1 KiB".to_owned() } else { format!("{} B", self.size) };
        let keys = if self.keys { " keys" } else { "" };
        let threads = match self.threads {
            1 => String::new(),
            threads => format!(" {threads} threads"),
        };
        f.pad(&format!("{} {size} {}{keys}{threads}", self.mode, self.codec))
    }
}
