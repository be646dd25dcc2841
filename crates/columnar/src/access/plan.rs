//! Builds the readers of a column's rows from its nodes. Everything that can be checked without
//! reading the chunk is checked here.

use std::ops::Range;
use std::sync::OnceLock;

use vortex_alp::{ALPFloat, Exponents};
use vortex_array::dtype::{DType, Nullability, PType};

use super::blocks::{Bits, Packed, Plain};
use super::coded_strings::{Dict, Fsst, OnPair};
use super::frames::Frames;
use super::letters::Letters;
use super::metadata::{
    self, AlpMetadata, AlpRdMetadata, DictMetadata, Native, OnPairMetadata, PackedMetadata,
    PatchesMetadata, PcoMetadata, RunsMetadata, Single, single,
};
use super::packed::{BLOCK, block_bytes};
use super::pages::Pages;
use super::reading::Searches;
use super::scalars::{Scalars, Validity};
use super::sorted::{Exceptions, Patches, Runs, Sorted};
use super::state::SINGLES;
use super::strings::{self, Constant, SparseRows, Strings, Views, bytes_of};
use super::whole::Whole;
use crate::codec::CHUNK_ALIGNMENT;
use crate::error::ColumnarError;
use crate::frames::frame_count;
use crate::layout::wire::ensure;
use crate::letters::Alphabet;
use crate::nodes::{Encoding, NodeRef, validity_child};

/// The longest node: the codes of a chunk's strings.
const MAX_LEN: usize = i32::MAX as usize;

/// Makes readers of nodes.
pub(super) struct Planner<'a> {
    /// Where the chunk lies in the stored value.
    pub(super) chunk: &'a Range<u64>,
    /// The rows of the column.
    pub(super) row_count: usize,
    /// The number of slots assigned.
    pub(super) slot_count: usize,
    /// Whether some node is decoded as a whole.
    pub(super) has_whole: bool,
    /// Those that begin among fences.
    pub(super) searches: Searches,
}

fn misshapen() -> ColumnarError {
    ColumnarError::corrupt("a node has another shape than its encoding")
}

