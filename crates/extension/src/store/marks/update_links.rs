//! The places of the new versions of rows that an update has hidden in bulk.
//!
//! ```text
//!   id 6, seq b        a list, for rows among those that share a deletion vector; b is one of
//!                      their blocks
//!     group u32, reserved u32
//!     run ...          position u32 (top bit: keeps its key), block u32, offset u16, length u16
//!     check u64
//! ```
//!
//! A run describes consecutive rows whose new versions are consecutive on one page. Rows that went
//! to another partition have the TID that says so. A list belongs to its writer's transaction and
//! is never changed. Rows that share a deletion vector have at most as many lists as they have cold
//! blocks; when these keys are used up, rows get marks of their own.
//!
//! A list may be removed once its writer is older than every snapshot: no transaction follows a row
//! to its next version then.

use std::ops::{ControlFlow, RangeInclusive};

use howdah_bridge::store::{Birth, ColdStore, VALUE_BYTES};
use howdah_bridge::tid::{BlockNumber, INVALID_BLOCK, ROWS_PER_COLD_BLOCK, RowNumber, Tid};
use howdah_bridge::xid::CommandId;

use super::deletion_vector::{BLOCKS_PER_VECTOR, deletion_vector_place};
use super::mark::{Mark, RowFate};
use super::tuple_visibility::{in_force, writer_of};
use crate::errors::ColdError;
use crate::store::directory::{GroupEntry, fnv1a};

pub(super) const UPDATE_LINKS_ID: u32 = 6;
const HEAD_BYTES: usize = 8;
const RUN_BYTES: usize = 12;
const CHECK_BYTES: usize = 8;
const MOST_RUNS: usize = (VALUE_BYTES - HEAD_BYTES - CHECK_BYTES) / RUN_BYTES;
const KEEPS_KEY: u32 = 1 << 31;

/// Consecutive rows whose new versions are consecutive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    position: u32,
    keeps_key: bool,
    block: BlockNumber,
    offset: u16,
    rows: u16,
}

impl Run {
    fn of(position: u32, fate: RowFate) -> Run {
        let (tid, keeps_key) = match fate {
            RowFate::Updated { to, keeps_key } => (to, keeps_key),
            RowFate::MovedAway | RowFate::Deleted => (Tid::moved_to_another_partition(), false),
        };
        Run {
            position,
            keeps_key,
            block: tid.block(),
            offset: tid.offset(),
            rows: 1,
        }
    }

    fn is_away(&self) -> bool {
        self.block == INVALID_BLOCK
    }

    /// Appends the next run, if it continues this one.
    fn absorb(&mut self, next: &Run) -> bool {
        let step = if self.is_away() { 0 } else { self.rows };
        let follows = next.position == self.position + u32::from(self.rows)
            && next.keeps_key == self.keeps_key
            && next.block == self.block
            && Some(next.offset) == self.offset.checked_add(step)
            && self.rows < u16::MAX;
        self.rows += u16::from(follows);
        follows
    }

