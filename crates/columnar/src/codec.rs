//! The door to Vortex: the session, the arrays that may be written, compression,
//! (de)serialization, and the guard that turns a decoder's panic into an error.
//!
//! Nothing outside of this crate sees a Vortex type. Which encodings the format knows is
//! fixed here: [`ENCODINGS`] gives each its number in the footer, so that no name from
//! untrusted bytes is ever looked up. All of them belong to the frozen Vortex edition
//! `core2026.08.3`, which every later Vortex promises to read.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

use vortex_array::serde::{SerializeOptions, SerializedArray};
use vortex_array::session::ArraySessionExt;
use vortex_array::{ArrayContext, ArrayRef, ExecutionCtx, VortexSessionExecute, dtype::DType};
use vortex_btrblocks::schemes::{binary, float, integer, string, temporal};
use vortex_btrblocks::{
    BtrBlocksCompressor, BtrBlocksCompressorBuilder, CompressionSession, SchemeExt, SchemeId,
};
use vortex_buffer::ByteBuffer;
use vortex_edition::declarations::core::CORE_2026_08_3;
use vortex_edition::{EDITION_DECLARATIONS, EDITION_FAMILIES, EditionSessionExt};
use vortex_error::{VortexError, VortexResult};
use vortex_session::VortexSession;
use vortex_session::registry::{Id, ReadContext};

use crate::error::ColumnarError;
use crate::types::Effort;

/// The encodings of format version 1: the position is the number in the footer. Only ever
/// append; a number is never reused.
const ENCODINGS: [&str; 20] = [
    "vortex.primitive",
    "vortex.bool",
    "vortex.varbin",
    "vortex.varbinview",
    "vortex.constant",
    "vortex.dict",
    "vortex.chunked",
    "vortex.masked",
    "vortex.alp",
    "vortex.alprd",
    "vortex.fsst",
    "vortex.onpair",
    "vortex.pco",
    "vortex.runend",
    "vortex.sequence",
    "vortex.sparse",
    "vortex.zigzag",
    "vortex.zstd",
    "fastlanes.bitpacked",
    "fastlanes.for",
];

/// The alignment of a chunk's first byte, which the padding inside of it counts on.
pub(crate) const CHUNK_ALIGNMENT: usize = 64;

static ENCODING_IDS: LazyLock<Vec<Id>> =
    LazyLock::new(|| ENCODINGS.iter().map(|name| Id::new_static(name)).collect());

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
    vortex_zstd::initialize(&session);
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
        temporal::TemporalScheme.id(),
        integer::IntDictScheme.id(),
        integer::IntRLEScheme.id(),
        integer::PcoScheme.id(),
        integer::SparseScheme.id(),
        float::ALPRDScheme.id(),
        float::FloatDictScheme.id(),
        float::FloatRLEScheme.id(),
        float::PcoScheme.id(),
        string::OnPairScheme.id(),
        string::ZstdScheme.id(),
        binary::ZstdScheme.id(),
    ])
});

static DEFAULT: LazyLock<Compressors> = LazyLock::new(|| {
    Compressors::without(&[
        temporal::TemporalScheme.id(),
        integer::IntRLEScheme.id(),
        integer::PcoScheme.id(),
        float::FloatRLEScheme.id(),
        float::PcoScheme.id(),
        string::ZstdScheme.id(),
    ])
});

static BEST: LazyLock<Compressors> = LazyLock::new(|| {
    Compressors::without(&[
        temporal::TemporalScheme.id(),
        integer::IntRLEScheme.id(),
        float::FloatRLEScheme.id(),
    ])
});

/// A context to execute arrays in.
pub(crate) fn context() -> ExecutionCtx {
    SESSION.create_execution_ctx()
}

/// One serialized Vortex array.
#[derive(Debug)]
pub(crate) struct EncodedPart {
    pub(crate) bytes: Vec<u8>,
    /// Numbers of the encodings, in the order in which the bytes refer to them.
    pub(crate) encodings: Vec<u8>,
    /// The cascade, for people.
    pub(crate) cascade: String,
}

/// Compresses an array and serializes what came out, to be placed at an offset that is a
/// multiple of [`CHUNK_ALIGNMENT`]. `repetitive` says that many rows
/// are alike.
pub(crate) fn compress(
    array: &ArrayRef,
    effort: Effort,
    repetitive: bool,
) -> Result<EncodedPart, ColumnarError> {
    let compressors: &Compressors = match effort {
        Effort::Fast => &FAST,
        Effort::Default => &DEFAULT,
        Effort::Best => &BEST,
    };
    let compressor = match repetitive {
        true => &compressors.repetitive,
        false => &compressors.distinct,
    };
    guarded(|| serialize(&compressor.compress(array, &mut context())?)).map_err(|error| {
        ColumnarError::Encode {
            detail: error.to_string(),
        }
    })
}

fn serialize(array: &ArrayRef) -> VortexResult<EncodedPart> {
    let interner = ArrayContext::empty();
    let options = SerializeOptions {
        offset: 0,
        include_padding: true,
    };
    let buffers = array.serialize(&interner, &SESSION, &options)?;
    let mut bytes = Vec::with_capacity(buffers.iter().map(|b| b.len()).sum());
    for buffer in &buffers {
        bytes.extend_from_slice(buffer.as_slice());
    }
    let encodings = interner
        .to_ids()
        .iter()
        .map(|id| {
            number_of(id).ok_or_else(|| vortex_error::vortex_err!("unexpected encoding {id}"))
        })
        .collect::<VortexResult<Vec<u8>>>()?;
    Ok(EncodedPart {
        bytes,
        encodings,
        cascade: cascade_of(array),
    })
}

fn number_of(id: &Id) -> Option<u8> {
    let position = ENCODING_IDS.iter().position(|known| known == id)?;
    u8::try_from(position).ok()
}

/// Whether `number` is an encoding of this version of the format.
pub(crate) fn is_known_encoding(number: u8) -> bool {
    usize::from(number) < ENCODINGS.len()
}

/// The encoding tree as text, such as `dict(bitpacked, fsst)`; a plain leaf is left out.
fn cascade_of(array: &ArrayRef) -> String {
    let id = array.encoding_id();
    let name = id.as_str().trim_end_matches(".v2");
    let name = name.rsplit_once('.').map_or(name, |(_, name)| name);
    let children: Vec<String> = array
        .children_iter()
        .filter(|child| !child.dtype().is_boolean() || array.dtype().is_boolean())
        .map(cascade_of)
        .filter(|child| child != "primitive")
        .collect();
    if children.is_empty() {
        name.to_owned()
    } else {
        format!("{name}({})", children.join(", "))
    }
}

/// Rebuilds the array that [`compress`] serialized, without decoding it. Its buffers are
/// slices of `bytes`.
pub(crate) fn deserialize(
    bytes: ByteBuffer,
    encodings: &[u8],
    dtype: &DType,
    row_count: usize,
) -> Result<ArrayRef, ColumnarError> {
    let ids = encodings
        .iter()
        .map(|&number| ENCODING_IDS.get(usize::from(number)).copied())
        .collect::<Option<Vec<Id>>>()
        .ok_or_else(|| ColumnarError::corrupt("unknown encoding"))?;
    guarded(|| {
        SerializedArray::try_from(bytes)?.decode(dtype, row_count, &ReadContext::new(ids), &SESSION)
    })
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
