//! Update links: the places of the new versions of rows that a deletion vector hides.
//!
//! ```text
//!   group u32, run ...
//!   run   position u32 (top bit: keeps its key), block u32, offset u16, rows u16
//! ```
//!
//! A run describes consecutive rows whose new versions are consecutive on one page. Runs ascend by
//! position and do not overlap. Rows that went to another partition have block 0xFFFF_FFFF and
//! offset 0xFFFD, which is how PostgreSQL writes that.

use crate::frame::{Building, FRAME_BYTES, open};
use crate::{Kind, MOST_GROUP_ROWS, MOST_RECORD_BYTES, Place, RecordError, RowFate};

const RUN_BYTES: usize = 12;
const MOST_RUNS: usize = (MOST_RECORD_BYTES - FRAME_BYTES - size_of::<u32>()) / RUN_BYTES;
const KEEPS_KEY: u32 = 1 << 31;
/// The place of a new version in another partition.
const AWAY: Place = Place {
    block: u32::MAX,
    offset: 0xFFFD,
};

/// Consecutive rows whose new versions are consecutive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    position: u32,
    keeps_key: bool,
    /// Of the first row.
    to: Place,
    rows: u16,
}

impl Run {
    /// A row that was deleted has no new version, as one that is in another partition.
    fn of(position: u32, fate: RowFate) -> Run {
        let (to, keeps_key) = match fate {
            RowFate::Updated { to, keeps_key } => (to, keeps_key),
            RowFate::MovedPartitions | RowFate::Deleted => (AWAY, false),
        };
        Run {
            position,
            keeps_key,
            to,
            rows: 1,
        }
    }

    fn is_away(&self) -> bool {
        self.to.block == AWAY.block
    }

    /// Appends the next run, if it continues this one.
    fn absorb(&mut self, next: &Run) -> bool {
        let step = if self.is_away() { 0 } else { self.rows };
        let follows = next.position == self.position + u32::from(self.rows)
            && next.keeps_key == self.keeps_key
            && next.to.block == self.to.block
            && Some(next.to.offset) == self.to.offset.checked_add(step)
            && self.rows < u16::MAX;
        self.rows += u16::from(follows);
        follows
    }

    fn fate_of(&self, position: u32) -> Option<RowFate> {
        let nth = position.checked_sub(self.position)?;
        if nth >= u32::from(self.rows) {
            return None;
        }
        if self.is_away() {
            return Some(RowFate::MovedPartitions);
        }
        Some(RowFate::Updated {
            to: Place {
                block: self.to.block,
                offset: self.to.offset.checked_add(nth as u16)?,
            },
            keeps_key: self.keeps_key,
        })
    }

    fn bytes(&self) -> [u8; RUN_BYTES] {
        let flag = if self.keeps_key { KEEPS_KEY } else { 0 };
        let mut out = [0; RUN_BYTES];
        out[..4].copy_from_slice(&(self.position | flag).to_le_bytes());
        out[4..8].copy_from_slice(&self.to.block.to_le_bytes());
        out[8..10].copy_from_slice(&self.to.offset.to_le_bytes());
        out[10..].copy_from_slice(&self.rows.to_le_bytes());
        out
    }

    fn read(bytes: &[u8; RUN_BYTES]) -> Run {
        let [p0, p1, p2, p3, b0, b1, b2, b3, o0, o1, r0, r1] = *bytes;
        let position = u32::from_le_bytes([p0, p1, p2, p3]);
        Run {
            position: position & !KEEPS_KEY,
            keeps_key: position & KEEPS_KEY != 0,
            to: Place {
                block: u32::from_le_bytes([b0, b1, b2, b3]),
                offset: u16::from_le_bytes([o0, o1]),
            },
            rows: u16::from_le_bytes([r0, r1]),
        }
    }

    /// The position after its last row, if a writer may have written it behind `start`.
    fn end_after(&self, start: u32) -> Option<u32> {
        let end = self.position + u32::from(self.rows);
        let has_places = match self.is_away() {
            true => self.to == AWAY && !self.keeps_key,
            false => self
                .to
                .offset
                .checked_add(self.rows.saturating_sub(1))
                .is_some(),
        };
        let is_sound =
            self.rows > 0 && self.position >= start && end <= MOST_GROUP_ROWS && has_places;
        is_sound.then_some(end)
    }
}

/// A list whose bytes were verified.
#[derive(Clone, Copy, Debug)]
pub struct UpdateLinks<'a> {
    group: u32,
    runs: &'a [[u8; RUN_BYTES]],
}

