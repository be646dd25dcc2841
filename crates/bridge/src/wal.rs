//! The write-ahead log.

use pgrx::pg_sys;

/// `SizeOfXLogShortPHD` and `SizeOfXLogLongPHD` of `access/xlog_internal.h`.
const SHORT_HEADER_BYTES: u64 = 24;
const LONG_HEADER_BYTES: u64 = 40;
const PAGE_BYTES: u64 = pg_sys::XLOG_BLCKSZ as u64;

/// The end of WAL.
pub fn end() -> u64 {
    // SAFETY: plain read of shared state.
    unsafe { pg_sys::GetXLogInsertRecPtr() }
}

/// Flushes all WAL that has been inserted so far, including commits of transactions that did not
/// wait for the flush. Only then can the changes of these transactions be marked as visible to all:
/// a hint that a transaction has committed must not reach disk before its commit record
/// (`SetHintBits`). To be called by processes that may write WAL.
pub fn flush() {
    // SAFETY: no recovery is going on, and WAL up to this place has been reserved: records that are
    // being inserted are waited for.
    unsafe {
        let segment_bytes = pg_sys::wal_segment_size as u64;
        let next = pg_sys::GetXLogInsertRecPtr();
        pg_sys::XLogFlush(end_of_records(next, segment_bytes));
    }
}

/// The end of the last record if the next one begins at `next`: before the page header, if there is
/// one in between.
fn end_of_records(next: u64, segment_bytes: u64) -> u64 {
    let header_bytes = match next % segment_bytes < PAGE_BYTES {
        true => LONG_HEADER_BYTES,
        false => SHORT_HEADER_BYTES,
    };
    match next % PAGE_BYTES == header_bytes {
        true => next - header_bytes,
        false => next,
    }
}

#[cfg(test)]
mod tests {
    use super::{PAGE_BYTES, end_of_records};

    const SEGMENT: u64 = 16 << 20;

    #[test]
    fn the_end_of_a_page_is_before_the_next_header() {
        for (next, end) in [
            (SEGMENT + 40, SEGMENT),
            (SEGMENT + 48, SEGMENT + 48),
            (SEGMENT + PAGE_BYTES + 24, SEGMENT + PAGE_BYTES),
            (SEGMENT + PAGE_BYTES + 40, SEGMENT + PAGE_BYTES + 40),
            (SEGMENT + PAGE_BYTES + 104, SEGMENT + PAGE_BYTES + 104),
        ] {
            assert_eq!(end_of_records(next, SEGMENT), end);
        }
    }
}
