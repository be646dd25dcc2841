//! What all records have in common: kind and version in front, a check behind.
//!
//! The check is the upper half of the XXH3-64 of all bytes before it, with seed 0. It notices
//! damage by disks and other programs; it does not authenticate.

use std::ops::Deref;

use xxhash_rust::xxh3::xxh3_64;

use crate::{Kind, RecordError};

const CHECK_BYTES: usize = 4;
/// Bytes of a record without fields.
pub(crate) const FRAME_BYTES: usize = 2 + CHECK_BYTES;

fn check_of(bytes: &[u8]) -> [u8; CHECK_BYTES] {
    ((xxh3_64(bytes) >> 32) as u32).to_le_bytes()
}

/// Verifies a record; returns its fields.
#[inline]
pub(crate) fn open(kind: Kind, record: &[u8]) -> Result<Fields<'_>, RecordError> {
    let damaged = RecordError::Damaged { kind };
    let (bytes, check) = record.split_last_chunk().ok_or(damaged)?;
    if check_of(bytes) != *check {
        return Err(damaged);
    }
    let (&[number, version], rest) = bytes.split_first_chunk().ok_or(damaged)?;
    if number != kind as u8 || version == 0 {
        return Err(damaged);
    }
    if version > kind.version() {
        return Err(RecordError::Newer { kind, version });
    }
    Ok(Fields { kind, rest })
}

/// The fields of a verified record that were not read yet.
pub(crate) struct Fields<'a> {
    kind: Kind,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub fn damaged(&self) -> RecordError {
        RecordError::Damaged { kind: self.kind }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        let (field, rest) = self.rest.split_first_chunk().ok_or(self.damaged())?;
        self.rest = rest;
        Ok(*field)
    }

    pub fn u8(&mut self) -> Result<u8, RecordError> {
        Ok(u8::from_le_bytes(self.take()?))
    }

    pub fn u16(&mut self) -> Result<u16, RecordError> {
        Ok(u16::from_le_bytes(self.take()?))
    }

    pub fn u32(&mut self) -> Result<u32, RecordError> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    pub fn u64(&mut self) -> Result<u64, RecordError> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    /// All that is left: the last field of a record of variable length.
    pub fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// There is nothing behind the fields that were read.
    pub fn end(self) -> Result<(), RecordError> {
        match self.rest {
            [] => Ok(()),
            _ => Err(self.damaged()),
        }
    }
}

/// Where a record is built.
pub(crate) trait Buffer: Default {
    fn append(&mut self, bytes: &[u8]);
    fn bytes(&self) -> &[u8];
}

/// A record that is being built.
pub(crate) struct Building<B>(B);

impl<B: Buffer> Building<B> {
    /// Begins a record in the newest version of its kind.
    pub fn of(kind: Kind) -> Building<B> {
        Building(B::default()).put([kind as u8, kind.version()])
    }

    /// Appends a field.
    pub fn put<const N: usize>(mut self, field: [u8; N]) -> Building<B> {
        self.0.append(&field);
        self
    }

    /// Appends the last field of a record of variable length.
    pub fn put_all(mut self, bytes: &[u8]) -> Building<B> {
        self.0.append(bytes);
        self
    }

    /// The record with its check.
    pub fn seal(mut self) -> B {
        let check = check_of(self.0.bytes());
        self.0.append(&check);
        self.0
    }
}

impl Buffer for Vec<u8> {
    fn append(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn bytes(&self) -> &[u8] {
        self
    }
}

/// Sets the check of a record that was changed in memory.
pub(crate) fn seal_again(record: &mut [u8]) {
    if let Some((bytes, check)) = record.split_last_chunk_mut() {
        *check = check_of(bytes);
    }
}

/// The longest record of fixed length.
const MOST_SHORT_BYTES: usize = 48;

/// The bytes of a record of fixed length.
#[derive(Clone, Copy, Debug)]
pub struct ShortRecord {
    bytes: [u8; MOST_SHORT_BYTES],
    len: usize,
}

impl Default for ShortRecord {
    fn default() -> ShortRecord {
        ShortRecord {
            bytes: [0; MOST_SHORT_BYTES],
            len: 0,
        }
    }
}

impl Buffer for ShortRecord {
    #[inline]
    fn append(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        self.bytes[self.len..end].copy_from_slice(bytes);
        self.len = end;
    }

    fn bytes(&self) -> &[u8] {
        self
    }
}

impl Deref for ShortRecord {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
