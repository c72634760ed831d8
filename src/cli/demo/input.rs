//! What the demo sends: real lines.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use crate::error::{Error, ErrorKind, Result};

/// A line of the input: key and value.
pub(super) struct Line {
    pub(super) key: String,
    pub(super) value: String,
}

/// Real lines: this machine's package index, else the sources that this command was built from.
pub(super) fn input(limit: Option<u64>) -> Result<(&'static str, Vec<Line>)> {
    let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let index = package_index(limit);
    if !index.is_empty() {
        return Ok(("the package index", index));
    }
    let mut lines = Vec::new();
    let mut folders = vec![std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                let key = path.display().to_string();
                lines.extend(
                    text.lines().map(|line| Line { key: key.clone(), value: line.to_owned() }),
                );
            }
        }
    }
    lines.truncate(limit);
    if lines.is_empty() {
        return Err(Error::new(ErrorKind::Io, "there is no input: no package index, no sources"));
    }
    Ok(("the checkout's files", lines))
}

/// The lines of `apt-cache dumpavail`, each under the name of its package; none where there is no
/// such index.
fn package_index(limit: usize) -> Vec<Line> {
    let child = Command::new("apt-cache")
        .arg("dumpavail")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else { return Vec::new() };
    let output = child.stdout.take().expect("the output was asked to be piped");
    let mut reader = BufReader::new(output);
    let mut lines = Vec::new();
    let mut package = String::new();
    let mut bytes = Vec::new();
    while lines.len() < limit {
        bytes.clear();
        match reader.by_ref().read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&bytes);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        if let Some(name) = text.strip_prefix("Package: ") {
            name.clone_into(&mut package);
        }
        lines.push(Line { key: package.clone(), value: text.to_owned() });
    }
    drop(reader);
    // It may still be writing when the limit was reached; its end is all that is wanted.
    drop(child.kill());
    drop(child.wait());
    lines
}
