//! `ottla broker`, as its user runs it: without servers.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use ottla::Client;
use rustix::process::{Pid, Signal, kill_process};

/// The command running, killed if the test ends first.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn ottla(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ottla"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn it_serves_says_that_it_keeps_nothing_and_ends_on_a_signal() {
    for signal in [Signal::INT, Signal::TERM] {
        let arguments = ["broker", "--port", "0", "--brokers", "2", "--topic", "orders:3"];
        let mut running = Running(ottla(&arguments).spawn().expect("the command starts"));
        let words = running.0.stderr.take().expect("a pipe");
        let mut words = BufReader::new(words);
        let mut line = String::new();
        words.read_line(&mut line).expect("a line");
        let bootstrap = line
            .split_whitespace()
            .find(|word| word.starts_with("127.0.0.1:"))
            .expect("the line names the addresses")
            .trim_end_matches(',')
            .to_owned();
        assert_eq!(bootstrap.split(',').count(), 2);
        let client = Client::builder(&bootstrap).build().expect("a client");
        assert_eq!(client.topic("orders").expect("the topic").partitions.len(), 3);
        drop(client);
        kill_process(Pid::from_child(&running.0), signal).expect("it runs");
        let mut rest = String::new();
        words.read_to_string(&mut rest).expect("words until the end");
        let status = running.0.wait().expect("it ends");
        assert_eq!(status.code(), Some(0), "{rest}");
        assert!(rest.contains("nothing is kept"), "{rest}");
        let mut records = String::new();
        running.0.stdout.take().expect("a pipe").read_to_string(&mut records).expect("its output");
        assert_eq!(records, "", "words go to standard error");
    }
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    for (arguments, why) in [
        (&["broker", "--port", "0", "--topic", "a b:1"][..], "topic a b"),
        (&["broker", "--port", "65535", "--brokers", "2"], "leaves no room for 2 brokers"),
        (&["broker", "--topic", "orders"], "NAME:PARTITIONS"),
    ] {
        let output = ottla(arguments).output().expect("the command runs");
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && words.contains(why), "{words}");
    }
}