    fn fate_of(&self, position: u32) -> Option<RowFate> {
        let nth = position.checked_sub(self.position)?;
        if nth >= u32::from(self.rows) {
            return None;
        }
        Some(if self.is_away() {
            RowFate::MovedAway
        } else {
            RowFate::Updated {
                to: Tid::new(self.block, self.offset.wrapping_add(nth as u16)),
                keeps_key: self.keeps_key,
            }
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let flag = if self.keeps_key { KEEPS_KEY } else { 0 };
        out.extend((self.position | flag).to_le_bytes());
        out.extend(self.block.to_le_bytes());
        out.extend(self.offset.to_le_bytes());
        out.extend(self.rows.to_le_bytes());
    }

    /// `bytes` has the length of a run.
    fn decode(bytes: &[u8]) -> Run {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        Run {
            position: word(0) & !KEEPS_KEY,
            keeps_key: word(0) & KEEPS_KEY != 0,
            block: word(4),
            offset: half(8),
            rows: half(10),
        }
    }
}

fn seal(group: u32, runs: &[Run]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD_BYTES + runs.len() * RUN_BYTES + CHECK_BYTES);
    out.extend(group.to_le_bytes());
    out.extend([0; 4]);
    runs.iter().for_each(|run| run.encode(&mut out));
    let check = fnv1a(&out);
    out.extend(check.to_le_bytes());
    out
}

/// Head and runs of a list whose check holds.
fn open(group: u32, payload: &[u8]) -> Result<(&[u8], &[u8]), ColdError> {
    let damaged = ColdError::DamagedMark { group };
    let Some((body, check)) = payload.split_last_chunk::<CHECK_BYTES>() else {
        return Err(damaged);
    };
    if *check != fnv1a(body).to_le_bytes() || body.len() % RUN_BYTES != HEAD_BYTES {
        return Err(damaged);
    }
    Ok(body.split_at(HEAD_BYTES))
}

/// The bytes of the same list without the places of the new versions.
pub(super) fn without_places(group: u32, payload: &[u8]) -> Result<Vec<u8>, ColdError> {
    let (head, runs) = open(group, payload)?;
    let away = Run::of(0, RowFate::MovedAway);
    let runs: Vec<Run> = runs
        .chunks_exact(RUN_BYTES)
        .map(Run::decode)
        .map(|run| Run {
            position: run.position,
            rows: run.rows,
            ..away
        })
        .collect();
    let owner = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    Ok(seal(owner, &runs))
}

/// What became of the row, if this is a list of its group that contains it.
fn look_up(group: u32, payload: &[u8], position: u32) -> Result<Option<RowFate>, ColdError> {
    let (head, runs) = open(group, payload)?;
    if head[..4] != group.to_le_bytes() {
        return Ok(None);
    }
    let run = |nth: usize| Run::decode(&runs[nth * RUN_BYTES..(nth + 1) * RUN_BYTES]);
    // The last run that does not begin after the row.
    let (mut low, mut high) = (0, runs.len() / RUN_BYTES);
    while low < high {
        let middle = (low + high) / 2;
        if run(middle).position <= position {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low
        .checked_sub(1)
        .and_then(|nth| run(nth).fate_of(position)))
}

/// The keys that lists of the rows of a deletion vector may have.
fn keys_from(entry: &GroupEntry, seq: i32) -> RangeInclusive<i32> {
    let blocks = entry.capacity_rows.div_ceil(ROWS_PER_COLD_BLOCK as u32);
    let end = (entry.group() + blocks).min(seq as u32 + BLOCKS_PER_VECTOR) as i32;
    seq..=end - 1
}

/// The keys of all lists of a group.
pub(super) fn keys_of(entry: &GroupEntry) -> RangeInclusive<i32> {
    let blocks = entry
        .capacity_rows
        .div_ceil(ROWS_PER_COLD_BLOCK as u32)
        .max(1);
    let first = entry.group() as i32;
    first..=first + blocks as i32 - 1
}

/// Records what became of rows, ascending by position, that share the deletion vector with the key
/// `seq`. Returns how many of them found room.
pub(super) fn insert(
    store: &ColdStore,
    entry: &GroupEntry,
    seq: i32,
    fates: &[(u32, RowFate)],
    cid: CommandId,
) -> Result<usize, ColdError> {
    if fates.is_empty() {
        return Ok(0);
    }
    let keys = keys_from(entry, seq);
    let mut next = seq;
    store.visit(UPDATE_LINKS_ID, keys.clone(), &mut |shown| {
        if in_force(&shown) {
            next = shown.seq + 1;
        }
        ControlFlow::Continue(())
    });
    let mut noted = 0;
    while noted < fates.len() && keys.contains(&next) {
        let mut runs: Vec<Run> = Vec::new();
        let mut taken = 0;
        for &(position, fate) in &fates[noted..] {
            let run = Run::of(position, fate);
            if !runs.last_mut().is_some_and(|last| last.absorb(&run)) {
                if runs.len() == MOST_RUNS {
                    break;
                }
                runs.push(run);
            }
            taken += 1;
        }
        let payload = seal(entry.group(), &runs);
        store.insert(
            UPDATE_LINKS_ID,
            next,
            &payload,
            cid,
            Birth::Transactional,
            None,
        );
        noted += taken;
        next += 1;
    }
    Ok(noted)
}

/// What a list in force tells of a row that a deletion vector hides.
pub(super) fn of_row(
    store: &ColdStore,
    entry: &GroupEntry,
    row: RowNumber,
) -> Result<Option<Mark>, ColdError> {
    let position = (row.0 - entry.first_row.0) as u32;
    let (seq, _) = deletion_vector_place(entry, row);
    let mut found = Ok(None);
    store.visit(UPDATE_LINKS_ID, keys_from(entry, seq), &mut |shown| {
        if !in_force(&shown) {
            return ControlFlow::Continue(());
        }
        match look_up(entry.group(), shown.payload, position) {
            Ok(None) => ControlFlow::Continue(()),
            Ok(Some(fate)) => {
                let (xid, own) = writer_of(&shown);
                found = Ok(Some(Mark { fate, xid, own }));
                ControlFlow::Break(())
            }
            Err(error) => {
                found = Err(error);
                ControlFlow::Break(())
            }
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn updated(block: u32, offset: u16, keeps_key: bool) -> RowFate {
        let to = Tid::new(block, offset);
        RowFate::Updated { to, keeps_key }
    }

    fn place(fate: Option<RowFate>) -> Option<(u32, u16, bool)> {
        match fate? {
            RowFate::Updated { to, keeps_key } => Some((to.block(), to.offset(), keeps_key)),
            RowFate::MovedAway => Some((0, 0, false)),
            RowFate::Deleted => None,
        }
    }

    #[test]
    fn runs_are_joined_and_found_again() {
        let fates = [
            (3, updated(7, 1, true)),
            (4, updated(7, 2, true)),
            (5, updated(7, 3, false)),
            (9, updated(7, 4, false)),
            (10, updated(8, 1, false)),
            (11, RowFate::MovedAway),
            (12, RowFate::MovedAway),
        ];
        let mut runs: Vec<Run> = Vec::new();
        for (position, fate) in fates {
            let run = Run::of(position, fate);
            if !runs.last_mut().is_some_and(|last| last.absorb(&run)) {
                runs.push(run);
            }
        }
        assert_eq!(runs.len(), 5);
        let payload = seal(1_024, &runs);
        let at = |group, position| place(look_up(group, &payload, position).unwrap());
        assert_eq!(at(1_024, 2), None);
        assert_eq!(at(1_024, 3), Some((7, 1, true)));
        assert_eq!(at(1_024, 4), Some((7, 2, true)));
        assert_eq!(at(1_024, 5), Some((7, 3, false)));
        assert_eq!(at(1_024, 8), None);
        assert_eq!(at(1_024, 10), Some((8, 1, false)));
        assert_eq!(at(1_024, 12), Some((0, 0, false)));
        assert_eq!(at(1_024, 13), None);
        assert_eq!(at(512, 3), None);
    }

    #[test]
    fn a_list_forgets_where_rows_went_but_not_that_they_did() {
        let runs = [
            Run::of(3, updated(7, 1, true)),
            Run::of(9, updated(8, 2, false)),
        ];
        let payload = without_places(0, &seal(64, &runs)).unwrap();
        let at = |position| place(look_up(64, &payload, position).unwrap());
        assert_eq!([at(3), at(9)], [Some((0, 0, false)); 2]);
        assert_eq!([at(4), at(8)], [None; 2]);
        assert!(without_places(0, &payload[1..]).is_err());
    }

    #[test]
    fn damage_is_noticed() {
        let payload = seal(0, &[Run::of(1, updated(2, 3, true))]);
        for at in 0..payload.len() {
            let mut bytes = payload.clone();
            bytes[at] ^= 4;
            assert!(look_up(0, &bytes, 1).is_err());
        }
        assert!(look_up(0, &payload[..7], 1).is_err());
    }
}
