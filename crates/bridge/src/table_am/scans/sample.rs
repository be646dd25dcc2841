//! TABLESAMPLE: `scan_sample_next_block`, `scan_sample_next_tuple`.
//!
//! The server asks an access method for a block and then for its rows; the access method asks the
//! sampling method which. Hot blocks are read by heap's own callback, which asks the sampling
//! method too: for that call it gets a routine that returns the block chosen here.

use std::cell::Cell;
use std::marker::PhantomData;

use pgrx::{pg_guard, pg_sys};

use super::{OpenScan, TableScans};
use crate::heap_am::callbacks;
use crate::hot::scan::HotScan;
use crate::slot::Slot;
use crate::table_am::Routine;
use crate::tid::BlockNumber;

/// Sample scans of tables.
pub trait SampleScans: TableScans {
    /// Moves to the next block of the sample; `false` if there is none.
    fn next_block(scan: &mut OpenScan<'_, Self>, method: &mut SampleMethod<'_>) -> bool;

    /// Stores the next sampled row of the block in the slot; `false` if there is none.
    fn next_row(
        scan: &mut OpenScan<'_, Self>,
        method: &mut SampleMethod<'_>,
        slot: Slot<'_>,
    ) -> bool;
}

pub(super) fn set<A: SampleScans>(routine: &mut Routine) {
    routine.scan_sample_next_block = Some(next_block::<A>);
    routine.scan_sample_next_tuple = Some(next_tuple::<A>);
}

/// The sampling method of a scan.
pub struct SampleMethod<'a> {
    node: *mut pg_sys::SampleScanState,
    lives: PhantomData<&'a mut pg_sys::SampleScanState>,
}

/// The sampling method's choice of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChosenBlock {
    /// This one. Beyond the last one: the sample is complete.
    At(BlockNumber),
    /// It samples all blocks, in their order.
    Next,
}

thread_local! {
    static CHOSEN_BLOCK: Cell<BlockNumber> = const { Cell::new(0) };
}

#[pg_guard]
unsafe extern "C-unwind" fn chosen_block(
    _node: *mut pg_sys::SampleScanState,
    _blocks: BlockNumber,
) -> BlockNumber {
    CHOSEN_BLOCK.get()
}

impl SampleMethod<'_> {
    /// # Safety
    /// The node is valid as long as the result is used.
    unsafe fn of(node: *mut pg_sys::SampleScanState) -> Self {
        SampleMethod {
            node,
            lives: PhantomData,
        }
    }

    /// Lets the method choose among so many blocks.
    pub fn choose_block(&mut self, block_count: u32) -> ChosenBlock {
        // SAFETY: a node has a routine as long as it is valid.
        unsafe {
            match (*(*self.node).tsmroutine).NextSampleBlock {
                Some(choose) => ChosenBlock::At(choose(self.node, block_count)),
                None => ChosenBlock::Next,
            }
        }
    }

    /// Lets the method choose the next row among those of a block, which are counted from 1; `None`
    /// if it wants no more of them.
    pub fn choose_row(&mut self, block: BlockNumber, row_count: u16) -> Option<u16> {
        // SAFETY: a node has a routine as long as it is valid.
        let offset = unsafe {
            let choose = (*(*self.node).tsmroutine).NextSampleTuple?;
            choose(self.node, block, row_count)
        };
        (1..=row_count).contains(&offset).then_some(offset)
    }

    /// Has heap's scan read a block, for [`SampleMethod::next_hot`].
    pub fn read_hot(&mut self, hot: &mut HotScan<'_>, block: BlockNumber) -> bool {
        CHOSEN_BLOCK.set(block);
        // SAFETY: node and scan are valid; the node's routine is restored right after heap's
        // callback. An ERROR inside ends the query, and the node with it.
        unsafe {
            let original = (*self.node).tsmroutine;
            let mut naming = *original;
            naming.NextSampleBlock = Some(chosen_block);
            (*self.node).tsmroutine = &mut naming;
            let found = (callbacks().scan_sample_next_block)(hot.raw().cast(), self.node);
            (*self.node).tsmroutine = original;
            found
        }
    }

    /// Stores the next sampled row of the hot block in the slot.
    pub fn next_hot(&mut self, hot: &mut HotScan<'_>, slot: Slot<'_>) -> bool {
        // SAFETY: node, scan and slot are valid.
        unsafe { (callbacks().scan_sample_next_tuple)(hot.raw().cast(), self.node, slot.raw()) }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn next_block<A: SampleScans>(
    scan: pg_sys::TableScanDesc,
    node: *mut pg_sys::SampleScanState,
) -> bool {
    // SAFETY: the scan was begun for `A`, and not ended; the node is the one that scans.
    let (mut scan, mut method) = unsafe { (OpenScan::from_raw(scan), SampleMethod::of(node)) };
    A::next_block(&mut scan, &mut method)
}

#[pg_guard]
unsafe extern "C-unwind" fn next_tuple<A: SampleScans>(
    scan: pg_sys::TableScanDesc,
    node: *mut pg_sys::SampleScanState,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: the scan was begun for `A`, and not ended; the node is the one that scans, and the
    // slot is one of the relation's.
    let (mut scan, mut method, slot) = unsafe {
        let slot = Slot::from_raw(slot);
        (OpenScan::from_raw(scan), SampleMethod::of(node), slot)
    };
    A::next_row(&mut scan, &mut method, slot)
}
