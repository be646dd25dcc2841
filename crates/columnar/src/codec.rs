//! The door to Vortex: the session, the arrays that may be written, compression,
//! (de)serialization, and the guard that turns a decoder's panic into an error.
//!
//! Nothing outside of this crate sees a Vortex type. Which encodings the format knows is
//! fixed here: [`ENCODINGS`] gives each its number in the footer, so that no name from
//! untrusted bytes is ever looked up. All of them belong to the frozen Vortex edition
//! `core2026.08.3`, which every later Vortex promises to read.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

use vortex_array::arrays::VarBinViewArray;
use vortex_array::serde::{SerializeOptions, SerializedArray};
use vortex_array::session::ArraySessionExt;
use vortex_array::{
    ArrayContext, ArrayRef, ExecutionCtx, IntoArray, VortexSessionExecute, dtype::DType,
};
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
use vortex_zstd::Zstd;

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
            .exclude_schemes([
                temporal::TemporalScheme.id(),
                integer::IntRLEScheme.id(),
                float::FloatRLEScheme.id(),
                // Its frames of 8,192 values make point reads slow; see `zstd`.
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
    ])
});

static DEFAULT: LazyLock<Compressors> =
    LazyLock::new(|| Compressors::without(&[integer::PcoScheme.id(), float::PcoScheme.id()]));

static BEST: LazyLock<Compressors> = LazyLock::new(|| Compressors::without(&[]));

/// Uncompressed bytes of a zstd frame, about: what a point read has to decompress.
const ZSTD_FRAME_BYTES: usize = 32 << 10;

/// Vortex numbers the buffers of an array with 16 bits, and each frame is one.
const MAX_ZSTD_FRAMES: usize = 30_000;

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

/// How to compress one array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) effort: Effort,
    /// Many rows are alike.
    pub(crate) repetitive: bool,
    /// Text or bytes may be compressed with zstd where that is much smaller, although one row
    /// then costs a frame.
    pub(crate) may_use_zstd: bool,
}

/// Compresses an array and serializes what came out, to be placed at an offset that is a
/// multiple of [`CHUNK_ALIGNMENT`].
pub(crate) fn compress(array: &ArrayRef, plan: Plan) -> Result<EncodedPart, ColumnarError> {
    let compressors: &Compressors = match plan.effort {
        Effort::Fast => &FAST,
        Effort::Default => &DEFAULT,
        Effort::Best => &BEST,
    };
    let compressor = match plan.repetitive {
        true => &compressors.repetitive,
        false => &compressors.distinct,
    };
    let compressed = guarded(|| {
        let compressed = compressor.compress(array, &mut context())?;
        let smaller = match plan.may_use_zstd {
            true => zstd(array, compressed.nbytes(), plan.effort)?,
            false => None,
        };
        serialize(&smaller.unwrap_or(compressed))
    });
    debug_assert!(compressed.is_ok(), "{compressed:?}");
    // Nobody should lose a load to data that some scheme cannot handle: store it plain.
    compressed
        .or_else(|_| guarded(|| serialize(array)))
        .map_err(|error| ColumnarError::Encode {
            detail: error.to_string(),
        })
}

/// The array in zstd frames, if that is much smaller than what other encodings need.
fn zstd(array: &ArrayRef, other_bytes: u64, effort: Effort) -> VortexResult<Option<ArrayRef>> {
    let ctx = &mut context();
    let rows = array.clone().execute::<VarBinViewArray>(ctx)?;
    let row_count = rows.len();
    let raw_bytes = rows.as_ref().nbytes() as usize;
    let values_per_frame = (ZSTD_FRAME_BYTES * row_count / raw_bytes.max(1))
        .max(row_count / MAX_ZSTD_FRAMES)
        .clamp(1, 8_192);
    let (level, gain_percent) = match effort {
        Effort::Best => (6, 10),
        _ => (3, 30),
    };
    let zstd = Zstd::from_var_bin_view_without_dict(&rows, level, values_per_frame, ctx)?;
    let zstd = zstd.into_array();
    let pays = zstd.nbytes() * 100 <= other_bytes * (100 - gain_percent);
    Ok(pays.then_some(zstd))
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
