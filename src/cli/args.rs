//! What can be written on the command line. Text for people: it is what `--help` shows.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand};

use super::consume::Start;
use super::format::{Format, parse_delimiter};
use crate::work::steer::ResetTo;

/// Shortest and longest time between two views, in seconds.
const INTERVAL_MIN: f64 = 0.1;
const INTERVAL_MAX: f64 = 86_400.0;

/// Produce to Kafka, read from it, and share topics out to workers in units.
#[derive(Debug, Parser)]
#[command(name = "ottla", version, max_term_width = 100)]
pub(super) struct Args {
    /// Tell more on standard error: -v what is unusual, -vv every step
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Create, list and delete topics
    Topics(TopicsArgs),
    /// Send each line of files or of standard input as a record
    Send(SendArgs),
    /// Read records: partitions directly, or with -g as workers of a group
    Consume(ConsumeArgs),
    /// Show what the work queue of a group holds, and steer it
    WorkQueue(WorkQueueArgs),
    /// Run the main job on real input and check that every record arrived
    Demo(DemoArgs),
    /// Run brokers in this process, for development; nothing is kept
    Broker(BrokerArgs),
}

/// Where Kafka is, for every command.
#[derive(Clone, Debug, ClapArgs)]
pub(super) struct ClusterArgs {
    /// Brokers to begin with; the others are learnt from them
    #[arg(short = 'b', long = "bootstrap", value_name = "HOST:PORT,...")]
    pub(super) bootstrap: String,
    /// A property by its Java name, as linger.ms=20; may be repeated
    #[arg(short = 'X', long = "property", value_name = "NAME=VALUE", value_parser = name_value)]
    pub(super) properties: Vec<(String, String)>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct BrokerArgs {
    /// Port of the first broker, the others follow; 0: ports of the system's choice
    #[arg(long, default_value_t = 9092)]
    pub(super) port: u16,
    /// How many brokers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) brokers: i32,
    /// A topic that is there from the start; may be repeated. Others are made when they are asked for
    #[arg(short = 't', long = "topic", value_name = "NAME:PARTITIONS", value_parser = name_partitions)]
    pub(super) topics: Vec<(String, i32)>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct TopicsArgs {
    #[command(subcommand)]
    pub(super) action: TopicsAction,
}

#[derive(Debug, Subcommand)]
pub(super) enum TopicsAction {
    /// Create topics and wait until they can be used
    Create {
        #[command(flatten)]
        cluster: ClusterArgs,
        /// The topic; may be repeated
        #[arg(short = 't', long = "topic", required = true, value_name = "TOPIC")]
        topics: Vec<String>,
        /// Partitions; left out: the broker's default
        #[arg(long, value_name = "N")]
        partitions: Option<i32>,
        /// Replicas of each partition; left out: the broker's default
        #[arg(long, value_name = "N")]
        replication: Option<i16>,
        /// A setting of the topic, as cleanup.policy=compact; may be repeated
        #[arg(long = "config", value_name = "NAME=VALUE", value_parser = name_value)]
        config: Vec<(String, String)>,
        /// Count a topic that exists already as created
        #[arg(long)]
        if_not_exists: bool,
    },
    /// List topics with their partitions and replicas, one a line
    List {
        #[command(flatten)]
        cluster: ClusterArgs,
        /// Kafka's own topics too
        #[arg(long)]
        internal: bool,
    },
    /// Delete topics
    Delete {
        #[command(flatten)]
        cluster: ClusterArgs,
        /// The topic; may be repeated
        #[arg(short = 't', long = "topic", required = true, value_name = "TOPIC")]
        topics: Vec<String>,
    },
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A record is a line without its line feed; a carriage return before it stays. The last line needs no \
line feed; an empty line is a record with an empty value. With -K the key is what stands before the \
first separator; a line without the separator has no key.

Binary values with line feeds in them cannot be sent this way.

Every file is opened before anything is sent. A line that cannot be a record (longer than \
max.request.size, or refused by the broker) is told by its number; the lines after it are sent, and \
the command ends with code 1.")]
pub(super) struct SendArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// The topic
    #[arg(short = 't', long)]
    pub(super) topic: String,
    /// Split each line into key and value at this separator; \t, \xNN and several bytes will do
    #[arg(short = 'K', long, value_name = "SEP", value_parser = delimiter)]
    pub(super) key_separator: Option<Delimiter>,
    /// Codec: none, gzip, snappy, lz4 or zstd
    #[arg(short = 'z', long, value_name = "CODEC")]
    pub(super) compression: Option<String>,
    /// The partition, instead of the one the key asks for
    #[arg(short = 'p', long)]
    pub(super) partition: Option<i32>,
    /// Files to read; none, or -, is standard input
    #[arg(value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
}

/// Bytes that stand between two fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Delimiter(pub(super) Vec<u8>);

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
FORMAT is that of kcat: %t topic, %p partition, %o offset, %k key, %s value, %K and %S their lengths \
(-1 for null), %T timestamp in ms, %h headers, %% a percent sign, and \\n \\r \\t \\\\ \\0 \\xNN. The \
default is the value and a line feed. Values are written byte for byte: records with line feeds in \
them are told apart by length, as with '%K %S %k%s'.

With -g the command is a worker process of that group: records are read in units that an organiser \
puts on a list in Redis. A unit is acknowledged once its records are flushed to standard output, or \
once CMD, which gets them on its standard input, has ended with code 0. CMD runs in a shell with \
OTTLA_UNIT, OTTLA_TOPIC, OTTLA_PARTITION, OTTLA_START, OTTLA_END and OTTLA_ATTEMPT set. A unit whose \
CMD fails is tried again later, and given up after max.attempts.

SIGINT and SIGTERM end the command cleanly: no further unit is taken, and a running CMD gets SIGTERM, \
and SIGKILL after 10 s; its unit is not acknowledged unless it ends with code 0.

Ends with code 141 when the reader of standard output goes away, with code 1 when a signal came before \
what -e, -c or --drain ask for, and when a unit of this process was given up.")]
pub(super) struct ConsumeArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// The topic; with -g it may be repeated, and one that begins with ^ is a regular expression: every topic whose
    /// name it matches at its start, also those that are made later, but no internal ones
    #[arg(short = 't', long = "topic", required = true, value_name = "TOPIC")]
    pub(super) topics: Vec<String>,
    /// Read this partition alone; may be repeated
    #[arg(short = 'p', long = "partition", value_name = "N", conflicts_with = "group")]
    pub(super) partitions: Vec<i32>,
    /// Where to start: earliest, latest, an offset, -N for the last N of each partition, or @MS for
    /// a time in ms since 1970
    #[arg(
        short = 'o',
        long,
        default_value = "earliest",
        conflicts_with = "group",
        allow_hyphen_values = true
    )]
    pub(super) offset: Start,
    /// Stop at the end that each partition had at the start
    #[arg(short = 'e', long, conflicts_with = "group")]
    pub(super) exit_at_end: bool,
    /// Stop after this many records
    #[arg(short = 'c', long, value_name = "N", conflicts_with = "group")]
    pub(super) count: Option<u64>,
    /// How a record is written
    #[arg(short = 'f', long, value_name = "FORMAT")]
    pub(super) format: Option<Format>,
    /// Work as part of this group
    #[arg(short = 'g', long, value_name = "GROUP", requires = "redis")]
    pub(super) group: Option<String>,
    /// Where the group's queue is
    #[arg(long, value_name = "URL", requires = "group")]
    pub(super) redis: Option<String>,
    /// Worker threads; 0: plan only, for workers elsewhere
    #[arg(long, value_name = "N", default_value_t = 1, requires = "group")]
    pub(super) workers: u32,
    /// Most offsets of one unit
    #[arg(long, value_name = "N", requires = "group")]
    pub(super) unit_size: Option<u32>,
    /// End when everything that was produced before the start is finished, by whichever worker
    #[arg(long, requires = "group")]
    pub(super) drain: bool,
    /// Store the records of units that are given up in this topic, with headers that say why (ottla.error, ...)
    #[arg(long, value_name = "TOPIC", requires = "group")]
    pub(super) dead_letter_topic: Option<String>,
    /// Handle at most N records a second in this process; 0: no bound
    #[arg(long, value_name = "N", requires = "group")]
    pub(super) records_per_second: Option<u32>,
    /// Handle at most N bytes of keys and values a second in this process; 0: no bound
    #[arg(long, value_name = "N", requires = "group")]
    pub(super) bytes_per_second: Option<usize>,
    /// Give each unit's records to this shell command's standard input
    #[arg(long, value_name = "CMD", requires = "group")]
    pub(super) exec: Option<String>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Options come before the name of what is to be done: ottla work-queue -g GROUP --redis URL redrive -t TOPIC

