//! What is measured: the cases and the clients.

use std::fmt;

use peers_common::{Codec, Mode};

/// A column of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    pub mode: Mode,
    pub size: usize,
    pub codec: Codec,
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

pub const CASES: [Case; 8] = [
    Case { mode: Mode::Produce, size: 100, codec: Codec::None },
    Case { mode: Mode::Produce, size: 100, codec: Codec::Lz4 },
    Case { mode: Mode::Produce, size: 1024, codec: Codec::None },
    Case { mode: Mode::Produce, size: 1024, codec: Codec::Lz4 },
    Case { mode: Mode::Consume, size: 100, codec: Codec::None },
    Case { mode: Mode::Consume, size: 100, codec: Codec::Lz4 },
    Case { mode: Mode::Consume, size: 1024, codec: Codec::None },
    Case { mode: Mode::Consume, size: 1024, codec: Codec::Lz4 },
];

impl Client {
    pub fn does(&self, mode: Mode) -> bool {
        mode == Mode::Produce || self.consumes
    }
}

impl Case {
    /// Records of a run, when it is `records` of 100 B. Large ones are fewer, for the sake of the disk.
    pub fn n(self, records: u64) -> u64 {
        if self.size > 100 { (records / 4).max(1) } else { records }
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
        f.pad(&format!("{} {size} {}", self.mode, self.codec))
    }
}
