//! Counts of what a run read and skipped, for EXPLAIN and statistics.

use std::time::Duration;

use howdah_bridge::upper::{Explanation, Operator, Stage};
use howdah_columnar::ZONE_ROWS;
use howdah_vector::runtime::RunStatistics;

use super::foreign::Evaluated;
use crate::scan_stats::ScanCounts;

/// Counts for a table, or for all tables of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub groups: u64,
    pub groups_skipped: u64,
    /// Groups for which statistics were sufficient.
    pub groups_answered: u64,
    pub zones: u64,
    pub zones_skipped: u64,
    /// Rows of groups and loads that were read, or replaced by statistics.
    pub cold_rows: u64,
    pub hot_rows: u64,
}

/// What EXPLAIN shows of all runs of a node.
#[derive(Clone, Copy)]
pub struct Figures {
    pub counts: Counts,
    pub run: RunStatistics,
    /// The most that one run had.
    pub threads: usize,
    pub stage: Stage,
    pub has_filter: bool,
    pub is_timed: bool,
    /// What PostgreSQL evaluated for the engine, if anything.
    pub evaluated: Option<Evaluated>,
}

impl Counts {
    /// Counts the zones of a group of which these rows are read.
    pub fn note_zones(&mut self, row_count: usize, rows: &[std::ops::Range<usize>]) {
        let zones = row_count.div_ceil(ZONE_ROWS);
        let read: usize = rows.iter().map(|rows| rows.len().div_ceil(ZONE_ROWS)).sum();
        self.zones += zones as u64;
        self.zones_skipped += zones.saturating_sub(read) as u64;
    }

    pub fn add(&mut self, other: &Counts) {
        self.groups += other.groups;
        self.groups_skipped += other.groups_skipped;
        self.groups_answered += other.groups_answered;
        self.zones += other.zones;
        self.zones_skipped += other.zones_skipped;
        self.cold_rows += other.cold_rows;
        self.hot_rows += other.hot_rows;
    }

    /// The counts of a table for `howdah.stat_scans`.
    pub fn of_scan(&self) -> ScanCounts {
        ScanCounts {
            columnar_scans: i64::from(self.groups > 0),
            groups_read: (self.groups - self.groups_skipped) as i64,
            groups_skipped: self.groups_skipped as i64,
            zones_read: (self.zones - self.zones_skipped) as i64,
            zones_skipped: self.zones_skipped as i64,
            groups_read_by_row: 0,
        }
    }
}

impl Figures {
    /// Adds the figures of another run of the same node.
    pub fn add(&mut self, other: &Figures) {
        self.counts.add(&other.counts);
        self.run.add(&other.run);
        self.threads = self.threads.max(other.threads);
        if let (Some(evaluated), Some(more)) = (&mut self.evaluated, other.evaluated) {
            evaluated.rows += more.rows;
            evaluated.time += more.time;
        }
    }

    pub fn explain(&self, to: &mut Explanation) {
        let (counts, run) = (&self.counts, &self.run);
        let integers = [
            ("Row Groups", counts.groups),
            ("Row Groups Skipped", counts.groups_skipped),
            ("Row Groups Answered by Statistics", counts.groups_answered),
            ("Zones", counts.zones),
            ("Zones Skipped", counts.zones_skipped),
        ];
        if to.is_text() {
            let mut groups = format!("total={} skipped={}", counts.groups, counts.groups_skipped);
            if counts.groups_answered > 0 {
                groups += &format!(" answered by statistics={}", counts.groups_answered);
            }
            to.text("Row Groups", &groups);
            let zones = format!("total={} skipped={}", counts.zones, counts.zones_skipped);
            to.text("Zones", &zones);
        } else {
            for (label, count) in integers {
                to.integer(label, None, count as i64);
            }
        }
        to.integer("Hot Rows", None, counts.hot_rows as i64);
        to.integer("Threads", None, self.threads as i64);
        let ms = |time: Duration| self.is_timed.then_some(time.as_secs_f64() * 1000.0);
        let mut operators = vec![Operator {
            name: "Scan",
            rows_in: None,
            rows_out: run.rows_in,
            time_ms: ms(run.times.scan),
            memory_bytes: None,
        }];
        if self.has_filter {
            operators.push(Operator {
                name: "Filter",
                rows_in: Some(run.rows_in),
                rows_out: run.rows_passed,
                time_ms: ms(run.times.filter),
                memory_bytes: None,
            });
        }
        if let Some(evaluated) = self.evaluated {
            operators.push(Operator {
                name: "Evaluate",
                rows_in: None,
                rows_out: evaluated.rows,
                time_ms: ms(evaluated.time),
                memory_bytes: None,
            });
        }
        operators.push(Operator {
            name: match self.stage {
                Stage::Group => "Aggregate",
                Stage::First => "First",
            },
            rows_in: Some(run.rows_passed),
            rows_out: run.groups,
            time_ms: ms(run.times.output),
            memory_bytes: Some(run.memory_peak_bytes),
        });
        to.operators(&operators);
    }
}
