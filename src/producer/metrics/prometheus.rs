//! [`ProducerMetrics`] as text for Prometheus: exposition format 0.0.4.
//!
//! Names are ours by Prometheus' rules: base units (seconds, bytes), `_total` for counters; behind the prefix they are those of
//! [`ProducerMetrics`]. Each family appears once, with HELP and TYPE before its samples. What is counted per broker and per topic
//! has families of its own (`ottla_producer_broker_...`, `ottla_producer_topic_...`), so that no sum counts twice. Times are
//! summaries: quantiles of the last 30 to 60 seconds, sum and count of all time.
//!
//! <https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>

use std::fmt::{Display, Write};
use std::time::Duration;

use super::snapshot::{BrokerMetrics, ProducerMetrics, Times, TopicMetrics};

const PREFIX: &str = "ottla_producer_";

/// How Prometheus treats a family.
#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
}

/// One family: name, kind, help, and the value in a `T`.
type Family<T> = (&'static str, Kind, &'static str, fn(&T) -> f64);

/// A family of times.
type Summary<T> = (&'static str, &'static str, fn(&T) -> &Times);

#[rustfmt::skip]
const WHOLE: &[Family<ProducerMetrics>] = &[
    ("record_send_total", Kind::Counter, "Records written in requests, retries included.", |m| m.record_send_total as f64),
    ("record_acknowledged_total", Kind::Counter, "Records that a broker acknowledged.", |m| m.record_acknowledged_total as f64),
    ("record_error_total", Kind::Counter, "Records that failed for good.", |m| m.record_error_total as f64),
    ("record_stored_for_retry_total", Kind::Counter, "Records that went to the retry store.", |m| m.record_stored_for_retry_total as f64),
    ("retry_store_size_bytes", Kind::Gauge, "Bytes of the retry store on disk.", |m| m.retry_store_bytes as f64),
    ("record_retry_total", Kind::Counter, "Records that came back to be sent again.", |m| m.record_retry_total as f64),
    ("bytes_total", Kind::Counter, "Bytes of batches written in requests.", |m| m.byte_total as f64),
    ("batch_split_total", Kind::Counter, "Batches that were too large and were cut.", |m| m.batch_split_total as f64),
    ("requests_total", Kind::Counter, "Requests written.", |m| m.request_total as f64),
    ("responses_total", Kind::Counter, "Answers received.", |m| m.response_total as f64),
    ("bufferpool_wait_seconds_total", Kind::Counter, "Time that senders waited for memory.", |m| m.bufferpool_wait_time_total.as_secs_f64()),
    ("buffer_exhausted_total", Kind::Counter, "Sends that found no memory in time.", |m| m.buffer_exhausted_total as f64),
    ("failures_untold_total", Kind::Counter, "Failed records that found no room in the channel of failures.", |m| m.failures_untold_total as f64),
    ("connection_creation_total", Kind::Counter, "Connections opened.", |m| m.connection_creation_total as f64),
    ("connection_close_total", Kind::Counter, "Connections ended.", |m| m.connection_close_total as f64),
    ("connections", Kind::Gauge, "Connections at present.", |m| m.connection_count as f64),
    ("requests_in_flight", Kind::Gauge, "Requests that wait for their answers.", |m| m.requests_in_flight as f64),
    ("buffer_size_bytes", Kind::Gauge, "buffer.memory.", |m| m.buffer_total_bytes as f64),
    ("buffer_available_bytes", Kind::Gauge, "What is free of buffer.memory.", |m| m.buffer_available_bytes as f64),
    ("metadata_age_seconds", Kind::Gauge, "Age of the cluster's metadata.", |m| m.metadata_age.as_secs_f64()),
    ("batch_size_avg_bytes", Kind::Gauge, "Bytes of a batch as sent, recent mean.", |m| m.batch_size_avg),
    ("batch_size_max_bytes", Kind::Gauge, "Bytes of the largest recent batch.", |m| m.batch_size_max as f64),
    ("record_size_avg_bytes", Kind::Gauge, "Bytes of a record before compression, recent mean.", |m| m.record_size_avg),
    ("compression_ratio", Kind::Gauge, "Size after compression by size before, recent mean.", |m| m.compression_rate_avg),
    ("records_per_request_avg", Kind::Gauge, "Records per request, recent mean.", |m| m.records_per_request_avg),
    ("throttle_time_avg_seconds", Kind::Gauge, "Pause that brokers asked for, recent mean.", |m| m.produce_throttle_time_avg.as_secs_f64()),
    ("throttle_time_max_seconds", Kind::Gauge, "Longest recent pause that a broker asked for.", |m| m.produce_throttle_time_max.as_secs_f64()),
];

