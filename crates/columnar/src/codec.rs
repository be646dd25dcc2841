//! The door to Vortex: the session, compression, arrays taken apart into nodes and parts and
//! rebuilt from them, and the guard that turns a decoder's panic into an error.
//!
//! Nothing outside of this crate sees a Vortex type. The encodings of the format are fixed by
//! [`Encoding`], so that no name from untrusted bytes is ever looked up. All encodings of Vortex's
//! belong to its frozen edition `core2026.08.3`, which every later Vortex promises to read.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

use vortex_array::arrays::PrimitiveArray;
use vortex_array::buffer::BufferHandle;
use vortex_array::dtype::DType;
use vortex_array::serde::ArrayChildren;
use vortex_array::session::ArraySessionExt;
use vortex_array::validity::Validity;
use vortex_array::{ArrayDeserialization, ArrayRef, ExecutionCtx, IntoArray, VortexSessionExecute};
use vortex_btrblocks::schemes::{binary, float, integer, string, temporal};
use vortex_btrblocks::{
    BtrBlocksCompressor, BtrBlocksCompressorBuilder, CompressionSession, SchemeExt, SchemeId,
};
use vortex_buffer::{Alignment, Buffer, ByteBuffer};
use vortex_edition::declarations::core::CORE_2026_08_3;
use vortex_edition::{EDITION_DECLARATIONS, EDITION_FAMILIES, EditionSessionExt};
use vortex_error::{VortexError, VortexResult, vortex_bail, vortex_ensure, vortex_err};
use vortex_session::VortexSession;
use vortex_session::registry::Id;

use crate::access::messages;
use crate::ascending;
use crate::error::ColumnarError;
use crate::frames::NewFrames;
use crate::layout::wire::put_varint;
use crate::letters::NewLetters;
use crate::nodes::{Encoding, NodeRef, NodeTable};
use crate::types::Effort;
use crate::words::ByteWords;

/// The alignment of a chunk's first byte, which the padding inside of it counts on.
pub(crate) const CHUNK_ALIGNMENT: usize = 64;

/// The longest part that a node table holds itself.
const MAX_INLINE_BYTES: usize = 1_024;

static ENCODING_IDS: LazyLock<[Id; Encoding::ALL.len()]> =
    LazyLock::new(|| Encoding::ALL.map(|encoding| Id::new_static(encoding.name())));

static SESSION: LazyLock<VortexSession> = LazyLock::new(new_session);

fn new_session() -> VortexSession {
    let session = vortex_array::array_session().with::<CompressionSession>();
    vortex_alp::initialize(&session);
    vortex_fastlanes::initialize(&session);
    vortex_fsst::initialize(&session);
    vortex_onpair::initialize(&session);
    vortex_runend::initialize(&session);
    vortex_sequence::initialize(&session);
    vortex_sparse::initialize(&session);
    vortex_zigzag::initialize(&session);
    session.arrays().register(vortex_pco::Pco);
    for family in EDITION_FAMILIES {
        session
            .editions()
            .declare_family(family)
            .expect("Vortex's edition families are well-formed");
    }
    for declaration in EDITION_DECLARATIONS {
        session
            .register_edition(declaration)
            .expect("Vortex's edition declarations are well-formed");
    }
    session
        .enable_edition(CORE_2026_08_3)
        .expect("the pinned edition is declared");
    session
}

/// A compressor for columns whose values repeat, and one for the others: looking for a
/// dictionary, or for a value that most rows have, means hashing every value, which takes
/// longer than all else together.
struct Compressors {
    repetitive: BtrBlocksCompressor,
    distinct: BtrBlocksCompressor,
}