A unit that failed max.attempts times waits for its dead letter to be stored (dead), then it is done and the \
list of errors names it. redrive and drop are about both, and may be called while everybody works. \
reset is refused while a process of the group lives.")]
pub(super) struct WorkQueueArgs {
    /// The group
    #[arg(short = 'g', long)]
    pub(super) group: String,
    /// Where the group's queue is
    #[arg(long, value_name = "URL")]
    pub(super) redis: String,
    /// Brokers, to show the lag against the ends of the partitions; left out: against what is
    /// planned
    #[arg(short = 'b', long = "bootstrap", value_name = "HOST:PORT,...")]
    pub(super) bootstrap: Option<String>,
    /// A property by its Java name, as queue.prefix=NAME; may be repeated
    #[arg(short = 'X', long = "property", value_name = "NAME=VALUE", value_parser = name_value)]
    pub(super) properties: Vec<(String, String)>,
    /// JSON instead of tables
    #[arg(long)]
    pub(super) json: bool,
    /// Show it again every SECONDS, 2 if left out, until a signal: in place on a terminal, else one after the other
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2",
        value_parser = interval
    )]
    pub(super) watch: Option<Duration>,
    #[command(subcommand)]
    pub(super) action: Option<WorkQueueAction>,
}

#[derive(Debug, Subcommand)]
pub(super) enum WorkQueueAction {
    /// Have failed units worked on again, with their attempts counted from zero
    ///
    /// Those that are done already, since the list of errors names them, are taken back: the group's offset goes back to
    /// them, and forwards again when they are finished.
    Redrive(ScopeArgs),
    /// Give failed units up for good: the group's offset may pass them, and redrive finds them no more
    Drop(ScopeArgs),
    /// Move the group's position, in the queue and in Kafka; without --execute only show what that would do
    Reset(ResetArgs),
}

