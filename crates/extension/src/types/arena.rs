//! Memory for the values of one row, or of one batch of rows, that are not passed by value.
//!
//! Invariant: a value stays at its address until the arena is emptied. When a block of memory is
//! full, another one is allocated; at the next time there is one block of the total size. Nothing
//! is allocated for each value, and PostgreSQL is not called.

/// Arenas larger than this free their memory when they are emptied, in words.
const MOST_KEPT_WORDS: usize = 1 << 20;
/// The size of the first block, in words.
const FIRST_WORDS: usize = 128;

#[derive(Default)]
pub struct Arena {
    /// Words, so that every value is aligned for any type.
    words: Vec<u64>,
    full: Vec<Vec<u64>>,
}

impl Arena {
    /// Memory held.
    pub fn memory_bytes(&self) -> usize {
        let full = self.full.iter().map(Vec::capacity).sum::<usize>();
        (self.words.capacity() + full) * size_of::<u64>()
    }

    /// Discards all values.
    #[inline]
    pub fn clear(&mut self) {
        if self.full.is_empty() {
            self.words.clear();
        } else {
            self.merge();
        }
    }

    fn merge(&mut self) {
        let words = self.words.capacity() + self.full.iter().map(Vec::capacity).sum::<usize>();
        self.full.clear();
        self.words = match words <= MOST_KEPT_WORDS {
            true => Vec::with_capacity(words),
            false => Vec::new(),
        };
    }

    /// This many fresh words.
    #[inline]
    fn take(&mut self, count: usize) -> &mut [u64] {
        let start = self.words.len();
        if self.words.capacity() - start < count {
            return self.take_elsewhere(count);
        }
        self.words.resize(start + count, 0);
        &mut self.words[start..]
    }

    #[cold]
    fn take_elsewhere(&mut self, count: usize) -> &mut [u64] {
        let capacity = (2 * self.words.capacity()).max(count).max(FIRST_WORDS);
        let full = std::mem::replace(&mut self.words, Vec::with_capacity(capacity));
        if full.capacity() > 0 {
            self.full.push(full);
        }
        self.words.resize(count, 0);
        &mut self.words[..]
    }

    /// Stores `prefix`, `bytes` and `zeros` zero bytes; returns where they start.
    pub fn push(&mut self, prefix: Option<[u8; 4]>, bytes: &[u8], zeros: usize) -> *const u8 {
        let prefix_len = prefix.map_or(0, |prefix| prefix.len());
        let len = prefix_len + bytes.len() + zeros;
        let words = self.take(len.div_ceil(8));
        // SAFETY: the words hold `len` bytes, and every bit pattern is a u64.
        unsafe {
            let target = words.as_mut_ptr().cast::<u8>();
            if let Some(prefix) = prefix {
                std::ptr::copy_nonoverlapping(prefix.as_ptr(), target, prefix_len);
            }
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target.add(prefix_len), bytes.len());
            target
        }
    }

    /// Stores a value of variable length.
    pub fn varlena(&mut self, bytes: &[u8]) -> *const u8 {
        self.push(Some(varlena_header(bytes.len()).to_ne_bytes()), bytes, 0)
    }

    /// Stores a value of variable length as it lies in a tuple: with a header of one byte if it is
    /// short (`VARATT_CAN_MAKE_SHORT`).
    pub fn packed_varlena(&mut self, bytes: &[u8]) -> *const u8 {
        if bytes.len() >= SHORT_HEADER_BOUND {
            return self.varlena(bytes);
        }
        let words = self.take((1 + bytes.len()).div_ceil(8));
        // SAFETY: the words hold the header and the bytes, and every bit pattern is a u64.
        unsafe {
            let target = words.as_mut_ptr().cast::<u8>();
            target.write(((bytes.len() as u8 + 1) << 1) | 1);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target.add(1), bytes.len());
            target
        }
    }

    /// Stores the varlena of a view that holds its bytes itself. Both are a word of length and then
    /// the bytes, so only the length is replaced by the header.
    pub fn inline_varlena(&mut self, view: u128) -> *const u8 {
        let header = varlena_header(view as u32 as usize);
        let image = view & !u128::from(u32::MAX) | u128::from(header);
        let words = self.take(2);
        words.copy_from_slice(&[image as u64, (image >> 64) as u64]);
        words.as_ptr().cast()
    }

    /// Stores the bytes of a value of a type of this length, as `pg_type.typlen` has it.
    pub fn value(&mut self, bytes: &[u8], type_len: i16) -> *const u8 {
        match type_len {
            -1 => self.varlena(bytes),
            // A cstring ends with a zero byte.
            -2 => self.push(None, bytes, 1),
            _ => self.push(None, bytes, 0),
        }
    }
}

/// Values of so many bytes have a long header (`VARATT_SHORT_MAX`).
const SHORT_HEADER_BOUND: usize = 0x7f;

/// `SET_VARSIZE` for uncompressed data of this length.
fn varlena_header(len: usize) -> u32 {
    ((len + 4) as u32) << 2
}

#[cfg(test)]
mod tests {
    use super::Arena;

    /// # Safety
    /// So many bytes were put there, and the arena is not emptied during `'a`.
    unsafe fn bytes_at<'a>(place: *const u8, len: usize) -> &'a [u8] {
        // SAFETY: as for this function.
        unsafe { std::slice::from_raw_parts(place, len) }
    }

    #[test]
    fn short_values_are_packed() {
        let mut arena = Arena::default();
        for (len, header) in [(0, 1), (1, 1), (126, 1), (127, 4), (300, 4)] {
            let value = vec![7; len];
            let place = arena.packed_varlena(&value);
            // SAFETY: the value is as long, and the arena lives.
            let stored = unsafe { bytes_at(place, header + len) };
            assert_eq!(stored[header..], value);
            match header {
                1 => assert_eq!(usize::from(stored[0]), (len + 1) << 1 | 1),
                _ => assert_eq!(stored[0] & 3, 0),
            }
        }
    }

    #[test]
    fn values_stay_where_they_are_until_the_arena_is_emptied() {
        let mut arena = Arena::default();
        for _ in 0..3 {
            let value = |i: usize| vec![i as u8; i % 50];
            let places: Vec<_> = (0..2_000).map(|i| arena.varlena(&value(i))).collect();
            for (i, place) in places.into_iter().enumerate() {
                assert_eq!(place.align_offset(8), 0);
                // SAFETY: the value is as long, and the arena is emptied below.
                let stored = unsafe { bytes_at(place, 4 + i % 50) };
                assert_eq!(stored[4..], value(i));
            }
            arena.clear();
        }
    }

    #[test]
    fn other_values_have_no_header() {
        let mut arena = Arena::default();
        let view = 3 | u128::from(u32::from_le_bytes(*b"xyz\0")) << 32;
        let (text, fixed) = (arena.value(b"abc", -2), arena.value(b"abcdef", 6));
        let inline = arena.inline_varlena(view);
        // SAFETY: the values are as long, and the arena is not emptied.
        let [text, fixed, inline] =
            unsafe { [bytes_at(text, 4), bytes_at(fixed, 6), bytes_at(inline, 7)] };
        assert_eq!(
            (text, fixed, &inline[4..]),
            (&b"abc\0"[..], &b"abcdef"[..], &b"xyz"[..])
        );
    }
}
