//! What COPY's text format escapes (`CopyAttributeOutText` of `commands/copyto.c`), with its
//! default delimiter: backspace, tab, line feed, vertical tab, form feed, carriage return and
//! backslash.

use super::buffer::Buffer;

/// Bytes that are looked at together.
const BLOCK_BYTES: usize = 32;

#[inline(always)]
fn is_special(byte: u8) -> bool {
    byte.wrapping_sub(8) < 6 || byte == b'\\'
}

/// The letter that stands for a special byte behind a backslash.
fn letter(byte: u8) -> u8 {
    match byte {
        8..=13 => b"btnvfr"[usize::from(byte) - 8],
        other => other,
    }
}

#[inline(always)]
fn has_special(text: &[u8]) -> bool {
    let (blocks, rest) = text.as_chunks::<BLOCK_BYTES>();
    let in_block =
        |block: &[u8; BLOCK_BYTES]| block.iter().fold(false, |any, &b| any | is_special(b));
    blocks.iter().any(in_block) || rest.iter().fold(false, |any, &b| any | is_special(b))
}

/// Appends text, escaped.
///
/// # Safety
/// As for [`Buffer::room`]; the bytes are readable.
#[inline(always)]
pub(super) unsafe fn push_escaped(out: Buffer, text: *const u8, len: usize) {
    // SAFETY: as for this function.
    unsafe {
        let text = std::slice::from_raw_parts(text, len);
        match has_special(text) {
            false => out.push(text.as_ptr(), len),
            true => push_special(out, text),
        }
    }
}

/// # Safety
/// As for [`push_escaped`].
#[cold]
#[inline(never)]
unsafe fn push_special(out: Buffer, text: &[u8]) {
    // As many as are needed, and no more: a message has at most 1 GB.
    let special = text.iter().filter(|&&byte| is_special(byte)).count();
    // SAFETY: as for this function; each special byte becomes two.
    unsafe {
        let mut target = out.room(text.len() + special);
        for &byte in text {
            if is_special(byte) {
                *target = b'\\';
                *target.add(1) = letter(byte);
                target = target.add(2);
            } else {
                *target = byte;
                target = target.add(1);
            }
        }
        out.advance(text.len() + special);
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_BYTES, has_special, is_special, letter};

    #[test]
    fn the_special_bytes_are_those_of_copy() {
        let special: Vec<u8> = (0..=255).filter(|&byte| is_special(byte)).collect();
        assert_eq!(special, b"\x08\t\n\x0b\x0c\r\\");
        let letters: Vec<u8> = special.into_iter().map(letter).collect();
        assert_eq!(letters, b"btnvfr\\");
    }

    #[test]
    fn a_special_byte_is_found_wherever_it_is() {
        for len in [1, BLOCK_BYTES - 1, BLOCK_BYTES, 3 * BLOCK_BYTES + 5] {
            assert!(!has_special(&vec![b'x'; len]));
            for at in 0..len {
                let mut text = vec![0xC3; len];
                text[at] = b'\t';
                assert!(has_special(&text), "{at} of {len}");
            }
        }
    }
}