/// Which units are meant.
#[derive(Debug, ClapArgs)]
pub(super) struct ScopeArgs {
    /// Of this topic alone
    #[arg(short = 't', long)]
    pub(super) topic: Option<String>,
    /// Of this partition of the topic alone
    #[arg(short = 'p', long, value_name = "N", requires = "topic")]
    pub(super) partition: Option<i32>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct ResetArgs {
    /// Where to: earliest, latest, an offset, @MS for a time in ms since 1970, or -TIME for so long ago, as
    /// -90s, -15m, -2h or -7d
    #[arg(long, value_parser = reset_to, allow_hyphen_values = true)]
    pub(super) to: ResetTo,
    /// The topic; may be repeated; left out: all that the queue holds
    #[arg(short = 't', long = "topic", value_name = "TOPIC")]
    pub(super) topics: Vec<String>,
    /// This partition alone; may be repeated
    #[arg(short = 'p', long = "partition", value_name = "N", requires = "topics")]
    pub(super) partitions: Vec<i32>,
    /// Do it
    #[arg(long)]
    pub(super) execute: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct DemoArgs {
    /// Brokers to use; left out: three inside this process
    #[arg(short = 'b', long = "bootstrap", value_name = "HOST:PORT,...", requires = "redis")]
    pub(super) bootstrap: Option<String>,
    /// Redis to use; left out: the queue is in memory
    #[arg(long, value_name = "URL", requires = "bootstrap")]
    pub(super) redis: Option<String>,
    /// Send at most this many lines
    #[arg(long, value_name = "N")]
    pub(super) lines: Option<u64>,
    /// Worker threads
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(super) workers: u32,
    /// Most offsets of one unit
    #[arg(long, value_name = "N", default_value_t = 5000)]
    pub(super) unit_size: u32,
}

fn name_partitions(text: &str) -> Result<(String, i32), String> {
    let parsed = text.rsplit_once(':').and_then(|(name, count)| Some((name, count.parse().ok()?)));
    match parsed {
        Some((name, count)) if !name.is_empty() => Ok((name.to_owned(), count)),
        _ => Err("expected is NAME:PARTITIONS".to_owned()),
    }
}

fn reset_to(text: &str) -> Result<ResetTo, String> {
    let to = match text {
        "earliest" => Some(ResetTo::Earliest),
        "latest" => Some(ResetTo::Latest),
        _ => match (text.strip_prefix('@'), text.strip_prefix('-')) {
            (Some(ms), _) => ms.parse().ok().filter(|ms| *ms >= 0).map(ResetTo::Time),
            (_, Some(time)) => duration(time).map(ResetTo::Back),
            _ => text.parse().ok().map(ResetTo::Offset),
        },
    };
    to.ok_or_else(|| "expected is earliest, latest, an offset, @MS, or -TIME as in -2h".to_owned())
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected are seconds, as 2 or 0.5".to_owned())?;
    if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&seconds) {
        return Err(format!("expected are {INTERVAL_MIN} to {INTERVAL_MAX} seconds"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// A whole number and its unit.
fn duration(text: &str) -> Option<Duration> {
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let seconds = match &text[number.len()..] {
        "ms" => return number.parse().ok().map(Duration::from_millis),
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => return None,
    };
    Some(Duration::from_secs(number.parse::<u64>().ok()?.checked_mul(seconds)?))
}

fn name_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.to_owned()))
        }
        _ => Err("expected is NAME=VALUE".to_owned()),
    }
}

