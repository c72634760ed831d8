//! Medians of all rounds, as a Markdown table.

use std::collections::BTreeMap;
use std::fmt;

use peers_common::Figures;

use crate::{CLIENTS, Case};

#[derive(Default)]
pub struct Table {
    cells: BTreeMap<(Case, &'static str), Cell>,
}

#[derive(Default)]
struct Cell {
    runs: Vec<Figures>,
    failed: usize,
}

impl Table {
    /// Adds a run; `None` if it failed.
    pub fn add(&mut self, case: Case, client: &'static str, figures: Option<Figures>) {
        let cell = self.cells.entry((case, client)).or_default();
        match figures {
            Some(figures) => cell.runs.push(figures),
            None => cell.failed += 1,
        }
    }

    pub fn failed(&self) -> usize {
        self.cells.values().map(|cell| cell.failed).sum()
    }
}

impl Cell {
    fn median(&self, figure: impl Fn(&Figures) -> f64) -> Option<f64> {
        let mut sorted: Vec<f64> = self.runs.iter().map(figure).collect();
        sorted.sort_by(f64::total_cmp);
        let upper = *sorted.get(sorted.len() / 2)?;
        let lower = *sorted.get(sorted.len().checked_sub(1)? / 2)?;
        Some(f64::midpoint(lower, upper))
    }

    fn cpu(&self) -> Option<f64> {
        self.median(|figures| figures.cpu_seconds_per_million)
    }

    fn rate(&self) -> Option<f64> {
        self.median(|figures| figures.records_per_second)
    }

    fn cpu_range(&self) -> (f64, f64) {
        self.runs
            .iter()
            .map(|figures| figures.cpu_seconds_per_million)
            .fold((f64::INFINITY, 0.0), |(least, most), cpu| (cpu.min(least), cpu.max(most)))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| case | client | CPU s per million (least-most) | of rdkafka | million records/s \
             | of rdkafka | peak MiB | p50 us | p99 us | runs |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|---|---|")?;
        for (case, _) in self.cells.keys().filter(|(_, client)| *client == CLIENTS[0].label) {
            let base = &self.cells[&(*case, CLIENTS[0].label)];
            for client in &CLIENTS {
                let Some(cell) = self.cells.get(&(*case, client.label)) else { continue };
                write!(f, "| {case} | {} |", client.label)?;
                let (Some(cpu), Some(rate)) = (cell.cpu(), cell.rate()) else {
                    writeln!(f, " failed | | | | | | | 0 of {} |", cell.failed)?;
                    continue;
                };
                let (least, most) = cell.cpu_range();
                let peak = cell.median(|figures| figures.peak_mib).unwrap_or_default();
                let time = |of: fn(&Figures) -> f64| match cell.median(of) {
                    Some(us) if us > 0.0 => format!("{us:.0}"),
                    _ => String::new(),
                };
                let (p50, p99) = (time(|it| it.p50_us), time(|it| it.p99_us));
                writeln!(
                    f,
                    " {cpu:.3} ({least:.3}-{most:.3}) | {} | {:.2} | {} | {peak:.0} | {p50} | {p99} | {} of {} |",
                    ratio(cpu, base.cpu()),
                    rate / 1e6,
                    ratio(rate, base.rate()),
                    cell.runs.len(),
                    cell.runs.len() + cell.failed
                )?;
            }
        }
        Ok(())
    }
}

fn ratio(figure: f64, base: Option<f64>) -> String {
    base.map_or_else(String::new, |base| format!("{:.2}", figure / base))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CASES;

    fn figures(cpu: f64, rate: f64) -> Figures {
        Figures {
            client: "x".to_owned(),
            records: 1,
            seconds: 1.0,
            records_per_second: rate,
            cpu_seconds_per_million: cpu,
            peak_mib: 7.0,
            p50_us: 0.0,
            p99_us: 0.0,
        }
    }

    #[test]
    fn ratios_are_those_of_the_medians() {
        let mut table = Table::default();
        for cpu in [9.0, 1.0, 2.0] {
            table.add(CASES[0], "rdkafka", Some(figures(cpu, 2e6)));
        }
        for cpu in [0.5, 1.5] {
            table.add(CASES[0], "rskafka", Some(figures(cpu, 1e6)));
        }
        table.add(CASES[0], "rskafka", None);
        let text = table.to_string();
        assert!(
            text.contains(
                "| rdkafka | 2.000 (1.000-9.000) | 1.00 | 2.00 | 1.00 | 7 |  |  | 3 of 3 |"
            )
        );
        assert!(
            text.contains(
                "| rskafka | 1.000 (0.500-1.500) | 0.50 | 1.00 | 0.50 | 7 |  |  | 2 of 3 |"
            )
        );
        assert_eq!(table.failed(), 1);
    }

    #[test]
    fn a_client_without_a_good_run_is_named() {
        let mut table = Table::default();
        table.add(CASES[0], "rdkafka", Some(figures(1.0, 1e6)));
        table.add(CASES[0], "rskafka", None);
        assert!(table.to_string().contains("| rskafka | failed |"));
    }
}
