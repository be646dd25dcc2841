//! Where the column chunks of a table's row groups lie in the file of its cold store, as
//! `docs/format.md` describes the bytes.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context as _, ensure};

use crate::damage::{DIRECTORY_ID, Damaged, KEY_AND_LENGTH_BYTES, word};

/// Bytes that have one check.
pub const CHECKED_BYTES: usize = 1024;
/// Bytes of a value in one piece.
pub const PIECE_BYTES: usize = 8064;
/// The checks in front of a piece's bytes.
const CHECKS_BYTES: usize = 32;

/// A row group, and its pieces on disk.
#[derive(Clone, Debug)]
pub struct StoredGroup {
    /// Id of the value that holds it.
    pub value: u32,
    /// Length of its footer.
    footer_bytes: usize,
    /// Where the bytes of each piece lie in the file, behind key and checks, by number.
    pieces: BTreeMap<u32, Range<usize>>,
}

/// The row groups of the table, by their first rows.
///
/// # Errors
/// When a directory entry names a value of which no piece was found.
pub fn stored_groups(damaged: &Damaged) -> anyhow::Result<Vec<StoredGroup>> {
    let image = &damaged.image;
    let mut groups = BTreeMap::new();
    for entry in damaged.tuples_of(DIRECTORY_ID) {
        let fields = entry.data_offset_bytes + KEY_AND_LENGTH_BYTES;
        let (first_row, value) = (word(image, fields + 8), word(image, fields + 24));
        let mut pieces = BTreeMap::new();
        for piece in damaged.tuples_of(value) {
            let start = piece.data_offset_bytes;
            let bytes = start + KEY_AND_LENGTH_BYTES + CHECKS_BYTES..start + piece.data_bytes;
            pieces.insert(word(image, start + 4), bytes);
        }
        ensure!(!pieces.is_empty(), "value {value} has no pieces");
        let group = StoredGroup {
            value,
            footer_bytes: word(image, fields + 32) as usize,
            pieces,
        };
        groups.insert(first_row, group);
    }
    Ok(groups.into_values().collect())
}

impl StoredGroup {
    /// The place in the file of a byte of the value.
    fn place(&self, at: usize) -> anyhow::Result<usize> {
        let piece = self.pieces.get(&u32::try_from(at / PIECE_BYTES)?);
        let piece = piece.with_context(|| format!("no piece has byte {at}"))?;
        ensure!(at % PIECE_BYTES < piece.len(), "byte {at} is beyond");
        Ok(piece.start + at % PIECE_BYTES)
    }

    /// Where the chunk of the `column`-th column, from 0 on, lies in the value.
    ///
    /// # Errors
    /// When the footer is not where the directory says.
    pub fn chunk(&self, image: &[u8], column: usize) -> anyhow::Result<Range<usize>> {
        let magic = self.place(0)?;
        ensure!(
            &image[magic..magic + 8] == b"HOWDAHRG",
            "no footer at {magic}"
        );
        let entry = 32 + 32 * column;
        let start = word(image, self.place(entry + 8)?) as usize;
        let length = word(image, self.place(entry + 16)?) as usize;
        Ok(self.footer_bytes + start..self.footer_bytes + start + length)
    }

    /// The kilobytes that have one check each and hold nothing but this column's chunk, as places
    /// in the file.
    ///
    /// # Errors
    /// As [`Self::chunk`].
    pub fn kilobytes(&self, image: &[u8], column: usize) -> anyhow::Result<Vec<Range<usize>>> {
        let chunk = self.chunk(image, column)?;
        let mut places = Vec::new();
        for piece in chunk.start / PIECE_BYTES..=chunk.end / PIECE_BYTES {
            let end = (piece + 1) * PIECE_BYTES;
            for at in (piece * PIECE_BYTES..end).step_by(CHECKED_BYTES) {
                let length = CHECKED_BYTES.min(end - at);
                if at >= chunk.start && at + length <= chunk.end {
                    let start = self.place(at)?;
                    places.push(start..start + length);
                }
            }
        }
        Ok(places)
    }

    /// Numbers of the whole pieces that hold nothing but this column's chunk.
    ///
    /// # Errors
    /// As [`Self::chunk`].
    pub fn pieces_of_column(&self, image: &[u8], column: usize) -> anyhow::Result<Range<u32>> {
        let chunk = self.chunk(image, column)?;
        let first = chunk.start.div_ceil(PIECE_BYTES);
        Ok(u32::try_from(first)?..u32::try_from(chunk.end / PIECE_BYTES)?)
    }

    /// Where the payload of a piece, its checks included, lies in the file.
    ///
    /// # Errors
    /// When there is no such piece.
    pub fn piece(&self, number: u32) -> anyhow::Result<Range<usize>> {
        let bytes = self.pieces.get(&number);
        let bytes = bytes.with_context(|| format!("no piece {number}"))?;
        Ok(bytes.start - CHECKS_BYTES..bytes.end)
    }
}
