//! Wall time, CPU time and peak memory of this process. Linux only: the peak comes from /proc.

use std::fs;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::{Failure, Figures};

/// A running measurement: made when the first record goes out or is asked for, ended when the last
/// is confirmed or seen.
#[derive(Debug)]
pub struct Meter {
    wall: Instant,
    cpu: Duration,
}

impl Meter {
    /// Starts measuring.
    #[must_use]
    pub fn start() -> Meter {
        Meter { wall: Instant::now(), cpu: cpu_time() }
    }

    /// Time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.wall.elapsed()
    }

    /// User and system time of all threads of this process since the start.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        cpu_time().saturating_sub(self.cpu)
    }

    /// The figures of `records` records.
    pub fn finish(self, client: &str, records: u64) -> Result<Figures, Failure> {
        let seconds = self.wall.elapsed().as_secs_f64();
        let cpu_seconds = self.cpu().as_secs_f64();
        Ok(Figures {
            client: client.to_owned(),
            records,
            seconds,
            records_per_second: records as f64 / seconds,
            cpu_seconds_per_million: cpu_seconds / (records as f64 / 1e6),
            peak_mib: peak_mib()?,
            p50_us: 0.0,
            p99_us: 0.0,
        })
    }
}

/// User and system time of all threads so far: what getrusage gives as two figures.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        time.tv_sec.try_into().expect("CPU time is not negative"),
        time.tv_nsec.try_into().expect("nanoseconds are below a thousand million"),
    )
}

/// Peak resident memory since this program was loaded. Not getrusage's: that one begins with the
/// peak of whoever started us.
fn peak_mib() -> Result<f64, Failure> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_time_and_memory() {
        let meter = Meter::start();
        let block = vec![1u8; 32 << 20];
        let sum: u64 = std::hint::black_box(&block).iter().map(|b| u64::from(*b)).sum();
        let figures = meter.finish("test", sum).unwrap();
        assert_eq!(figures.records, 32 << 20);
        assert!(figures.cpu_seconds_per_million > 0.0);
        assert!(figures.peak_mib >= 32.0);
    }
}