#[rustfmt::skip]
const WHOLE_TIMES: &[Summary<ProducerMetrics>] = &[
    ("request_latency_seconds", "From the write of a request to its answer.", |m| &m.request_latency),
    ("record_queue_time_seconds", "From a batch's first record to its first write.", |m| &m.record_queue_time),
];

#[rustfmt::skip]
const BROKER: &[Family<BrokerMetrics>] = &[
    ("broker_record_send_total", Kind::Counter, "Records written in requests to the broker.", |m| m.record_send_total as f64),
    ("broker_bytes_total", Kind::Counter, "Bytes of batches written to the broker.", |m| m.byte_total as f64),
    ("broker_requests_total", Kind::Counter, "Requests written to the broker.", |m| m.request_total as f64),
    ("broker_responses_total", Kind::Counter, "Answers of the broker.", |m| m.response_total as f64),
    ("broker_connection_creation_total", Kind::Counter, "Connections opened to the broker.", |m| m.connection_creation_total as f64),
    ("broker_connection_close_total", Kind::Counter, "Connections to the broker that ended.", |m| m.connection_close_total as f64),
    ("broker_connected", Kind::Gauge, "1 with a connection to the broker, 0 without.", |m| f64::from(u8::from(m.is_connected))),
    ("broker_requests_in_flight", Kind::Gauge, "Requests that wait for the broker's answers.", |m| m.requests_in_flight as f64),
    ("broker_throttle_time_avg_seconds", Kind::Gauge, "Pause that the broker asked for, recent mean.", |m| m.produce_throttle_time_avg.as_secs_f64()),
];

#[rustfmt::skip]
const BROKER_TIMES: &[Summary<BrokerMetrics>] = &[
    ("broker_request_latency_seconds", "From the write of a request to the broker's answer.", |m| &m.request_latency),
    ("broker_record_queue_time_seconds", "From a batch's first record to its first write to the broker.", |m| &m.record_queue_time),
];

#[rustfmt::skip]
const TOPIC: &[Family<TopicMetrics>] = &[
    ("topic_record_send_total", Kind::Counter, "Records of the topic written in requests.", |m| m.record_send_total as f64),
    ("topic_record_acknowledged_total", Kind::Counter, "Records of the topic that a broker acknowledged.", |m| m.record_acknowledged_total as f64),
    ("topic_record_error_total", Kind::Counter, "Records of the topic that failed for good.", |m| m.record_error_total as f64),
    ("topic_record_retry_total", Kind::Counter, "Records of the topic that came back to be sent again.", |m| m.record_retry_total as f64),
    ("topic_bytes_total", Kind::Counter, "Bytes of the topic's batches written.", |m| m.byte_total as f64),
    ("topic_batch_split_total", Kind::Counter, "Batches of the topic that were cut.", |m| m.batch_split_total as f64),
    ("topic_compression_ratio", Kind::Gauge, "Size after compression by size before, recent mean.", |m| m.compression_rate),
];

impl ProducerMetrics {
    /// These metrics in Prometheus' text format, version 0.0.4 (`text/plain; version=0.0.4`). Every sample has the label
    /// `client_id`; those of a broker `broker`, of a topic `topic`.
    ///
    /// A page holds each family once: a program with several producers gives each a page or a path of its own.
    pub fn to_prometheus(&self) -> String {
        let mut page = Page { text: String::with_capacity(16 * 1024) };
        let client = ("client_id", self.client_id.as_str());
        let whole = [(vec![client], self)];
        page.families(WHOLE, &whole);
        page.summaries(WHOLE_TIMES, &whole);
        let ids: Vec<String> = self.brokers.keys().map(ToString::to_string).collect();
        let brokers: Vec<_> = ids
            .iter()
            .zip(self.brokers.values())
            .map(|(id, broker)| (vec![client, ("broker", id)], broker))
            .collect();
        page.families(BROKER, &brokers);
        page.summaries(BROKER_TIMES, &brokers);
        let topics: Vec<_> = self
            .topics
            .iter()
            .map(|(name, topic)| (vec![client, ("topic", name)], topic))
            .collect();
        page.families(TOPIC, &topics);
        page.text
    }
}

