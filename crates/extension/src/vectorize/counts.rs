//! Counts of what a run read and skipped, for EXPLAIN and statistics.

use std::time::Duration;

use howdah_bridge::upper::{OperatorWork, Work};
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

    /// What the runs did, for EXPLAIN.
    pub fn work(&self) -> Work {
        let (counts, run) = (&self.counts, &self.run);
        let done = |rows: u64, time: Duration, memory_bytes: Option<usize>| OperatorWork {
            rows,
            time_ms: self.is_timed.then_some(time.as_secs_f64() * 1000.0),
            memory_bytes,
        };
        Work {
            row_groups: counts.groups,
            row_groups_skipped: counts.groups_skipped,
            row_groups_answered: counts.groups_answered,
            zones: counts.zones,
            zones_skipped: counts.zones_skipped,
            hot_rows: counts.hot_rows,
            threads: self.threads,
            scan: done(run.rows_in, run.times.scan, None),
            filter: done(run.rows_passed, run.times.filter, None),
            output: done(run.groups, run.times.output, Some(run.memory_peak_bytes)),
            evaluated: (self.evaluated).map(|evaluated| done(evaluated.rows, evaluated.time, None)),
        }
    }
}
