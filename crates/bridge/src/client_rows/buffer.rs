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
            copy(bytes, target, len);
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

/// Copies bytes; few of them without a call, by two words that may overlap.
///
/// # Safety
/// Both are valid for so many bytes, and do not overlap.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: as for this function.
    unsafe {
        match len {
            4..=8 => copy_ends::<u32>(from, to, len),
            9..=16 => copy_ends::<u64>(from, to, len),
            17..=32 => copy_ends::<u128>(from, to, len),
            _ => std::ptr::copy_nonoverlapping(from, to, len),
        }
    }
}

/// Copies the first bytes and the last ones.
///
/// # Safety
/// As for [`copy`]; there are as many bytes as a `T` has, and at most twice as many.
#[inline(always)]
unsafe fn copy_ends<T>(from: *const u8, to: *mut u8, len: usize) {
    let last = len - size_of::<T>();
    // SAFETY: as for this function.
    unsafe {
        let (head, tail) = (
            from.cast::<T>().read_unaligned(),
            from.add(last).cast::<T>().read_unaligned(),
        );
        to.cast::<T>().write_unaligned(head);
        to.add(last).cast::<T>().write_unaligned(tail);
    }
}

#[cfg(test)]
mod tests {
    use super::copy;

    #[test]
    fn any_number_of_bytes_is_copied() {
        let bytes: Vec<u8> = (0..100).collect();
        for len in 0..=bytes.len() {
            let mut to = vec![0xFF; bytes.len() + 1];
            // SAFETY: both have that many bytes.
            unsafe { copy(bytes.as_ptr(), to.as_mut_ptr(), len) };
            assert_eq!(to[..len], bytes[..len]);
            assert!(to[len..].iter().all(|&byte| byte == 0xFF));
        }
    }
}
