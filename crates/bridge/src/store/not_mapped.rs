//! In place of [`mapped`](super::mapped), where files are not mapped.

use std::ops::Range;

use pgrx::pg_sys;

use super::page::PAGE_BYTES;

/// # Safety
/// None is needed.
pub(super) unsafe fn has(_: pg_sys::Relation, _: pg_sys::BlockNumber) -> bool {
    false
}

/// # Safety
/// None is needed.
pub(super) unsafe fn copy(
    _: pg_sys::Relation,
    _: pg_sys::BlockNumber,
    _: &[Range<usize>],
    _: &mut [u8; PAGE_BYTES],
) -> bool {
    false
}

/// # Safety
/// None is needed.
pub(super) unsafe fn count(_: pg_sys::Relation, _: pg_sys::BlockNumber) {}

/// # Safety
/// None is needed.
pub(super) unsafe fn touch(_: pg_sys::Relation, _: pg_sys::BlockNumber, _: &[Range<usize>]) {}