impl<'a> UpdateLinks<'a> {
    /// # Errors
    /// The record is damaged, or was written by a newer version.
    pub fn open(record: &'a [u8]) -> Result<UpdateLinks<'a>, RecordError> {
        let mut fields = open(Kind::UpdateLinks, record)?;
        let (damaged, group) = (fields.damaged(), fields.u32()?);
        let (runs, []) = fields.rest().as_chunks() else {
            return Err(damaged);
        };
        let mut ends = runs.iter().map(Run::read);
        let end = ends.try_fold(0, |start, run| run.end_after(start));
        match end {
            Some(_) => Ok(UpdateLinks { group, runs }),
            None => Err(damaged),
        }
    }

    /// The group of its rows, by its first cold block.
    pub fn group(&self) -> u32 {
        self.group
    }

    /// What became of a row of the group, if the list tells.
    pub fn fate_of(&self, position: u32) -> Option<RowFate> {
        // The last run that does not begin after the row.
        let after = self
            .runs
            .partition_point(|run| Run::read(run).position <= position);
        let run = self.runs.get(after.checked_sub(1)?)?;
        Run::read(run).fate_of(position)
    }

    /// The bytes of the same list without the places of the new versions.
    pub fn without_places(&self) -> Vec<u8> {
        let runs = self.runs.iter().map(Run::read);
        let away = runs.map(|run| Run {
            keeps_key: false,
            to: AWAY,
            ..run
        });
        encode(self.group, &away.collect::<Vec<_>>())
    }
}

fn encode(group: u32, runs: &[Run]) -> Vec<u8> {
    let record = Building::<Vec<u8>>::of(Kind::UpdateLinks).put(group.to_le_bytes());
    let record = runs
        .iter()
        .fold(record, |record, run| record.put(run.bytes()));
    record.seal()
}

/// A list that is being written.
#[derive(Clone, Debug)]
pub struct UpdateLinksBuilder {
    group: u32,
    runs: Vec<Run>,
}

impl UpdateLinksBuilder {
    /// A list of rows of this group, without any yet.
    pub fn of_group(group: u32) -> UpdateLinksBuilder {
        UpdateLinksBuilder {
            group,
            runs: Vec::new(),
        }
    }

    /// Adds what became of a row, which comes behind those before. Returns `false` if there is no
    /// room for it.
    pub fn push(&mut self, position: u32, fate: RowFate) -> bool {
        let run = Run::of(position, fate);
        if self.runs.last_mut().is_some_and(|last| last.absorb(&run)) {
            return true;
        }
        let has_room = self.runs.len() < MOST_RUNS;
        if has_room {
            self.runs.push(run);
        }
        has_room
    }

    /// The bytes of the record.
    pub fn encode(&self) -> Vec<u8> {
        encode(self.group, &self.runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn updated(block: u32, offset: u16, keeps_key: bool) -> RowFate {
        let to = Place { block, offset };
        RowFate::Updated { to, keeps_key }
    }

    fn list(group: u32, fates: &[(u32, RowFate)]) -> UpdateLinksBuilder {
        let mut list = UpdateLinksBuilder::of_group(group);
        for &(position, fate) in fates {
            assert!(list.push(position, fate));
        }
        list
    }

    #[test]
    fn runs_are_joined_and_found_again() {
        let fates = [
            (3, updated(7, 1, true)),
            (4, updated(7, 2, true)),
            (5, updated(7, 3, false)),
            (9, updated(7, 4, false)),
            (10, updated(8, 1, false)),
            (11, RowFate::MovedPartitions),
            (12, RowFate::MovedPartitions),
        ];
        let list = list(1_024, &fates);
        assert_eq!(list.runs.len(), 5);
        let record = list.encode();
        let links = UpdateLinks::open(&record).unwrap();
        assert_eq!(links.group(), 1_024);
        for position in 0..15 {
            let fate = fates.iter().find(|(at, _)| *at == position);
            assert_eq!(links.fate_of(position), fate.map(|(_, fate)| *fate));
        }
    }

    #[test]
    fn a_list_forgets_where_rows_went_but_not_that_they_did() {
        let fates = [(3, updated(7, 1, true)), (9, updated(8, 2, false))];
        let record = list(64, &fates).encode();
        let record = UpdateLinks::open(&record).unwrap().without_places();
        let links = UpdateLinks::open(&record).unwrap();
        assert_eq!(links.group(), 64);
        assert_eq!(
            [3, 9].map(|at| links.fate_of(at)),
            [Some(RowFate::MovedPartitions); 2]
        );
        assert_eq!([4, 8].map(|at| links.fate_of(at)), [None; 2]);
    }

    #[test]
    fn a_full_list_fits_into_a_tuple() {
        let mut list = UpdateLinksBuilder::of_group(0);
        let rows = (0..).take_while(|&n| list.push(2 * n, updated(n, 1, false)));
        assert_eq!(rows.count(), MOST_RUNS);
        let record = list.encode();
        assert!(record.len() <= MOST_RECORD_BYTES);
        assert!(record.len() + RUN_BYTES > MOST_RECORD_BYTES);
        assert!(UpdateLinks::open(&record).is_ok());
    }

    #[test]
    fn runs_that_no_writer_writes_are_damage() {
        let run = |position, offset, rows| Run {
            position,
            keeps_key: false,
            to: Place { block: 1, offset },
            rows,
        };
        let away = Run::of(0, RowFate::MovedPartitions);
        let lists: [&[Run]; 6] = [
            &[run(0, 1, 0)],
            &[run(5, 1, 2), run(6, 1, 1)],
            &[run(5, 1, 2), run(3, 1, 1)],
            &[run(MOST_GROUP_ROWS - 1, 1, 2)],
            &[run(0, u16::MAX, 2)],
            &[Run {
                keeps_key: true,
                ..away
            }],
        ];
        for runs in lists {
            assert!(UpdateLinks::open(&encode(0, runs)).is_err(), "{runs:?}");
        }
        assert!(UpdateLinks::open(&encode(0, &[run(5, 1, 2), run(7, u16::MAX, 1)])).is_ok());
    }
}
