//! A column of a row group that is opened for reading single rows.

use std::cell::{Cell, RefCell};

use howdah_columnar::{Expected, ReadUnit, RowAccess, RowState, Value};

use super::group_bytes::GroupBytes;
use super::group_cache::Memory;
use super::lanes::Nearness;
use crate::errors::ColdError;

/// The memory of reads is counted at every 32nd row, of rows here and there at every eighth.
const COUNTED_AGAIN_AFTER: u32 = 32;
const COUNTED_AGAIN_AFTER_FAR: u32 = 8;

/// A row of a group that is being read.
pub(super) struct RowReading<'a, 's> {
    pub bytes: &'a GroupBytes<'a, 's>,
    pub position: u32,
    pub nearness: Nearness,
    pub expected: &'a Expected,
}

/// A column of a group, ready for its rows.
pub(super) struct ColumnAccess {
    pub access: RowAccess,
    /// The first of the columns whose values lie beside this one's: what is stored of a row is
    /// read by it for all of them, and its state is theirs.
    pub first: usize,
    pub state: RefCell<RowState>,
    /// The states of lanes that have one of their own, and the memory that they hold.
    pub lanes: RefCell<Vec<RowState>>,
    pub lane_bytes: Cell<usize>,
    /// The part of its memory that is counted as memory of the group.
    pub counted_bytes: Cell<usize>,
}

impl ColumnAccess {
    /// Counts the memory that a read has left allocated.
    pub fn count(&self, state: &RowState, memory: &Memory) {
        let state_bytes = state.memory_bytes() + self.lane_bytes.get();
        let now = size_of::<Self>() + self.access.memory_bytes() + state_bytes;
        memory.replace(self.counted_bytes.replace(now), now);
    }

    /// Calls `read` with the state of a lane; returns what it returns, and whether the state holds
    /// another amount of memory than before.
    fn in_lane<R>(&self, lane: usize, read: impl FnOnce(&mut RowState) -> R) -> (R, bool) {
        let mut lanes = self.lanes.borrow_mut();
        let counted = self.lane_bytes.get();
        if lanes.len() <= lane {
            let added = (lane + 1 - lanes.len()) * size_of::<RowState>();
            lanes.resize_with(lane + 1, RowState::default);
            self.lane_bytes.set(counted + added);
        }
        let state = &mut lanes[lane];
        let before = state.memory_bytes();
        let result = read(state);
        // What a read has allocated that an ERROR broke off was not counted.
        let grown = self.lane_bytes.get() + state.memory_bytes();
        let bytes = grown.saturating_sub(before);
        self.lane_bytes.set(bytes);
        (result, bytes != counted)
    }

    /// Shows what is stored of a row in the column's chunk, which others may share.
    pub fn show<R>(
        &self,
        reading: &RowReading<'_, '_>,
        memory: &Memory,
        look: impl FnOnce(Option<Value<'_>>) -> Result<R, ColdError>,
    ) -> Result<R, ColdError> {
        let &RowReading {
            bytes,
            position,
            nearness,
            expected,
        } = reading;
        let access = &self.access;
        let mut state = self.state.borrow_mut();
        // Frames and chunks are too long for a state each.
        if let Nearness::InLane(lane) = nearness
            && access.unit() == ReadUnit::Value
        {
            let (result, has_changed) = self.in_lane(lane, |state| {
                let stored = access.stored_among(position, expected, bytes, state)?;
                look(stored)
            });
            if has_changed {
                self.count(&state, memory);
            }
            return result;
        }
        let stored = match nearness {
            Nearness::Far => access.stored(position, bytes, &mut state)?,
            Nearness::Near => access.stored_among(position, expected, bytes, &mut state)?,
            Nearness::InLane(_) => access.stored(position, bytes, &mut state)?,
        };
        let result = look(stored)?;
        // Each read leaves about the same amount. Those that read ahead are few.
        let again_after = match nearness {
            Nearness::Far => COUNTED_AGAIN_AFTER_FAR,
            Nearness::Near if access.reads_ahead() => 1,
            Nearness::Near | Nearness::InLane(_) => COUNTED_AGAIN_AFTER,
        };
        if self.counted_bytes.get() == 0 || position.is_multiple_of(again_after) {
            self.count(&state, memory);
        }
        Ok(result)
    }
}