/// Labels of a thing, and the thing.
type Labelled<'a, T> = (Vec<(&'a str, &'a str)>, &'a T);

struct Page {
    text: String,
}

impl Page {
    fn families<T>(&mut self, families: &[Family<T>], things: &[Labelled<'_, T>]) {
        if things.is_empty() {
            return;
        }
        for (name, kind, help, value) in families {
            let kind = match kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
            };
            self.head(name, kind, help);
            for (labels, thing) in things {
                self.sample(name, "", labels, None, value(thing));
            }
        }
    }

    fn summaries<T>(&mut self, summaries: &[Summary<T>], things: &[Labelled<'_, T>]) {
        if things.is_empty() {
            return;
        }
        for (name, help, times) in summaries {
            self.head(name, "summary", help);
            for (labels, thing) in things {
                let times = times(thing);
                let seconds = |time: Duration| time.as_secs_f64();
                self.sample(name, "", labels, Some("0.5"), seconds(times.p50));
                self.sample(name, "", labels, Some("0.99"), seconds(times.p99));
                self.sample(name, "_sum", labels, None, seconds(times.sum));
                self.sample(name, "_count", labels, None, times.count as f64);
            }
        }
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        self.line(format_args!("# HELP {PREFIX}{name} {help}"));
        self.line(format_args!("# TYPE {PREFIX}{name} {kind}"));
    }

    fn sample(
        &mut self,
        name: &str,
        suffix: &str,
        labels: &[(&str, &str)],
        quantile: Option<&str>,
        value: f64,
    ) {
        let quantile = quantile.map(|quantile| ("quantile", quantile));
        let labels: Vec<String> = labels
            .iter()
            .copied()
            .chain(quantile)
            .map(|(key, value)| format!("{key}=\"{}\"", escape(value)))
            .collect();
        self.line(format_args!("{PREFIX}{name}{suffix}{{{}}} {value}", labels.join(",")));
    }

    fn line(&mut self, line: impl Display) {
        writeln!(self.text, "{line}").expect("a String takes every write");
    }
}

/// A label's value: backslash, quote and line end are escaped.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// A reader of the format by its own rules: families with their kind, and samples in order.
    struct Read {
        kinds: BTreeMap<String, String>,
        samples: Vec<(String, BTreeMap<String, String>, f64)>,
    }

    fn is_name(name: &str) -> bool {
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        name.chars().all(legal) && name.starts_with(|c: char| !c.is_ascii_digit())
    }