fn child(node: NodeRef<'_>, index: usize) -> Result<NodeRef<'_>, ColumnarError> {
    node.child(index).ok_or_else(misshapen)
}

/// The lengths of nodes fit 32 bits, and so do those of their offsets.
fn len32(len: usize) -> Result<u32, ColumnarError> {
    ensure(len < MAX_LEN, "a node is too long")?;
    Ok(len as u32)
}

/// A single value that is a number.
fn bits_of(message: &[u8], native: Native) -> Result<Option<u64>, ColumnarError> {
    match single(message, Some(native))? {
        Single::Null => Ok(None),
        Single::Bits(bits) => Ok(Some(bits)),
        Single::Bytes(_) => Err(misshapen()),
    }
}

/// The value of a node of numbers that has a single one; such values are always short.
fn bits_of_inline(node: NodeRef<'_>, native: Native) -> Result<Option<u64>, ColumnarError> {
    bits_of(node.inline().ok_or_else(misshapen)?, native)
}

/// The type of a tree that is decoded as a whole. That of a tree without nulls may be nullable.
fn dtype_of(native: Native) -> DType {
    let ptype = match native {
        Native::Bool => return DType::Bool(Nullability::Nullable),
        Native::Unsigned(1) => PType::U8,
        Native::Unsigned(2) => PType::U16,
        Native::Unsigned(4) => PType::U32,
        Native::Unsigned(_) => PType::U64,
        Native::Signed(1) => PType::I8,
        Native::Signed(2) => PType::I16,
        Native::Signed(4) => PType::I32,
        Native::Signed(_) => PType::I64,
        Native::Float(4) => PType::F32,
        Native::Float(_) => PType::F64,
    };
    DType::Primitive(ptype, Nullability::Nullable)
}

impl Planner<'_> {
    /// The value of a node of strings that has a single one.
    fn constant(&self, node: NodeRef<'_>) -> Result<Constant, ColumnarError> {
        let value = OnceLock::new();
        let range = match node.inline() {
            None => self.part(node, 0)?,
            Some(inline) => {
                let _ = value.set(bytes_of(single(inline, None)?)?);
                0..0
            }
        };
        Ok(Constant { range, value })
    }

    fn slot(&mut self) -> usize {
        self.slot_count += 1;
        self.slot_count - 1
    }

    /// A part as a range of the stored value.
    fn part(&self, node: NodeRef<'_>, index: usize) -> Result<Range<u64>, ColumnarError> {
        let part = node.parts().get(index).ok_or_else(misshapen)?;
        Ok(self.place(part))
    }

    fn place(&self, part: &Range<u32>) -> Range<u64> {
        self.chunk.start + u64::from(part.start)..self.chunk.start + u64::from(part.end)
    }

    /// A part of a known length.
    fn part_of(&self, node: NodeRef<'_>, index: usize, len: u64) -> Result<u64, ColumnarError> {
        let part = self.part(node, index)?;
        ensure(part.end - part.start == len, "a part has another length")?;
        Ok(part.start)
    }

    fn validity(&mut self, node: NodeRef<'_>, len: usize) -> Result<Validity, ColumnarError> {
        let Some(index) = validity_child(node) else {
            return Ok(None);
        };
        let bits = self.scalars(child(node, index)?, Native::Bool, len)?;
        Ok(Some(Box::new(bits)))
    }

    /// A child of integers that ascend.
    fn sorted(
        &mut self,
        node: NodeRef<'_>,
        native: Native,
        len: usize,
    ) -> Result<Sorted, ColumnarError> {
        let sorted = Sorted::new(self.scalars(node, native, len)?, len32(len)?);
        Ok(sorted.one_of(&mut self.searches))
    }

    /// Patches whose rows are the child `first`, and their values the next.
    fn patches(
        &mut self,
        node: NodeRef<'_>,
        first: usize,
        patches: Option<PatchesMetadata>,
        values: Native,
    ) -> Result<Option<Patches>, ColumnarError> {
        let Some(patches) = patches else {
            return Ok(None);
        };
        Ok(Some(Patches {
            at: self.exceptions(node, first, patches)?,
            values: Box::new(self.scalars(child(node, first + 1)?, values, patches.len)?),
        }))
    }

    fn exceptions(
        &mut self,
        node: NodeRef<'_>,
        first: usize,
        patches: PatchesMetadata,
    ) -> Result<Exceptions, ColumnarError> {
        ensure(
            patches.offset <= u64::from(u32::MAX),
            "patches begin too far away",
        )?;
        Ok(Exceptions {
            rows: self.sorted(child(node, first)?, patches.indices, patches.len)?,
            offset: patches.offset,
        })
    }

    fn whole(
        &mut self,
        node: NodeRef<'_>,
        dtype: DType,
        len: usize,
    ) -> Result<Box<Whole>, ColumnarError> {
        self.has_whole = true;
        self.tree(node, dtype, len).map(Box::new)
    }

    fn tree(
        &mut self,
        node: NodeRef<'_>,
        dtype: DType,
        len: usize,
    ) -> Result<Whole, ColumnarError> {
        let parts = node.all_parts();
        let base = parts.first().map_or(0, |part| part.start);
        let end = parts.last().map_or(base, |part| part.end);
        // The alignment of parts counts from the chunk's start.
        let base = base - base % CHUNK_ALIGNMENT as u32;
        Ok(Whole {
            tree: node.to_table(),
            range: self.place(&(base..end)),
            base,
            dtype,
            len: len32(len)?,
            slot: self.slot(),
        })
    }

    /// Readers of a node of bools, integers or floats.
    pub(super) fn scalars(
        &mut self,
        node: NodeRef<'_>,
        native: Native,
        len: usize,
    ) -> Result<Scalars, ColumnarError> {
        let len32 = len32(len)?;
        let boxed = |scalars: Scalars| Box::new(scalars);
        Ok(match node.encoding() {
            Encoding::Constant => Scalars::Constant {
                value: bits_of_inline(node, native)?,
                len: len32,
            },
            Encoding::Primitive if native != Native::Bool => {
                let width = native.width();
                Scalars::Plain(Plain {
                    start: self.part_of(node, 0, u64::from(len32) * u64::from(width))?,
                    width,
                    len: len32,
                    slot: self.slot(),
                    validity: self.validity(node, len)?,
                })
            }
            Encoding::Bool if native == Native::Bool => {
                let offset = metadata::bool_offset(node.metadata())?;
                let part = self.part(node, 0)?;
                ensure(
                    offset < 8 && (offset + u64::from(len32)).div_ceil(8) <= part.end - part.start,
                    "a bitmap is too short",
                )?;
                Scalars::Bits(Bits {
                    start: part.start,
                    offset: offset as u32,
                    len: len32,
                    slot: self.slot(),
                    validity: self.validity(node, len)?,
                })
            }
            Encoding::BitPacked => {
                let packed = PackedMetadata::parse(node.metadata())?;
                let width = native.width();
                ensure(
                    matches!(native, Native::Signed(_) | Native::Unsigned(_))
                        && packed.bit_width <= 8 * u64::from(width)
                        && packed.offset < BLOCK as u64,
                    "a packed node is wrong",
                )?;
                let blocks = (packed.offset as usize + len).div_ceil(BLOCK) as u64;
                let block_bytes = block_bytes(packed.bit_width as usize) as u64;
                let start = self.part_of(node, 0, blocks * block_bytes)?;
                let slot = self.slot();
                let patches = self.patches(node, 0, packed.patches, native)?;
                Scalars::Packed(Box::new(Packed {
                    start,
                    bits: packed.bit_width as u8,
                    width,
                    offset: packed.offset as u32,
                    len: len32,
                    slot,
                    singles: patches.as_ref().map_or(SINGLES, |it| it.singles(blocks)),
                    patches,
                    validity: self.validity(node, len)?,
                }))
            }
            Encoding::FrameOfReference => Scalars::Reference {
                reference: bits_of(node.metadata(), native)?.ok_or_else(misshapen)?,
                native,
                child: boxed(self.scalars(child(node, 0)?, native, len)?),
            },
            Encoding::ZigZag => {
                let encoded = Native::Unsigned(native.width());
                Scalars::ZigZag {
                    native,
                    child: boxed(self.scalars(child(node, 0)?, encoded, len)?),
                }
            }
            Encoding::Sequence => {
                let (base, step) = metadata::sequence(node.metadata(), native)?;
                Scalars::Sequence {
                    base,
                    step,
                    native,
                    len: len32,
                }
            }
            Encoding::Dict => {
                let dict = DictMetadata::parse(node.metadata())?;
                Scalars::Dict {
                    codes: boxed(self.scalars(child(node, 0)?, dict.codes, len)?),
                    words: boxed(self.scalars(child(node, 1)?, native, dict.word_count)?),
                }
            }
            Encoding::RunEnd => {
                let (runs, run_count) = self.runs(node, len32)?;
                Scalars::Runs {
                    runs,
                    values: boxed(self.scalars(child(node, 1)?, native, run_count)?),
                }
            }
            Encoding::Sparse => {
                let patches = metadata::sparse(node.metadata())?;
                let patches = self.patches(node, 0, Some(patches), native)?;
                Scalars::Sparse {
                    patches: patches.ok_or_else(misshapen)?,
                    fill: bits_of_inline(node, native)?,
                    len: len32,
                }
            }
            Encoding::Masked => Scalars::Masked {
                validity: self.validity(node, len)?,
                child: boxed(self.scalars(child(node, 0)?, native, len)?),
            },
            Encoding::Alp => {
                let alp = AlpMetadata::parse(node.metadata())?;
                let (is_wide, most) = match native {
                    Native::Float(4) => (false, f32::MAX_EXPONENT),
                    Native::Float(8) => (true, f64::MAX_EXPONENT),
                    _ => return Err(misshapen()),
                };
                ensure(alp.e <= most && alp.f <= most, "an exponent is too large")?;
                let encoded = Native::Signed(native.width());
                Scalars::Alp {
                    exponents: Exponents { e: alp.e, f: alp.f },
                    is_wide,
                    child: boxed(self.scalars(child(node, 0)?, encoded, len)?),
                    patches: self.patches(node, 1, alp.patches, native)?,
                }
            }
            Encoding::AlpRd => {
                let alp = AlpRdMetadata::parse(node.metadata())?;
                let Native::Float(width) = native else {
                    return Err(misshapen());
                };
                ensure(
                    alp.right_bits < 8 * width,
                    "a float has too many right bits",
                )?;
                Scalars::AlpRd {
                    left: boxed(self.scalars(child(node, 0)?, alp.left, len)?),
                    right: boxed(self.scalars(child(node, 1)?, Native::Unsigned(width), len)?),
                    right_bits: alp.right_bits,
                    words: alp.left_words.into(),
                    patches: self.patches(node, 2, alp.patches, alp.left)?,
                }
            }
            Encoding::Pco => match self.pages(node, native, len)? {
                Some(pages) => Scalars::Pages(pages),
                None => Scalars::Whole(self.whole(node, dtype_of(native), len)?),
            },
            Encoding::Chunked => Scalars::Whole(self.whole(node, dtype_of(native), len)?),
            _ => return Err(misshapen()),
        })
    }

    /// A reader of pages, for as many values as the column has rows: fewer, such as ends of runs,
    /// are searched, or read in any order, and are kept whole.
    fn pages(
        &mut self,
        node: NodeRef<'_>,
        native: Native,
        len: usize,
    ) -> Result<Option<Box<Pages>>, ColumnarError> {
        if len < self.row_count {
            return Ok(None);
        }
        let metadata = PcoMetadata::parse(node.metadata())?;
        let valid = match (node.child_count(), node.child(0)) {
            (0, _) => None,
            (1, Some(valid)) => Some(self.tree(valid, dtype_of(Native::Bool), len)?),
            _ => return Err(misshapen()),
        };
        let parts: Vec<_> = node.parts().iter().map(|part| self.place(part)).collect();
        let dtype = dtype_of(native).as_nonnullable();
        let pages = Pages::new(
            &metadata,
            &parts,
            dtype,
            len32(len)?,
            valid,
            self.slot_count,
        );
        self.slot_count += pages.as_ref().map_or(0, Pages::slot_count);
        Ok(pages.map(Box::new))
    }

    /// Readers of a node of text or bytes.
    pub(super) fn strings(
        &mut self,
        node: NodeRef<'_>,
        is_text: bool,
        len: usize,
    ) -> Result<Strings, ColumnarError> {
        let len32 = len32(len)?;
        Ok(match node.encoding() {
            Encoding::Constant => Strings::Constant {
                value: self.constant(node)?,
                len: len32,
            },
            Encoding::VarBin => {
                let offsets = metadata::varbin_offsets(node.metadata())?;
                Strings::Plain(strings::Plain {
                    offsets: self.scalars(child(node, 0)?, offsets, len + 1)?,
                    data: self.part(node, 0)?,
                    validity: self.validity(node, len)?,
                })
            }
            Encoding::VarBinView => {
                let last = node.parts().len().checked_sub(1).ok_or_else(misshapen)?;
                Strings::Views(Views {
                    views: self.part_of(node, last, 16 * u64::from(len32))?,
                    buffers: node.parts()[..last]
                        .iter()
                        .map(|part| self.place(part))
                        .collect(),
                    len: len32,
                    validity: self.validity(node, len)?,
                })
            }
            Encoding::Fsst => {
                let offsets = metadata::fsst_offsets(node.metadata())?;
                Strings::Fsst(Box::new(Fsst {
                    symbols: self.part(node, 0)?,
                    lengths: self.part(node, 1)?,
                    codes: strings::Plain {
                        offsets: self.scalars(child(node, 1)?, offsets, len + 1)?,
                        data: self.part(node, 2)?,
                        validity: self.validity(node, len)?,
                    },
                    table: OnceLock::new(),
                }))
            }
            Encoding::OnPair => {
                let onpair = OnPairMetadata::parse(node.metadata())?;
                // Codes have at most 16 bits.
                ensure(
                    onpair.word_count <= 1 << 16,
                    "an OnPair dictionary is too large",
                )?;
                let words = onpair.word_count;
                Strings::OnPair(Box::new(OnPair {
                    word_bytes: self.part(node, 0)?,
                    word_offsets: self.scalars(child(node, 0)?, onpair.word_offsets, words + 1)?,
                    word_count: words as u32,
                    codes: self.scalars(child(node, 1)?, onpair.codes, onpair.code_count)?,
                    code_offsets: self.scalars(child(node, 2)?, onpair.code_offsets, len + 1)?,
                    code_count: onpair.code_count as u32,
                    validity: self.validity(node, len)?,
                    words: OnceLock::new(),
                }))
            }
            Encoding::Dict => {
                let dict = DictMetadata::parse(node.metadata())?;
                let known = match dict.word_count {
                    count @ ..=Dict::KNOWN_WORDS => count,
                    _ => 0,
                };
                Strings::Dict(Box::new(Dict {
                    codes: self.scalars(child(node, 0)?, dict.codes, len)?,
                    words: self.strings(child(node, 1)?, is_text, dict.word_count)?,
                    known: (0..known).map(|_| OnceLock::new()).collect(),
                }))
            }
            Encoding::Frames => {
                let count = frame_count(node.metadata())?;
                let u32s = Native::Unsigned(4);
                Strings::Frames(Box::new(Frames {
                    dictionary: self.part(node, 0)?,
                    data: self.part(node, 1)?,
                    // Of frames that overlap, several would claim a row.
                    row_ends: Sorted::checked(
                        self.scalars(child(node, 0)?, u32s, count)?,
                        count as u32,
                        u64::from(len32) + 1,
                    ),
                    data_ends: self.scalars(child(node, 1)?, u32s, count)?,
                    lengths: self.scalars(child(node, 2)?, u32s, len)?,
                    validity: self.validity(node, len)?,
                    len: len32,
                    slot: self.slot(),
                    prepared: OnceLock::new(),
                }))
            }
            Encoding::Letters => {
                let alphabet = Alphabet::parse(node.metadata())?;
                let data_bytes = u64::from(len32) * alphabet.row_bytes() as u64;
                Strings::Letters(Box::new(Letters {
                    start: self.part_of(node, 0, data_bytes)?,
                    alphabet,
                    validity: self.validity(node, len)?,
                    len: len32,
                }))
            }
            Encoding::RunEnd => {
                let (runs, run_count) = self.runs(node, len32)?;
                Strings::Runs {
                    runs,
                    values: Box::new(self.strings(child(node, 1)?, is_text, run_count)?),
                }
            }
            Encoding::Sparse => {
                let patches = metadata::sparse(node.metadata())?;
                Strings::Sparse {
                    rows: Box::new(SparseRows {
                        at: self.exceptions(node, 0, patches)?,
                        fill: self.constant(node)?,
                        len: len32,
                    }),
                    values: Box::new(self.strings(child(node, 1)?, is_text, patches.len)?),
                }
            }
            Encoding::Masked => Strings::Masked {
                validity: self.validity(node, len)?,
                child: Box::new(self.strings(child(node, 0)?, is_text, len)?),
            },
            Encoding::Chunked => {
                let dtype = match is_text {
                    true => DType::Utf8(Nullability::Nullable),
                    false => DType::Binary(Nullability::Nullable),
                };
                Strings::Whole(self.whole(node, dtype, len)?)
            }
            _ => return Err(misshapen()),
        })
    }

    fn runs(&mut self, node: NodeRef<'_>, len: u32) -> Result<(Runs, usize), ColumnarError> {
        let runs = RunsMetadata::parse(node.metadata())?;
        let ends = self.sorted(child(node, 0)?, runs.ends, runs.run_count)?;
        Ok((
            Runs {
                ends,
                offset: runs.offset,
                len,
            },
            runs.run_count,
        ))
    }
}
