//! The fields that the metadata of Vortex's encodings have in the edition that the format names.
//!
//! Decoders of protobuf messages skip fields that they do not know, and take types that they do
//! not know for the first one: what a newer version wrote would be misread without an error. So
//! the messages of every node are compared with this list when the node is parsed, once for each
//! column that is opened; all other readers of metadata rely on it.

use super::metadata::{Field, each_field, wrong};
use crate::error::ColumnarError;
use crate::nodes::Encoding;

/// What a field holds.
enum Kind {
    Number,
    /// The number of a native type.
    Type,
    /// Numbers, in one field or each in its own.
    Numbers,
    /// A number of 4 or 8 bytes.
    Fixed,
    Bytes,
    Message(Message),
}

/// The fields of a message, by number.
type Message = &'static [(u64, Kind)];

/// The greatest number of a native type: a float of 8 bytes.
const LAST_TYPE: u64 = 10;

static NONE: Message = &[];

static BOOL: Message = &[(1, Kind::Number)];

static VARBIN: Message = &[(1, Kind::Type)];

/// A value. Lists, unions, variants and floats of 2 bytes are of no type of ours.
static SCALAR: Message = &[
    (1, Kind::Number),
    (2, Kind::Number),
    (3, Kind::Number),
    (4, Kind::Number),
    (5, Kind::Fixed),
    (6, Kind::Fixed),
    (7, Kind::Bytes),
    (8, Kind::Bytes),
];

static PATCHES: Message = &[
    (1, Kind::Number),
    (2, Kind::Number),
    (3, Kind::Type),
    (4, Kind::Number),
    (5, Kind::Type),
    (6, Kind::Number),
];

static DICT: Message = &[
    (1, Kind::Number),
    (2, Kind::Type),
    (3, Kind::Number),
    (4, Kind::Number),
];

/// Of `alp` and `bitpacked`.
static NUMBERS_WITH_PATCHES: Message = &[
    (1, Kind::Number),
    (2, Kind::Number),
    (3, Kind::Message(PATCHES)),
];

static ALP_RD: Message = &[
    (1, Kind::Number),
    (2, Kind::Number),
    (3, Kind::Numbers),
    (4, Kind::Type),
    (5, Kind::Message(PATCHES)),
];

static FSST: Message = &[(1, Kind::Type), (2, Kind::Type)];

static ON_PAIR: Message = &[
    (1, Kind::Type),
    (3, Kind::Number),
    (4, Kind::Number),
    (5, Kind::Type),
    (6, Kind::Type),
    (7, Kind::Type),
];

static PCO_PAGE: Message = &[(1, Kind::Number)];

static PCO_CHUNK: Message = &[(1, Kind::Message(PCO_PAGE))];

static PCO: Message = &[(1, Kind::Bytes), (2, Kind::Message(PCO_CHUNK))];

static RUNS: Message = &[(1, Kind::Type), (2, Kind::Number), (3, Kind::Number)];

static SEQUENCE: Message = &[(1, Kind::Message(SCALAR)), (2, Kind::Message(SCALAR))];

static SPARSE: Message = &[(1, Kind::Message(PATCHES))];

/// Checks the metadata of a node.
///
/// # Errors
///
/// [`ColumnarError::Newer`] for a field or a type that is not known, else
/// [`ColumnarError::Corrupt`].
pub(crate) fn check(encoding: Encoding, metadata: &[u8]) -> Result<(), ColumnarError> {
    let message = match encoding {
        Encoding::Primitive
        | Encoding::VarBinView
        | Encoding::Constant
        | Encoding::Chunked
        | Encoding::Masked
        | Encoding::ZigZag => NONE,
        Encoding::Bool => BOOL,
        Encoding::VarBin => VARBIN,
        Encoding::Dict => DICT,
        Encoding::Alp | Encoding::BitPacked => NUMBERS_WITH_PATCHES,
        Encoding::AlpRd => ALP_RD,
        Encoding::Fsst => FSST,
        Encoding::OnPair => ON_PAIR,
        Encoding::Pco => PCO,
        Encoding::RunEnd => RUNS,
        Encoding::Sequence => SEQUENCE,
        Encoding::Sparse => SPARSE,
        Encoding::FrameOfReference => SCALAR,
        // Ours, which are no messages: their readers accept no byte that they do not know.
        Encoding::Frames | Encoding::Letters => return Ok(()),
    };
    check_fields(message, metadata)
}

/// Checks the single value that a node has as its part.
///
/// # Errors
///
/// As [`check`].
pub(crate) fn check_value(value: &[u8]) -> Result<(), ColumnarError> {
    check_fields(SCALAR, value)
}

fn check_fields(message: Message, bytes: &[u8]) -> Result<(), ColumnarError> {
    each_field(bytes, |number, field| {
        let Some((_, kind)) = message.iter().find(|(known, _)| *known == number) else {
            return match number {
                0 => Err(wrong()),
                number => Err(ColumnarError::newer("a field of metadata", number)),
            };
        };
        match (kind, field) {
            (Kind::Type, Field::Varint(ty)) if ty > LAST_TYPE => {
                Err(ColumnarError::newer("a type in metadata", ty))
            }
            (Kind::Message(message), Field::Bytes(bytes)) => check_fields(message, bytes),
            (Kind::Number | Kind::Type | Kind::Numbers, Field::Varint(_))
            | (Kind::Fixed, Field::Fixed(_))
            | (Kind::Bytes | Kind::Numbers, Field::Bytes(_)) => Ok(()),
            _ => Err(wrong()),
        }
    })
}
