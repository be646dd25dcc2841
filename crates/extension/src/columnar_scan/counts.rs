//! Counts of what a scan read and skipped, and their output by EXPLAIN.

use howdah_bridge::scan::Explanation;

/// What a scan read and skipped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Row groups examined.
    pub groups: u64,
    /// Those of them without a visible row, or of which statistics excluded every row.
    pub groups_skipped: u64,
    /// Zones of the other groups.
    pub zones: u64,
    /// Those of them of which the zone map excluded every row.
    pub zones_skipped: u64,
    /// Rows that were read and did not pass the pushed clauses.
    pub rows_removed: u64,
}

impl Counts {
    pub const LEN: usize = 5;

    pub fn as_array(self) -> [u64; Self::LEN] {
        [
            self.groups,
            self.groups_skipped,
            self.zones,
            self.zones_skipped,
            self.rows_removed,
        ]
    }

    pub fn from_array(counts: [u64; Self::LEN]) -> Counts {
        let [groups, groups_skipped, zones, zones_skipped, rows_removed] = counts;
        Counts {
            groups,
            groups_skipped,
            zones,
            zones_skipped,
            rows_removed,
        }
    }

    pub fn plus(self, more: Counts) -> Counts {
        let mut counts = self.as_array();
        for (sum, more) in counts.iter_mut().zip(more.as_array()) {
            *sum += more;
        }
        Counts::from_array(counts)
    }

    /// Adds the counts to EXPLAIN ANALYZE.
    pub fn explain(&self, filtered: bool, to: &mut Explanation) {
        let integers = [
            ("Row Groups", self.groups),
            ("Row Groups Skipped", self.groups_skipped),
            ("Zones", self.zones),
            ("Zones Skipped", self.zones_skipped),
        ];
        let is_text = to.is_text();
        if is_text {
            for [(label, total), (_, skipped)] in
                [[integers[0], integers[1]], [integers[2], integers[3]]]
            {
                to.text(label, &format!("total={total} skipped={skipped}"));
            }
        } else {
            for (label, count) in integers {
                to.integer(label, None, count as i64);
            }
        }
        if filtered || !is_text {
            let removed = self.rows_removed as i64;
            to.integer("Rows Removed by Pushed Filter", None, removed);
        }
    }
}
