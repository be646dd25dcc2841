//! Recent inserts: rows of a group that are younger than the group.
//!
//! ```text
//!   form u8, group u32, first u32
//!     form 0   run ...   position u32, length u32
//!     form 1   bits      of the 32,768 positions from `first` on, 4,096 bytes
//! ```
//!
//! `first` is a multiple of 32,768; a list holds positions of the 32,768 from there on. Runs
//! ascend.

use crate::frame::{Building, open};
use crate::row_set::RowSet;
use crate::{Kind, MOST_GROUP_ROWS, RecordError};

/// Positions that a list may hold.
pub const POSITIONS_PER_LIST: u32 = 32_768;
const RUN_BYTES: usize = 8;
const BITS_BYTES: usize = POSITIONS_PER_LIST as usize / 8;
const RUNS: u8 = 0;
const BITS: u8 = 1;

/// A list whose bytes were verified.
#[derive(Clone, Copy, Debug)]
pub struct RecentInserts<'a> {
    first: u32,
    body: Body<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Body<'a> {
    Runs(&'a [[u8; RUN_BYTES]]),
    Bits(&'a [u8; BITS_BYTES]),
}

impl<'a> RecentInserts<'a> {
    /// The bytes of a list of positions of the group, which ascend and are of one list:
    /// [`POSITIONS_PER_LIST`] from a multiple of it on.
    ///
    /// # Panics
    /// If they are not of one list.
    pub fn encode(group: u32, positions: &[u32]) -> Vec<u8> {
        let list_of = |position: &u32| position / POSITIONS_PER_LIST * POSITIONS_PER_LIST;
        let first = positions.first().map_or(0, list_of);
        let runs: Vec<&[u32]> = positions.chunk_by(|a, b| a + 1 == *b).collect();
        let form = match runs.len() * RUN_BYTES <= BITS_BYTES {
            true => RUNS,
            false => BITS,
        };
        let mut record = Building::<Vec<u8>>::of(Kind::RecentInserts)
            .put([form])
            .put(group.to_le_bytes())
            .put(first.to_le_bytes());
        if form == RUNS {
            for run in runs {
                assert_eq!(run.last().map(list_of), Some(first), "of one list");
                record = record
                    .put(run[0].to_le_bytes())
                    .put((run.len() as u32).to_le_bytes());
            }
        } else {
            let mut bits = RowSet::with_bound(POSITIONS_PER_LIST);
            for position in positions {
                bits.insert(position - first);
            }
            record = record.put_all(&bits.to_bytes());
        }
        record.seal()
    }

    /// A list of the group.
    ///
    /// # Errors
    /// The record is damaged, is another group's, or was written by a newer version.
    pub fn open(group: u32, record: &'a [u8]) -> Result<RecentInserts<'a>, RecordError> {
        let mut fields = open(Kind::RecentInserts, record)?;
        let damaged = fields.damaged();
        let (form, owner, first) = (fields.u8()?, fields.u32()?, fields.u32()?);
        let rest = fields.rest();
        let body = match (form, rest.as_chunks()) {
            (RUNS, (runs, [])) => Body::Runs(runs),
            (BITS, _) => Body::Bits(rest.try_into().map_err(|_| damaged)?),
            _ => return Err(damaged),
        };
        let list = RecentInserts { first, body };
        let is_of_group = owner == group && first < MOST_GROUP_ROWS;
        if is_of_group && first.is_multiple_of(POSITIONS_PER_LIST) && list.ascends() {
            Ok(list)
        } else {
            Err(damaged)
        }
    }

    fn ascends(&self) -> bool {
        let Body::Runs(runs) = self.body else {
            return true;
        };
        let last = u64::from(self.first) + u64::from(POSITIONS_PER_LIST);
        let end = runs
            .iter()
            .map(read_run)
            .try_fold(u64::from(self.first), |end, (at, rows)| {
                let (at, rows) = (u64::from(at), u64::from(rows));
                let is_sound = rows > 0 && at >= end && at + rows <= last;
                is_sound.then_some(at + rows)
            });
        end.is_some()
    }

    /// Whether it names the position.
    pub fn contains(&self, position: u32) -> bool {
        let Some(nth) = position.checked_sub(self.first) else {
            return false;
        };
        match self.body {
            Body::Runs(runs) => {
                let after = runs.partition_point(|run| read_run(run).0 <= position);
                let run = after.checked_sub(1).and_then(|at| runs.get(at));
                run.map(read_run)
                    .is_some_and(|(at, rows)| position - at < rows)
            }
            Body::Bits(bits) => {
                let byte = bits.get(nth as usize / 8);
                byte.is_some_and(|byte| byte >> (nth % 8) & 1 == 1)
            }
        }
    }

    /// Adds the positions that are below `bound` to `rows`, which has that bound or a higher one.
    pub fn add_to(&self, rows: &mut RowSet, bound: u32) {
        let mut add = |position: u32| {
            if position < bound {
                rows.insert(position);
            }
        };
        match self.body {
            Body::Runs(runs) => {
                for (at, rows) in runs.iter().map(read_run) {
                    (at..(at + rows).min(bound)).for_each(&mut add);
                }
            }
            Body::Bits(bits) => RowSet::from_bytes(bits)
                .iter()
                .for_each(|nth| add(self.first + nth)),
        }
    }
}

/// First position and length.
fn read_run(run: &[u8; RUN_BYTES]) -> (u32, u32) {
    let [p0, p1, p2, p3, l0, l1, l2, l3] = *run;
    (
        u32::from_le_bytes([p0, p1, p2, p3]),
        u32::from_le_bytes([l0, l1, l2, l3]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survives(positions: &[u32]) {
        let record = RecentInserts::encode(2, positions);
        let list = RecentInserts::open(2, &record).unwrap();
        let mut rows = RowSet::with_bound(MOST_GROUP_ROWS);
        list.add_to(&mut rows, MOST_GROUP_ROWS);
        assert_eq!(rows.iter().collect::<Vec<_>>(), positions);
        for near in positions
            .iter()
            .flat_map(|&at| [at.saturating_sub(1), at, at + 1])
        {
            assert_eq!(list.contains(near), positions.contains(&near), "{near}");
        }
        let bound = positions[positions.len() / 2];
        let mut below = RowSet::with_bound(bound);
        list.add_to(&mut below, bound);
        let expected = positions.iter().filter(|&&at| at < bound);
        assert!(below.iter().eq(expected.copied()));
    }

    #[test]
    fn positions_are_found_again() {
        survives(&[0]);
        survives(&[131_071]);
        survives(&(32_768..65_536).collect::<Vec<_>>());
        survives(&(32_768..65_536).step_by(2).collect::<Vec<_>>());
        survives(&[98_304, 98_305, 98_400, 131_070]);
    }

    #[test]
    fn a_list_of_another_group_is_damage() {
        let record = RecentInserts::encode(1, &[5]);
        assert!(RecentInserts::open(0, &record).is_err());
    }

    #[test]
    fn runs_that_no_writer_writes_are_damage() {
        let lists: [(u32, &[(u32, u32)]); 6] = [
            (0, &[(3, 0)]),
            (0, &[(3, 2), (4, 1)]),
            (0, &[(32_767, 2)]),
            (0, &[(3, u32::MAX)]),
            (32_768, &[(3, 2)]),
            (5, &[(5, 1)]),
        ];
        for (first, runs) in lists {
            let head = Building::<Vec<u8>>::of(Kind::RecentInserts)
                .put([RUNS])
                .put(0_u32.to_le_bytes())
                .put(first.to_le_bytes());
            let record = runs.iter().fold(head, |record, (at, rows)| {
                record.put(at.to_le_bytes()).put(rows.to_le_bytes())
            });
            assert!(RecentInserts::open(0, &record.seal()).is_err(), "{runs:?}");
        }
    }
}
