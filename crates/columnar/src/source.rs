//! The source of the bytes of one stored row group.

use std::ops::Range;

use crate::error::ColumnarError;

/// Random access to the bytes of one stored row group (footer, then body).
///
/// The source verifies the bytes that it returns, if that is needed: the format itself carries no
/// checksums. Bytes that were read are parsed as untrusted in either case.
pub trait ByteSource {
    /// The error of a failed read.
    type Error: From<ColumnarError>;

    /// Fills `into` with the bytes that start at `offset` of the stored value.
    ///
    /// # Errors
    ///
    /// When there are no such bytes, or they cannot be read.
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Self::Error>;

    /// Asks for ranges that will be read soon, so that memory is waited for together. A hint.
    fn request(&self, ranges: &[Range<u64>]) {
        let _ = ranges;
    }

    /// Shows `len` bytes that start at `offset` where they lie, if they lie side by side in memory
    /// and nothing else has to be done to show them. Otherwise shows nothing, and returns false:
    /// they are to be [read](Self::read).
    fn show(&self, offset: u64, len: usize, look: &mut dyn FnMut(&[u8])) -> bool {
        let _ = (offset, len, look);
        false
    }
}

/// A stored row group in memory.
impl ByteSource for [u8] {
    type Error = ColumnarError;

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), ColumnarError> {
        let is_there = self.show(offset, into.len(), &mut |bytes| into.copy_from_slice(bytes));
        match is_there {
            true => Ok(()),
            false => Err(ColumnarError::corrupt("row group ends early")),
        }
    }

    fn show(&self, offset: u64, len: usize, look: &mut dyn FnMut(&[u8])) -> bool {
        let start = usize::try_from(offset).ok();
        let bytes = start.and_then(|start| self.get(start..)?.get(..len));
        bytes.map(look).is_some()
    }
}

/// The bytes of a range whose length the caller has bounded.
pub(crate) fn read_range<S: ByteSource + ?Sized>(
    source: &S,
    range: Range<u64>,
) -> Result<Vec<u8>, S::Error> {
    let len = usize::try_from(range.end - range.start)
        .map_err(|_| ColumnarError::corrupt("a range is longer than memory"))?;
    let mut bytes = Vec::new();
    append(source, range.start, len, &mut bytes)?;
    Ok(bytes)
}

/// The memory that a read allocates before its source has returned as many bytes.
const STEP_BYTES: usize = 1 << 20;

/// Appends `len` bytes that start at `offset`. Lengths are untrusted: memory grows with what
/// the source gives.
pub(crate) fn append<S: ByteSource + ?Sized>(
    source: &S,
    offset: u64,
    len: usize,
    out: &mut Vec<u8>,
) -> Result<(), S::Error> {
    let start = out.len();
    for done in (0..len).step_by(STEP_BYTES) {
        let step = (len - done).min(STEP_BYTES);
        out.resize(start + done + step, 0);
        source.read(offset + done as u64, &mut out[start + done..])?;
    }
    Ok(())
}
