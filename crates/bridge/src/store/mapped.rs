//! The blocks of a relation that are copied from mapped files: see [`super::file_map`].

use std::cell::RefCell;
use std::ops::Range;
use std::time::Instant;

use pgrx::pg_sys;

use super::file_map::{FileMaps, Segment};
use super::page::PAGE_BYTES;
use super::{file_reads, recent};
use crate::ffi;
use crate::invalidation::at_invalidation;
use crate::relation::main_fork_blocks;

thread_local! {
    static MAPS: RefCell<FileMaps> = RefCell::default();
}

/// Call once, from `_PG_init`: files are unmapped when their relation changes.
pub fn register() {
    at_invalidation(|relation| {
        // A process that is exiting may have unmapped them already.
        let _ = MAPS.try_with(|maps| {
            if let Ok(mut maps) = maps.try_borrow_mut() {
                maps.forget_relation(relation);
            }
        });
    });
}

/// Whether the block is mapped. Not where reads wait for a disk: a page that is not in memory
/// would be waited for, one after the other.
///
/// # Safety
/// `rel` is open.
pub(super) unsafe fn has(rel: pg_sys::Relation, block: pg_sys::BlockNumber) -> bool {
    // SAFETY: as for this function.
    let (segment, offset) = unsafe { place(rel, block) };
    !file_reads::are_slow()
        && MAPS
            .with_borrow(|maps| maps.address(segment, offset))
            .is_some()
}

/// Copies ranges of the block to the same places of `page`, if it is mapped.
///
/// # Safety
/// `rel` is open and locked, and has this block.
pub(super) unsafe fn copy(
    rel: pg_sys::Relation,
    block: pg_sys::BlockNumber,
    ranges: &[Range<usize>],
    page: &mut [u8; PAGE_BYTES],
) -> bool {
    let started = Instant::now();
    // SAFETY: as for this function.
    let (segment, offset) = unsafe { place(rel, block) };
    let is_copied = MAPS.with_borrow_mut(|maps| maps.copy(segment, offset, ranges, page));
    if is_copied {
        file_reads::took(started.elapsed());
    }
    is_copied
}

/// Counts a page that was copied by a system call.
///
/// # Safety
/// `rel` is open and locked, and has this block.
pub(super) unsafe fn count(rel: pg_sys::Relation, block: pg_sys::BlockNumber) {
    // SAFETY: as for this function; `block` is not beyond the last one.
    unsafe {
        let (segment, offset) = place(rel, block);
        let open = || {
            let before = segment.number * pg_sys::RELSEG_SIZE;
            let blocks = main_fork_blocks(rel).saturating_sub(before);
            let bytes = blocks.min(pg_sys::RELSEG_SIZE) as usize * PAGE_BYTES;
            let (file, fork) = (
                pg_sys::RelationGetSmgr(rel),
                pg_sys::ForkNumber::MAIN_FORKNUM,
            );
            (ffi::mdfd(file, fork, block, &mut 0), bytes)
        };
        MAPS.with_borrow_mut(|maps| maps.count(segment, offset, open));
    }
}

/// Prefetches into the processor's cache what a copy of these ranges would wait for, if the
/// block is mapped.
///
/// # Safety
/// `rel` is open.
pub(super) unsafe fn touch(
    rel: pg_sys::Relation,
    block: pg_sys::BlockNumber,
    ranges: &[Range<usize>],
) {
    // SAFETY: as for this function.
    let (segment, offset) = unsafe { place(rel, block) };
    if let Some(page) = MAPS.with_borrow(|maps| maps.address(segment, offset)) {
        recent::fetch_lines(page.as_ptr(), ranges);
    }
}

/// The segment of a block, and where it begins there.
///
/// # Safety
/// `rel` is open.
unsafe fn place(rel: pg_sys::Relation, block: pg_sys::BlockNumber) -> (Segment, usize) {
    // SAFETY: as for this function.
    let (relation, locator) = unsafe { ((*rel).rd_id, (*rel).rd_locator) };
    let segment = Segment {
        relation,
        tablespace: locator.spcOid.to_u32(),
        database: locator.dbOid.to_u32(),
        file: locator.relNumber.to_u32(),
        number: block / pg_sys::RELSEG_SIZE,
    };
    (segment, (block % pg_sys::RELSEG_SIZE) as usize * PAGE_BYTES)
}
