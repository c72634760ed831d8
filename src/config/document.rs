//! CONFIGURATION.md: the tables as a page. The file at the root is compared with it by a test.

use std::fmt::Write;

use super::{Section, properties, unsupported};

/// The page.
fn page() -> String {
    let mut page = String::from(
        "# Configuration\n\n\
         Every setting by its name: that of Kafka's Java client where it has it, else one of Ottla's own. Builders have a \
         setter for each\n(`linger.ms` is `linger`); `Client::from_properties` reads them by name, all sections mixed; \
         the command takes them\nwith `-X NAME=VALUE`. This page is made from the tables of `src/config`.\n",
    );
    let sections = [
        ("Every client", Section::Client),
        ("Producer", Section::Producer),
        ("Reading", Section::Fetch),
        ("Work units", Section::Work),
    ];
    let mut line = |text: &str| writeln!(page, "{text}").expect("a string takes anything");
    for (title, section) in sections {
        line(&format!(
            "\n## {title}\n\n| property | type | default | range | |\n|---|---|---|---|---|"
        ));
        for property in properties(section) {
            let range =
                property.range.map_or(String::new(), |(least, most)| format!("{least} to {most}"));
            line(&format!(
                "| `{}` | {} | {} | {range} | {} |",
                property.name,
                property.kind,
                property.default,
                property.text.split_whitespace().collect::<Vec<_>>().join(" "),
            ));
        }
    }
    line(
        "\n## Of Kafka's Java producer, not here\n\n\
         A name that ends with a dot stands for all that begin with it. Setting one is an error that gives the reason.\n\n\
         | property | because |\n|---|---|",
    );
    for row in unsupported::ROWS {
        line(&format!("| `{}` | {} |", row.name, row.reason));
    }
    page
}

/// Set to anything, it makes the test write the page.
const WRITE: &str = "OTTLA_WRITE_CONFIGURATION";

#[test]
fn the_page_at_the_root_is_that_of_the_tables() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/CONFIGURATION.md");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(path, page()).expect("the page can be written");
    }
    let kept = std::fs::read_to_string(path).expect("CONFIGURATION.md");
    assert!(kept == page(), "CONFIGURATION.md is old: run this test with {WRITE}=1");
}
