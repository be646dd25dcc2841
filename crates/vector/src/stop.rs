//! Whether a run is to stop: what every loop asks that may run for more than a few milliseconds.
//!
//! Kernels are not given anything that belongs to a run. Those whose time for a row depends on more
//! than the row, as on the length of a list, ask by [`check_here`], for the run that their thread
//! has [entered](enter).

use std::cell::RefCell;
use std::cmp::Ordering as Order;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::VectorError;

/// The run's stop flag, and what the caller knows before the flag is set: its thread may have to
/// wait for a processor that the other threads keep busy.
#[derive(Clone, Copy)]
pub(crate) struct Stop<'a> {
    flag: &'a AtomicBool,
    is_stopped: fn() -> bool,
}

impl<'a> Stop<'a> {
    pub(crate) fn new(flag: &'a AtomicBool, is_stopped: fn() -> bool) -> Self {
        Self { flag, is_stopped }
    }

    /// To be called between two steps of a loop.
    ///
    /// # Errors
    ///
    /// [`VectorError::Stopped`] if the run is to stop.
    pub(crate) fn check(&self) -> Result<(), VectorError> {
        match self.flag.load(Ordering::Relaxed) || (self.is_stopped)() {
            true => Err(VectorError::Stopped),
            false => Ok(()),
        }
    }
}

/// A run that a thread works for.
struct Here {
    flag: Arc<AtomicBool>,
    is_stopped: fn() -> bool,
}

thread_local! {
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
}

/// While it lives, the thread works for a run; then again for the one before.
pub(super) struct Entered {
    before: Option<Here>,
}

/// Makes the thread work for a run.
pub(super) fn enter(flag: &Arc<AtomicBool>, is_stopped: fn() -> bool) -> Entered {
    let here = Here {
        flag: Arc::clone(flag),
        is_stopped,
    };
    Entered {
        before: HERE.replace(Some(here)),
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        HERE.set(self.before.take());
    }
}

/// To be called between two steps of a loop by code that is not given a [`Stop`].
///
/// # Errors
///
/// [`VectorError::Stopped`] if the run that the thread works for is to stop.
pub(crate) fn check_here() -> Result<(), VectorError> {
    HERE.with_borrow(|here| match here {
        Some(here) => Stop::new(&here.flag, here.is_stopped).check(),
        None => Ok(()),
    })
}

/// Rows that are sorted, or merged, between two checks of the stop flag.
const SORT_STEP: usize = 4_096;

/// Sorts row numbers. Unlike a sort of the standard library it can be stopped: runs of rows are
/// sorted, then merged two by two. Of rows that are equal, any may be first.
///
/// # Errors
///
/// [`VectorError::Stopped`] if the run is to stop.
pub(crate) fn sort(
    rows: &mut Vec<u32>,
    order: impl Fn(u32, u32) -> Order,
    stop: &Stop<'_>,
) -> Result<(), VectorError> {
    for run in rows.chunks_mut(SORT_STEP) {
        stop.check()?;
        run.sort_unstable_by(|a, b| order(*a, *b));
    }
    let mut run_len = SORT_STEP;
    let mut merged = Vec::with_capacity(rows.len());
    while run_len < rows.len() {
        merged.clear();
        for pair in rows.chunks(run_len * 2) {
            let (mut left, mut right) = pair.split_at(run_len.min(pair.len()));
            while let ([first, left_rest @ ..], [second, right_rest @ ..]) = (left, right) {
                if merged.len().is_multiple_of(SORT_STEP) {
                    stop.check()?;
                }
                if order(*second, *first).is_lt() {
                    merged.push(*second);
                    right = right_rest;
                } else {
                    merged.push(*first);
                    left = left_rest;
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        std::mem::swap(rows, &mut merged);
        run_len *= 2;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shuffled(len: u32) -> Vec<u32> {
        let mut random = 7u64;
        let mut rows: Vec<u32> = (0..len).collect();
        for at in (1..rows.len()).rev() {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            rows.swap(at, (random >> 33) as usize % (at + 1));
        }
        rows
    }

    #[test]
    fn rows_are_sorted_whatever_their_number() -> Result<(), VectorError> {
        let flag = AtomicBool::new(false);
        for len in [0, 1, 2, 4_095, 4_096, 4_097, 8_192, 8_193, 50_000] {
            let mut rows = shuffled(len);
            sort(
                &mut rows,
                |a, b| (a / 3).cmp(&(b / 3)),
                &Stop::new(&flag, || false),
            )?;
            assert_eq!(rows.len(), len as usize);
            assert!(rows.is_sorted_by_key(|row| row / 3));
            rows.sort_unstable();
            assert!(rows.iter().copied().eq(0..len));
        }
        Ok(())
    }

    #[test]
    fn a_thread_asks_for_the_run_that_it_works_for() {
        let flags = [true, false].map(|flag| Arc::new(AtomicBool::new(flag)));
        assert!(check_here().is_ok());
        let outer = enter(&flags[0], || false);
        assert!(check_here().is_err());
        {
            let _inner = enter(&flags[1], || false);
            assert!(check_here().is_ok());
            std::thread::scope(|scope| {
                let other = scope.spawn(|| check_here().is_ok());
                assert!(other.join().expect("ends"));
            });
        }
        assert!(check_here().is_err());
        drop(outer);
        assert!(check_here().is_ok());
        let _stopped = enter(&flags[1], || true);
        assert!(check_here().is_err());
    }

    #[test]
    fn a_sort_stops_in_its_middle() {
        let flag = AtomicBool::new(false);
        let compared = std::cell::Cell::new(0u64);
        let order = |a: u32, b: u32| {
            compared.set(compared.get() + 1);
            if compared.get() == 1_000_000 {
                flag.store(true, Ordering::Relaxed);
            }
            a.cmp(&b)
        };
        let stopped = sort(&mut shuffled(200_000), order, &Stop::new(&flag, || false));
        assert!(matches!(stopped, Err(VectorError::Stopped)));
        assert!(compared.get() < 1_200_000);
    }

    #[test]
    fn the_caller_of_a_run_is_asked_beside_the_flag() {
        let flag = AtomicBool::new(false);
        assert!(Stop::new(&flag, || false).check().is_ok());
        assert!(Stop::new(&flag, || true).check().is_err());
        flag.store(true, Ordering::Relaxed);
        assert!(Stop::new(&flag, || false).check().is_err());
    }
}
