//! What the queue makes of a Redis that answers late, not at all, or with an error.
//!
//! A server that speaks just enough of Redis's protocol to give prepared replies, in order, whoever asks, and to
//! note what was asked on which connection.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use r2d2_redis::redis;

use crate::error::ErrorKind;
use crate::threads;
use crate::work::queue::{QueueRules, WorkQueue};
use crate::work::redis::link::Reply as Answer;
use crate::work::redis::{Redis, RedisQueue};
use crate::work::unit::{LeaderId, WorkerId};

/// What the server does about one command.
enum Reply {
    Send(&'static str),
    /// Nothing, for ever; the connection stays open.
    Silence,
    /// First the missing answer on the first connection, then this one here.
    Late(&'static str, &'static str),
}

/// Commands, each with the number of its connection.
type Asked = Arc<Mutex<Vec<(usize, Vec<String>)>>>;

struct FakeRedis {
    port: u16,
    asked: Asked,
}

impl FakeRedis {
    fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let replies = Arc::new(Mutex::new(replies.into_iter().collect::<VecDeque<_>>()));
        let asked = Asked::default();
        let log = Arc::clone(&asked);
        // Both kinds of threads end with the test's process.
        threads::spawn("fake-redis", move || {
            let streams = Arc::new(Mutex::new(Vec::new()));
            for (number, stream) in listener.incoming().enumerate() {
                let stream = stream.expect("a connection");
                streams.lock().push(stream.try_clone().expect("a second handle"));
                let (replies, log) = (Arc::clone(&replies), Arc::clone(&log));
                let streams = Arc::clone(&streams);
                threads::spawn("fake-redis-c", move || {
                    serve(number, stream, &replies, &log, &streams);
                })
                .expect("a thread");
            }
        })
        .expect("a thread");
        Self { port, asked }
    }

    fn queue(&self) -> RedisQueue {
        let redis = Redis::at(&format!("redis://127.0.0.1:{}", self.port));
        let redis = redis.command_timeout(Duration::from_millis(300));
        let queue = redis.on_manual_clock("g", QueueRules::default());
        queue.expect("a URL")
    }

    fn asked(&self) -> Vec<(usize, Vec<String>)> {
        self.asked.lock().clone()
    }
}

fn serve(
    number: usize,
    mut stream: TcpStream,
    replies: &Mutex<VecDeque<Reply>>,
    log: &Mutex<Vec<(usize, Vec<String>)>>,
    streams: &Mutex<Vec<TcpStream>>,
) {
    let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
    while let Some(command) = read_command(&mut reader) {
        log.lock().push((number, command));
        let reply = replies.lock().pop_front();
        match reply {
            Some(Reply::Send(text)) => {
                let _ = stream.write_all(text.as_bytes());
            }
            Some(Reply::Late(missing, text)) => {
                // The client may have closed it: that is the point.
                let _ = streams.lock()[0].write_all(missing.as_bytes());
                let _ = stream.write_all(text.as_bytes());
            }
            Some(Reply::Silence) | None => {}
        }
    }
}

/// `*n`, then n times `$length` and as many bytes; `None` at the end of the stream.
fn read_command(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let count = |reader: &mut dyn BufRead| {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        line.trim_end().get(1..)?.parse::<usize>().ok()
    };
    (0..count(reader)?)
        .map(|_| {
            let mut text = vec![0; count(reader)? + 2];
            reader.read_exact(&mut text).ok()?;
            text.truncate(text.len() - 2);
            Some(String::from_utf8_lossy(&text).into_owned())
        })
        .collect()
}

fn worker() -> WorkerId {
    "w-1".parse().expect("a name")
}

