//! The README's first command: it needs nothing but itself, and its books balance.

use std::process::Command;

/// The count that stands behind `what` in the table at the end.
fn count(report: &str, what: &str) -> u64 {
    let line =
        report.lines().find_map(|line| line.strip_prefix(what)).expect("a line of the table");
    line.trim().parse().expect("a count")
}

#[test]
fn the_demo_sends_real_lines_and_finds_each_again() {
    let output = Command::new(env!("CARGO_BIN_EXE_ottla"))
        .args(["demo", "--lines", "10000", "--unit-size", "500"])
        .output()
        .expect("the command runs");
    let report = String::from_utf8(output.stderr).expect("words");
    assert!(output.status.success(), "{report}");
    assert!(output.stdout.is_empty(), "only records go to standard output");
    let lines = count(&report, "lines sent");
    assert!(lines >= 1000, "{report}");
    assert_eq!(count(&report, "acknowledged"), lines, "{report}");
    assert_eq!(count(&report, "handled once") + count(&report, "handled again"), lines, "{report}");
    assert_eq!((count(&report, "missing"), count(&report, "damaged")), (0, 0), "{report}");
    assert!(report.contains("attempts failed on purpose: 1"), "{report}");
    assert!(report.contains("stalled units taken over: 1"), "{report}");
}