impl Compressors {
    fn without(schemes: &[SchemeId]) -> Self {
        let all = BtrBlocksCompressorBuilder::from_session(&SESSION)
            .with_compact()
            .with_new_scheme(&ByteWords)
            .exclude_schemes([
                temporal::TemporalScheme.id(),
                integer::IntRLEScheme.id(),
                float::FloatRLEScheme.id(),
                // Frames of 8,192 values make reads of single rows slow; see `frames`.
                string::ZstdScheme.id(),
                binary::ZstdScheme.id(),
            ])
            .exclude_schemes(schemes.iter().copied());
        Self {
            distinct: all
                .clone()
                .exclude_schemes([
                    integer::IntDictScheme.id(),
                    integer::SparseScheme.id(),
                    float::FloatDictScheme.id(),
                    string::StringDictScheme.id(),
                    binary::BinaryDictScheme.id(),
                ])
                .build(),
            repetitive: all.build(),
        }
    }
}

static FAST: LazyLock<Compressors> = LazyLock::new(|| {
    Compressors::without(&[
        integer::IntDictScheme.id(),
        integer::PcoScheme.id(),
        integer::SparseScheme.id(),
        float::ALPRDScheme.id(),
        float::FloatDictScheme.id(),
        float::PcoScheme.id(),
        string::OnPairScheme.id(),
        ByteWords.id(),
    ])
});

static DEFAULT: LazyLock<Compressors> =
    LazyLock::new(|| Compressors::without(&[integer::PcoScheme.id(), float::PcoScheme.id()]));

static BEST: LazyLock<Compressors> = LazyLock::new(|| Compressors::without(&[]));

/// A context to execute arrays in.
pub(crate) fn context() -> ExecutionCtx {
    SESSION.create_execution_ctx()
}

/// How to compress one array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) effort: Effort,
    /// Many rows have equal values.
    pub(crate) repetitive: bool,
}

fn compressors(effort: Effort) -> &'static Compressors {
    match effort {
        Effort::Fast => &FAST,
        Effort::Default => &DEFAULT,
        Effort::Best => &BEST,
    }
}

/// Compresses an array and appends the result to a chunk.
pub(crate) fn compress(
    array: &ArrayRef,
    plan: Plan,
    chunk: &mut ChunkWriter<'_>,
) -> Result<(), ColumnarError> {
    let compressors = compressors(plan.effort);
    let compressor = match plan.repetitive {
        true => &compressors.repetitive,
        false => &compressors.distinct,
    };
    let mark = chunk.mark();
    let written = guarded(|| {
        let compressed = compressor.compress(array, &mut context())?;
        chunk.add(&compressed)
    });
    debug_assert!(written.is_ok(), "{written:?}");
    // A load must not fail because of data that some scheme cannot handle: it is stored plain.
    written
        .or_else(|_| {
            chunk.reset(mark);
            guarded(|| chunk.add(array))
        })
        .map_err(|error| ColumnarError::Encode {
            detail: error.to_string(),
        })
}

/// Appends arrays to the chunk of one column: their parts to the body, their nodes to a table.
pub(crate) struct ChunkWriter<'a> {
    body: &'a mut Vec<u8>,
    start: usize,
    nodes: NodeTable,
}

impl<'a> ChunkWriter<'a> {
    /// A chunk at the end of `body`.
    pub(crate) fn new(body: &'a mut Vec<u8>) -> Self {
        // Parts are aligned relative to the chunk, which is copied before it is decoded.
        let start = body.len();
        Self {
            body,
            start,
            nodes: NodeTable::default(),
        }
    }

    /// The chunk's range of the body, and its nodes.
    pub(crate) fn finish(self) -> (Range<u64>, NodeTable) {
        (self.start as u64..self.body.len() as u64, self.nodes)
    }

    /// Bytes of the chunk so far.
    pub(crate) fn len(&self) -> usize {
        self.body.len() - self.start
    }