/// bullmq#648, bull#1738, kue#1019: after a fail-over or with full memory the error is told as one that
/// passes, and the connection is not used again.
#[test]
fn a_refusing_redis_is_an_error_to_retry_on_another_connection() {
    let refusals = [
        "-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)\r\n",
        "-READONLY You can't write against a read only replica.\r\n",
        "-LOADING Redis is loading the dataset in memory\r\n",
        "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n",
        "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
        "-MOVED 3999 127.0.0.1:6381\r\n",
        "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n",
        "-ERR user_script:7: something\r\n",
    ];
    for refusal in refusals {
        let server = FakeRedis::new([Reply::Send(refusal), Reply::Send(":1\r\n")]);
        let queue = server.queue();
        let error = queue.heartbeat(&worker()).expect_err(refusal);
        assert_eq!(error.kind(), ErrorKind::Queue, "{refusal}");
        assert!(error.is_retriable(), "{refusal}");
        queue.heartbeat(&worker()).expect("it passed");
        let connections: Vec<_> = server.asked().iter().map(|(number, _)| *number).collect();
        assert_eq!(connections, [0, 1], "{refusal}");
    }
}

#[test]
fn a_blocked_pop_that_a_fail_over_ends_is_an_error_to_retry() {
    let unblocked = "-UNBLOCKED force unblock from blocking operation\r\n";
    let unit = "$10\r\nt/0/10-200\r\n";
    let server =
        FakeRedis::new([Reply::Send("$-1\r\n"), Reply::Send(unblocked), Reply::Send(unit)]);
    let queue = server.queue();
    let error = queue.claim(&worker(), Duration::from_secs(1)).expect_err("it was unblocked");
    assert!(error.is_retriable());
    let claimed = queue.claim(&worker(), Duration::from_secs(1)).expect("it passed");
    assert_eq!(claimed.map(|unit| unit.end()), Some(200));
}

#[test]
fn a_refused_password_is_not_worth_another_try_and_is_not_told() {
    for refusal in
        ["-WRONGPASS invalid username-password pair or user is disabled.\r\n", "-NOAUTH no\r\n"]
    {
        let server = FakeRedis::new([Reply::Send(refusal)]);
        let redis = Redis::at(&format!("redis://alice:hunter2@127.0.0.1:{}/4", server.port));
        let error = redis.connect("g", "ottla", QueueRules::default()).expect_err("refused");
        assert_eq!((error.kind(), error.is_retriable()), (ErrorKind::Config, false));
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        let sent = server.asked()[0].1.join(" ");
        assert_eq!(sent, "AUTH alice hunter2");
    }
}

/// redis-rs#1252: after a time-out the next command must not get the previous one's answer.
#[test]
fn a_late_answer_is_never_the_next_commands() {
    let server = FakeRedis::new([Reply::Silence, Reply::Late(":1\r\n", ":0\r\n")]);
    let queue = server.queue();
    let error = queue.elect(LeaderId::random()).expect_err("no answer");
    assert_eq!(error.kind(), ErrorKind::Queue);
    assert!(error.to_string().contains("did not answer in time"), "{error}");
    assert!(
        !queue.elect(LeaderId::random()).expect("the second answers"),
        "the first one's answer"
    );
}

/// carmine#26, redis-py#807, NRedisStack#421: the argument is in seconds; an answer that comes after the blocking time
/// is awaited; nothing to pop is no error.
#[test]
fn a_pop_blocks_for_the_seconds_that_were_asked() {
    let none = || Reply::Send("$-1\r\n");
    let server = FakeRedis::new((0..6).map(|_| none()));
    let queue = server.queue();
    for wait in [Duration::ZERO, Duration::from_secs(60), Duration::from_millis(250)] {
        assert_eq!(queue.claim(&worker(), wait).expect("nothing is no error"), None);
    }
    assert_eq!(queue.claim(&worker(), Duration::from_nanos(1)).expect("no error"), None);
    let pops: Vec<_> = server
        .asked()
        .into_iter()
        .filter(|(_, command)| command[0] == "BRPOPLPUSH")
        .map(|(_, command)| command[1..].join(" "))
        .collect();
    let lists = "ottla-test:{g}:work ottla-test:{g}:working:w-1";
    assert_eq!(pops, [format!("{lists} 1"), format!("{lists} 0.250")]);
}

