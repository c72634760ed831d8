//! In-process clusters compared: Ottla's [`Cluster`] and the one that librdkafka has for its tests
//! ([`MockCluster`]), each written and read by both clients.
//!
//! Every broker and every client runs in a process of its own, which is this program again, so that the CPU
//! time of each is its own. Records go to the partitions in turn, [`BLOCK`] at a time: librdkafka's
//! cluster keeps 5 MiB of each partition, and [`PARTITIONS`] of them hold all that is read back.

mod clients;
mod serve;
mod table;

use std::env;

use peers_common::Failure;

/// Partitions of every topic.
const PARTITIONS: i32 = 32;
/// Records to one partition before the next one's turn.
const BLOCK: u64 = 1000;
/// Bytes of each value.
const SIZE: usize = 100;

const USAGE: &str = "brk [rounds=3] [n=1000000]";

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", which] => serve::serve(which),
        [client @ ("rdk" | "ott"), work @ ("produce" | "read"), bootstrap, n] => {
            let figures = clients::run(client, work, bootstrap, n.parse()?)?;
            println!("{figures}");
            Ok(())
        }
        _ => {
            let (mut rounds, mut n) = (3, 1_000_000);
            for word in words {
                match word.split_once('=') {
                    Some(("rounds", value)) => rounds = value.parse()?,
                    Some(("n", value)) => n = value.parse()?,
                    _ => return Err(format!("{word}? usage: {USAGE}").into()),
                }
            }
            table::print(rounds, n)
        }
    }
}
