//! The one line that a run prints, and its reading.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::Failure;

/// What one run of one client took.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// The client's short name.
    pub client: String,
    /// Records confirmed or seen.
    pub records: u64,
    /// Wall time.
    pub seconds: f64,
    /// Records per second of wall time.
    pub records_per_second: f64,
    /// User and system time of the client's process alone, per million records.
    pub cpu_seconds_per_million: f64,
    /// Peak resident memory of the client's process, in MiB.
    pub peak_mib: f64,
    /// Half of the records were confirmed within so many microseconds; 0 when that was not measured.
    pub p50_us: f64,
    /// 99 of 100 records were.
    pub p99_us: f64,
}

impl Figures {
    /// With the times of each record.
    #[must_use]
    pub fn with_times(mut self, mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |part: usize| {
            let time = times.get(times.len() * part / 100).copied().unwrap_or_default();
            time.as_secs_f64() * 1e6
        };
        (self.p50_us, self.p99_us) = (at(50), at(99));
        self
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "client={} records={} seconds={:.3} records_per_second={:.0} \
             cpu_seconds_per_million={:.4} peak_mib={:.1} p50_us={:.1} p99_us={:.1}",
            self.client,
            self.records,
            self.seconds,
            self.records_per_second,
            self.cpu_seconds_per_million,
            self.peak_mib,
            self.p50_us,
            self.p99_us
        )
    }
}

impl FromStr for Figures {
    type Err = Failure;

    fn from_str(line: &str) -> Result<Figures, Failure> {
        let fields: HashMap<&str, &str> =
            line.split_whitespace().filter_map(|field| field.split_once('=')).collect();
        let field = |name| fields.get(name).copied().ok_or(format!("no {name} in {line:?}"));
        Ok(Figures {
            client: field("client")?.to_owned(),
            records: field("records")?.parse()?,
            seconds: field("seconds")?.parse()?,
            records_per_second: field("records_per_second")?.parse()?,
            cpu_seconds_per_million: field("cpu_seconds_per_million")?.parse()?,
            peak_mib: field("peak_mib")?.parse()?,
            p50_us: field("p50_us")?.parse()?,
            p99_us: field("p99_us")?.parse()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_line_reads_back() {
        let figures = Figures {
            client: "x".to_owned(),
            records: 1_000_000,
            seconds: 0.5,
            records_per_second: 2_000_000.0,
            cpu_seconds_per_million: 0.0625,
            peak_mib: 12.5,
            p50_us: 100.5,
            p99_us: 2000.0,
        };
        assert_eq!(figures.to_string().parse::<Figures>().unwrap(), figures);
        assert!("client=x records=1".parse::<Figures>().is_err());
    }
}