fn delimiter(text: &str) -> Result<Delimiter, String> {
    let bytes = parse_delimiter(text).map_err(|error| error.to_string())?;
    if bytes.is_empty() {
        return Err("a separator needs at least one byte".to_owned());
    }
    Ok(Delimiter(bytes))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn work_units_need_group_and_redis_together() {
        let parse = |line: &str| Args::try_parse_from(line.split_whitespace());
        assert!(parse("ottla consume -b h:1 -t a -g g").is_err());
        assert!(parse("ottla consume -b h:1 -t a --redis redis://h").is_err());
        assert!(
            parse("ottla consume -b h:1 -t a -g g --redis redis://h --workers 4 --drain").is_ok()
        );
        assert!(parse("ottla consume -b h:1 -t a -g g --redis redis://h -e").is_err());
        assert!(parse("ottla consume -b h:1 -t a -o -10 -e").is_ok());
        assert!(parse("ottla send -b h:1 -t a -K").is_err());
        assert!(parse("ottla send -b h:1 -t a -X linger.ms").is_err());
    }

    #[test]
    fn a_place_to_reset_to_is_read() {
        let seconds = |seconds| ResetTo::Back(Duration::from_secs(seconds));
        for (text, to) in [
            ("earliest", ResetTo::Earliest),
            ("latest", ResetTo::Latest),
            ("0", ResetTo::Offset(0)),
            ("17", ResetTo::Offset(17)),
            ("@1500", ResetTo::Time(1500)),
            ("-250ms", ResetTo::Back(Duration::from_millis(250))),
            ("-90s", seconds(90)),
            ("-15m", seconds(900)),
            ("-2h", seconds(7200)),
            ("-7d", seconds(604_800)),
        ] {
            let line = format!("ottla work-queue -g g --redis r -b h:1 reset --to {text}");
            let parsed = Args::try_parse_from(line.split_whitespace()).expect(text);
            let Command::WorkQueue(WorkQueueArgs {
                action: Some(WorkQueueAction::Reset(args)),
                ..
            }) = parsed.command
            else {
                panic!("another command");
            };
            assert_eq!((args.to, args.execute), (to, false), "{text}");
        }
        for text in [
            "",
            "first",
            "@",
            "@-1",
            "@x",
            "-",
            "-5",
            "-h",
            "-1w",
            "--2h",
            "-1.5h",
            "-99999999999999999999d",
        ] {
            assert!(reset_to(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_interval_needs_an_equals_sign() {
        let watch = |words: &str| {
            let line = format!("ottla work-queue -g g --redis r {words}");
            let parsed = Args::try_parse_from(line.split_whitespace()).ok()?;
            let Command::WorkQueue(args) = parsed.command else { panic!("another command") };
            args.watch.map(|every| (every.as_millis(), args.action.is_some()))
        };
        assert_eq!(watch("--watch"), Some((2000, false)));
        assert_eq!(watch("--watch=0.5"), Some((500, false)));
        assert_eq!(watch("--watch drop"), Some((2000, true)));
        for wrong in
            ["--watch=0", "--watch=-1", "--watch=NaN", "--watch=x", "--watch=1e9", "--watch 5"]
        {
            assert_eq!(watch(wrong), None, "{wrong}");
        }
    }
}