    /// Writes frames, replacing what was written since `mark`.
    pub(crate) fn replace_by_frames(
        &mut self,
        mark: (usize, usize),
        frames: NewFrames,
        validity: Option<ArrayRef>,
        effort: Effort,
    ) -> Result<(), ColumnarError> {
        self.reset(mark);
        let written = guarded(|| {
            let mut metadata = Vec::new();
            put_varint(&mut metadata, frames.row_ends.len() as u64);
            let node = self.nodes.begin(Encoding::Frames, &metadata, None);
            self.add_part(&frames.dictionary, 1)?;
            self.add_part(&frames.data, 1)?;
            let plain = |values: Vec<u32>| {
                PrimitiveArray::new(Buffer::from(values), Validity::NonNullable).into_array()
            };
            let compressor = &compressors(effort).distinct;
            for values in [frames.row_ends, frames.data_ends, frames.lengths] {
                let compressed = compressor.compress(&plain(values), &mut context())?;
                self.add(&compressed)?;
            }
            let child_count = 3 + usize::from(validity.is_some());
            if let Some(validity) = validity {
                self.add(&validity)?;
            }
            self.nodes.end(node, child_count);
            Ok(())
        });
        written.map_err(|error| ColumnarError::Encode {
            detail: error.to_string(),
        })
    }

    /// Writes letters, replacing what was written since `mark`.
    pub(crate) fn replace_by_letters(
        &mut self,
        mark: (usize, usize),
        letters: &NewLetters,
        validity: Option<ArrayRef>,
    ) -> Result<(), ColumnarError> {
        self.reset(mark);
        let written = guarded(|| {
            let metadata = letters.alphabet.metadata();
            let node = self.nodes.begin(Encoding::Letters, &metadata, None);
            self.add_part(&letters.data, 1)?;
            if let Some(validity) = &validity {
                self.add(validity)?;
            }
            self.nodes.end(node, validity.iter().len());
            Ok(())
        });
        written.map_err(|error| ColumnarError::Encode {
            detail: error.to_string(),
        })
    }

    pub(crate) fn mark(&self) -> (usize, usize) {
        (self.body.len(), self.nodes.node_count())
    }

    fn reset(&mut self, (body_len, node_count): (usize, usize)) {
        self.body.truncate(body_len);
        self.nodes.truncate(node_count);
    }

    fn add(&mut self, array: &ArrayRef) -> VortexResult<()> {
        let Some(serialization) = SESSION.array_serialize(array)? else {
            vortex_bail!("{} cannot be serialized", array.encoding_id());
        };
        let id = serialization.serialized_id;
        let encoding = ENCODING_IDS
            .iter()
            .position(|known| *known == id)
            .map(|number| Encoding::ALL[number])
            .ok_or_else(|| vortex_err!("unexpected encoding {id}"))?;
        // A reader of the nodes needs single values at once.
        let inline = match serialization.buffers.as_slice() {
            [value] if encoding.has_value() && value.len() <= MAX_INLINE_BYTES => Some(value),
            _ => None,
        };
        let node = self.nodes.begin(
            encoding,
            &serialization.metadata,
            inline.map(ByteBuffer::as_slice),
        );
        let stored = match inline {
            Some(_) => &[],
            None => serialization.buffers.as_slice(),
        };
        for buffer in stored {
            let alignment = buffer.alignment().as_usize().min(CHUNK_ALIGNMENT);
            self.add_part(buffer.as_slice(), alignment)?;
        }
        for child in &serialization.children {
            self.add(child)?;
        }
        self.nodes.end(node, serialization.children.len());
        Ok(())
    }

    fn add_part(&mut self, bytes: &[u8], alignment: usize) -> VortexResult<()> {
        let start = (self.body.len() - self.start).next_multiple_of(alignment);
        let end = start + bytes.len();
        let (Ok(start), Ok(end)) = (u32::try_from(start), u32::try_from(end)) else {
            vortex_bail!("column chunk is larger than 4 GB");
        };
        self.body.resize(self.start + start as usize, 0);
        self.body.extend_from_slice(bytes);
        self.nodes.add_part(start..end, alignment);
        Ok(())
    }
}