    fn labels_of(mut text: &str) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::new();
        while !text.is_empty() {
            let (key, rest) = text.split_once("=\"").expect("a label has a quoted value");
            assert!(is_name(key) && !key.contains(':'), "{key}");
            let mut value = String::new();
            let mut chars = rest.char_indices();
            let end = loop {
                match chars.next().expect("a value ends").1 {
                    '"' => break chars.offset(),
                    '\\' => {
                        value.push(match chars.next().expect("an escape has two characters").1 {
                            'n' => '\n',
                            c @ ('"' | '\\') => c,
                            other => panic!("no such escape: {other}"),
                        });
                    }
                    '\n' => panic!("a line end in a value"),
                    c => value.push(c),
                }
            };
            assert!(labels.insert(key.to_owned(), value).is_none(), "{key} twice");
            text = rest[end..].strip_prefix(',').unwrap_or(&rest[end..]);
        }
        labels
    }

    fn read(page: &str) -> Read {
        assert!(page.ends_with('\n'), "the last line ends too");
        let mut read = Read { kinds: BTreeMap::new(), samples: Vec::new() };
        let mut helped = BTreeSet::new();
        let mut family = String::new();
        for line in page.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, _) = rest.split_once(' ').expect("a help has a text");
                assert!(helped.insert(name.to_owned()), "{name} has two helps");
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a type has a name and a kind");
                assert!(is_name(name) && helped.contains(name), "{name}");
                assert!(["counter", "gauge", "summary"].contains(&kind), "{kind}");
                let before = read.kinds.insert(name.to_owned(), kind.to_owned());
                assert!(before.is_none(), "{name} appears in two places");
                name.clone_into(&mut family);
            } else {
                let (name, rest) = line.split_once('{').expect("every sample of ours has labels");
                let (labels, value) = rest.rsplit_once("} ").expect("labels end before the value");
                let of_summary = read.kinds.get(&family).is_some_and(|kind| kind == "summary");
                let suffixed = |suffix| of_summary && name == format!("{family}{suffix}");
                assert!(
                    name == family || suffixed("_sum") || suffixed("_count"),
                    "{name} in {family}"
                );
                let value = value.parse().expect("a number");
                read.samples.push((name.to_owned(), labels_of(labels), value));
            }
        }
        read
    }

    fn example() -> ProducerMetrics {
        let second = Duration::from_secs(1);
        let times =
            Times { p50: second, p99: second * 3, count: 7, sum: second * 11, ..Times::default() };
        let odd = "a\"b\\c\nd},e=\"".to_owned();
        ProducerMetrics {
            client_id: odd.clone(),
            record_send_total: 12_345_678_901,
            compression_rate_avg: 0.25,
            request_latency: times,
            brokers: [
                (1, BrokerMetrics { is_connected: true, ..BrokerMetrics::default() }),
                (-1, BrokerMetrics::default()),
            ]
            .into(),
            topics: [(odd, TopicMetrics { byte_total: 5, ..TopicMetrics::default() })].into(),
            ..ProducerMetrics::default()
        }
    }

    #[test]
    fn the_page_follows_the_rules_of_the_format_and_carries_the_values() {
        let read = read(&example().to_prometheus());
        let mut seen = BTreeSet::new();
        for (name, labels, _) in &read.samples {
            assert!(seen.insert((name, labels)), "{name} twice with the same labels");
            assert_eq!(labels.get("client_id").map(String::as_str), Some("a\"b\\c\nd},e=\""));
        }
        let value = |name: &str, label: Option<(&str, &str)>| {
            let fits = |labels: &BTreeMap<String, String>| match label {
                Some((key, value)) => labels.get(key).is_some_and(|have| have == value),
                None => labels.len() == 1,
            };
            let name = format!("{PREFIX}{name}");
            let found =
                read.samples.iter().find(|(other, labels, _)| *other == name && fits(labels));
            found.unwrap_or_else(|| panic!("{name} is missing")).2
        };
        let same = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        same(value("record_send_total", None), 12_345_678_901.0);
        same(value("compression_ratio", None), 0.25);
        same(value("request_latency_seconds", Some(("quantile", "0.5"))), 1.0);
        same(value("request_latency_seconds", Some(("quantile", "0.99"))), 3.0);
        same(value("request_latency_seconds_sum", None), 11.0);
        same(value("request_latency_seconds_count", None), 7.0);
        same(value("broker_connected", Some(("broker", "1"))), 1.0);
        same(value("broker_connected", Some(("broker", "-1"))), 0.0);
        same(value("topic_bytes_total", Some(("topic", "a\"b\\c\nd},e=\""))), 5.0);
    }

    #[test]
    fn counters_end_in_total_and_names_have_base_units() {
        let read = read(&example().to_prometheus());
        assert!(read.kinds.len() > 30);
        for (name, kind) in &read.kinds {
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
            assert!(!name.contains("_ms") && !name.contains("milli"), "{name}");
        }
    }

    #[test]
    fn a_producer_that_sent_nothing_has_a_page_without_empty_families() {
        let read = read(&ProducerMetrics::default().to_prometheus());
        assert!(
            read.kinds.keys().all(|name| !name.contains("_broker_") && !name.contains("_topic_"))
        );
    }
}