#[test]
fn a_script_that_redis_does_not_know_is_sent_once() {
    let server = FakeRedis::new([
        Reply::Send("-NOSCRIPT No matching script. Please use EVAL.\r\n"),
        Reply::Send("$40\r\n0123456789012345678901234567890123456789\r\n"),
        Reply::Send(":1\r\n"),
        Reply::Send(":1\r\n"),
    ]);
    let queue = server.queue();
    queue.heartbeat(&worker()).expect("sent and run");
    queue.heartbeat(&worker()).expect("run");
    let commands: Vec<_> =
        server.asked().into_iter().map(|(number, command)| (number, command[0].clone())).collect();
    let expected = ["EVALSHA", "SCRIPT", "EVALSHA", "EVALSHA"].map(|name| (0, name.to_owned()));
    assert_eq!(commands, expected);
}

#[test]
fn a_redis_that_would_evict_keys_is_refused() {
    for (policy, refused) in [
        ("*2\r\n$16\r\nmaxmemory-policy\r\n$11\r\nallkeys-lru\r\n", true),
        ("*2\r\n$16\r\nmaxmemory-policy\r\n$10\r\nnoeviction\r\n", false),
        ("*2\r\n$16\r\nmaxmemory-policy\r\n$12\r\nvolatile-lru\r\n", false),
        ("-NOPERM this user has no permissions to run the 'config|get' command\r\n", false),
    ] {
        let server = FakeRedis::new([Reply::Send("+PONG\r\n"), Reply::Send(policy)]);
        let redis = Redis::at(&format!("redis://127.0.0.1:{}", server.port));
        let opened = redis.connect("g", "ottla", QueueRules::default());
        assert_eq!(opened.is_err(), refused, "{policy}");
        if let Err(error) = opened {
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().contains("allkeys-lru"), "{error}");
        }
    }
}

#[test]
fn an_answer_of_another_form_is_an_error() {
    for answer in [
        "*1\r\n$4\r\nwhat\r\n",
        "*0\r\n",
        ":7\r\n",
        "$-1\r\n",
        "*2\r\n$4\r\ndone\r\n*1\r\n$1\r\nx\r\n",
    ] {
        let server = FakeRedis::new([Reply::Send(answer)]);
        let queue = server.queue();
        let error = queue.promote(LeaderId::random(), 1).expect_err(answer);
        assert_eq!(error.kind(), ErrorKind::Queue, "{answer}");
    }
}

/// What each of four scripts that went out together was answered: a value, `NoScript` or the error's text.
fn together(server: &FakeRedis) -> Vec<String> {
    let mut call = redis::cmd("EVALSHA");
    let call = call.arg("0").arg(0).get_packed_command();
    let replies = server.queue().link().ask_all(&vec![call; 4]);
    let text = |reply: &Answer| match reply {
        Answer::Value(value) => format!("{value:?}"),
        Answer::NoScript => "no script".to_owned(),
        Answer::Failed(error) => {
            assert!(error.is_retriable(), "{error}");
            error.to_string()
        }
    };
    replies.iter().map(text).collect()
}

/// redis-rs#1252 again: of scripts that go out together each gets its own answer, and an error that Redis tells is that
/// one's alone.
#[test]
fn a_refusal_is_for_the_script_that_was_refused() {
    let server = FakeRedis::new([
        Reply::Send(":1\r\n"),
        Reply::Send("-OOM command not allowed when used memory > 'maxmemory'.\r\n"),
        Reply::Send("-NOSCRIPT No matching script. Please use EVAL.\r\n"),
        Reply::Send(":4\r\n"),
    ]);
    let texts = together(&server);
    assert_eq!([&texts[0], &texts[2], &texts[3]], ["int(1)", "no script", "int(4)"]);
    assert!(texts[1].contains("Redis failed"), "{texts:?}");
}

/// After an answer that does not come, or cannot be read, nobody gets one of a later script.
#[test]
fn a_lost_answer_is_lost_to_those_after_it_too() {
    for (second, what) in [
        (Reply::Silence, "did not answer in time"),
        (Reply::Send("?what\r\n:9\r\n"), "Redis failed"),
        (Reply::Send(":x\r\n:9\r\n"), "Redis failed"),
    ] {
        let server = FakeRedis::new([Reply::Send(":1\r\n"), second]);
        let texts = together(&server);
        assert_eq!(texts[0], "int(1)");
        assert!(texts[1..].iter().all(|text| text.contains(what)), "{texts:?}");
        assert_eq!(texts.len(), 4);
    }
}