/// Rebuilds the array that a tree of nodes describes, without decoding it. Its buffers are
/// slices of `bytes`, which start at `base` of the chunk.
pub(crate) fn rebuild(
    node: NodeRef<'_>,
    bytes: &ByteBuffer,
    base: u32,
    dtype: &DType,
    row_count: usize,
) -> Result<ArrayRef, ColumnarError> {
    let tree = Tree { node, bytes, base };
    tree.check_values()?;
    guarded(|| tree.array(dtype, row_count))
}

/// A tree of nodes over the bytes of its parts.
#[derive(Clone, Copy)]
struct Tree<'a> {
    node: NodeRef<'a>,
    bytes: &'a ByteBuffer,
    base: u32,
}

impl Tree<'_> {
    /// Checks single values that are too long to be inline, which were checked with the nodes.
    fn check_values(&self) -> Result<(), ColumnarError> {
        if self.node.encoding().has_value() {
            for part in self.node.parts() {
                let place = |at: u32| at.checked_sub(self.base).map(|at| at as usize);
                let range = place(part.start).zip(place(part.end));
                let value = range.and_then(|(start, end)| self.bytes.get(start..end));
                messages::check_value(
                    value.ok_or_else(|| {
                        ColumnarError::corrupt("a part lies outside of its bytes")
                    })?,
                )?;
            }
        }
        (self.node.children()).try_for_each(|node| Tree { node, ..*self }.check_values())
    }

    fn array(&self, dtype: &DType, row_count: usize) -> VortexResult<ArrayRef> {
        let id = ENCODING_IDS[self.node.encoding() as usize];
        let Some(plugin) = SESSION.arrays().registry().get(&id) else {
            vortex_bail!("{id} stands where it cannot");
        };
        let inline = self
            .node
            .inline()
            .map(|bytes| Ok(BufferHandle::new_host(ByteBuffer::copy_from(bytes))));
        let parts = self.node.parts().iter().zip(self.node.alignments());
        let stored = parts.map(|(part, alignment)| self.part(part, alignment));
        let buffers = inline
            .into_iter()
            .chain(stored)
            .collect::<VortexResult<Vec<_>>>()?;
        let array = plugin.deserialize(
            ArrayDeserialization::new(id, dtype, row_count, self.node.metadata(), &buffers, self),
            &SESSION,
        )?;
        vortex_ensure!(
            array.len() == row_count && array.dtype() == dtype,
            "{id} gives rows of another number or type"
        );
        ascending::check(&array)?;
        Ok(array)
    }

    fn part(&self, part: &Range<u32>, alignment: usize) -> VortexResult<BufferHandle> {
        let place = |at: u32| at.checked_sub(self.base).map(|at| at as usize);
        let (Some(start), Some(end)) = (place(part.start), place(part.end)) else {
            vortex_bail!("a part lies outside of its bytes");
        };
        vortex_ensure!(end <= self.bytes.len(), "a part lies outside of its bytes");
        let bytes = self.bytes.slice_unaligned(start..end);
        Ok(BufferHandle::new_host(
            bytes.ensure_aligned(Alignment::new(alignment)),
        ))
    }
}

impl ArrayChildren for Tree<'_> {
    fn get(&self, index: usize, dtype: &DType, len: usize) -> VortexResult<ArrayRef> {
        let Some(node) = self.node.child(index) else {
            vortex_bail!("a node lacks child {index}");
        };
        Tree { node, ..*self }.array(dtype, len)
    }

    fn len(&self) -> usize {
        self.node.child_count()
    }
}

/// Runs a decoder on bytes that passed their checksum but are still not trusted: its errors
/// and its panics become [`ColumnarError::Corrupt`].
pub(crate) fn guarded<T>(run: impl FnOnce() -> VortexResult<T>) -> Result<T, ColumnarError> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(ColumnarError::corrupt(brief(&error))),
        Err(payload) => {
            let detail = payload
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| payload.downcast_ref::<String>().cloned())
                .unwrap_or_default();
            Err(ColumnarError::corrupt(format!("decoder failed: {detail}")))
        }
    }
}

/// The first line of a Vortex error, without its backtrace.
fn brief(error: &VortexError) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().to_owned()
}
