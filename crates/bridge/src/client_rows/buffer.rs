//! One message while it is written: PostgreSQL's `StringInfo`, which limits its length and says so.

use pgrx::pg_sys;

use crate::ffi::unguarded;

/// A message. Made by `initStringInfo`; its memory belongs to the context of that call.
#[derive(Clone, Copy)]
pub(super) struct Buffer(pub *mut pg_sys::StringInfoData);

impl Buffer {
    /// Empties it.
    ///
    /// # Safety
    /// The buffer is valid.
    #[inline(always)]
    pub unsafe fn clear(self) {
        // SAFETY: as for this function.
        unsafe { (*self.0).len = 0 }
    }

    /// The bytes written so far.
    ///
    /// # Safety
    /// The buffer is valid.
    #[inline(always)]
    pub unsafe fn len(self) -> usize {
        // SAFETY: as for this function.
        unsafe { (*self.0).len as usize }
    }

    /// Where the next bytes go; there is room for so many. Raises PostgreSQL's ERROR where the
    /// message would become longer than 1 GB.
    ///
    /// # Safety
    /// The buffer is valid. No frame up to the executor holds anything that must be dropped.
    #[inline(always)]
    pub unsafe fn room(self, bytes: usize) -> *mut u8 {
        // SAFETY: as for this function; `len` never exceeds `maxlen`.
        unsafe {
            let left = ((*self.0).maxlen - (*self.0).len) as usize;
            if left <= bytes {
                let needed = i32::try_from(bytes).unwrap_or(i32::MAX);
                unguarded::enlargeStringInfo(self.0, needed);
            }
            (*self.0).data.add((*self.0).len as usize).cast()
        }
    }

    /// Counts bytes that were written where [`Buffer::room`] said.
    ///
    /// # Safety
    /// There was room for them.
    #[inline(always)]
    pub unsafe fn advance(self, bytes: usize) {
        // SAFETY: as for this function.
        unsafe { (*self.0).len += bytes as i32 }
    }

    /// Appends bytes.
    ///
    /// # Safety
    /// As for [`Buffer::room`]; the bytes are readable.
    #[inline(always)]
    pub unsafe fn push(self, bytes: *const u8, len: usize) {
        // SAFETY: as for this function. A message never overlaps with a value.
        unsafe {
            let target = self.room(len);
            std::ptr::copy_nonoverlapping(bytes, target, len);
            self.advance(len);
        }
    }

    /// Appends one byte.
    ///
    /// # Safety
    /// As for [`Buffer::room`].
    #[inline(always)]
    pub unsafe fn push_byte(self, byte: u8) {
        // SAFETY: as for this function.
        unsafe {
            *self.room(1) = byte;
            self.advance(1);
        }
    }

    /// Overwrites the four bytes at `at` by a number in network order.
    ///
    /// # Safety
    /// They were written.
    #[inline(always)]
    pub unsafe fn set_number(self, at: usize, number: i32) {
        // SAFETY: as for this function.
        unsafe {
            let target = (*self.0).data.add(at).cast::<[u8; 4]>();
            target.write_unaligned(number.to_be_bytes());
        }
    }
}
