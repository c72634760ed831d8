//! The declarations beside Kafka's own: its schemas (`schemas`) and its Java classes (`oracle`,
//! `records`).
//!
//! Both come out of the released jars, which `tests/oracle/prepare.sh` brings; a test whose jar is
//! missing fails. Two releases are needed: Kafka 4 dropped old versions, the last of Kafka 3 has
//! them.

mod oracle;
mod records;
mod schemas;

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A release of Kafka, unpacked.
#[derive(Debug)]
struct Release {
    version: String,
    /// The folder of its jars.
    jars: PathBuf,
    /// The folder of its message schemas.
    schemas: PathBuf,
}

/// The releases to compare with, newest first.
fn releases() -> [Release; 2] {
    let output = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/prepare.sh"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .expect("tests/oracle/prepare.sh can be run");
    assert!(output.status.success(), "tests/oracle/prepare.sh failed");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let release = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned);
        let mut word = || words.next().expect("three words a line");
        Release { version: word(), jars: word().into(), schemas: word().into() }
    };
    let found: Vec<Release> = text.lines().map(release).collect();
    found.try_into().expect("two releases")
}
