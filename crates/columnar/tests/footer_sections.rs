//! A footer is read by the section: what is asked of a column reads that column's own sections, and
//! nothing else of the group but header and column table, once.

mod generate;

use std::cell::RefCell;
use std::ops::Range;

use generate::{ALL_SHAPES, NULLS, Random, TYPES, column, row_group};
use howdah_columnar::{ByteSource, ColumnarError, Effort, Footer, GroupLayout};

const HEADER_BYTES: usize = 32;
const ENTRY_BYTES: usize = 32;

/// A stored row group, and what was read of it.
struct Recorded<'a> {
    bytes: &'a [u8],
    read: RefCell<Vec<Range<usize>>>,
}

impl ByteSource for Recorded<'_> {
    type Error = ColumnarError;

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), ColumnarError> {
        let start = offset as usize;
        self.read.borrow_mut().push(start..start + into.len());
        self.bytes.read(offset, into)
    }
}

impl Recorded<'_> {
    /// The bytes that were read since the last call: all, and as often as they were read.
    fn read_bytes(&self) -> Vec<usize> {
        let mut bytes: Vec<usize> = self.read.take().into_iter().flatten().collect();
        bytes.sort_unstable();
        bytes
    }
}

/// A column's statistics and its nodes, as docs/format.md says.
fn sections(bytes: &[u8], column: usize) -> (Range<usize>, Range<usize>) {
    let number = |at: usize| {
        let at = HEADER_BYTES + column * ENTRY_BYTES + at;
        u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes")) as usize
    };
    let (start, middle) = (number(20), number(20) + number(24));
    (start..middle, middle..middle + number(28))
}

#[test]
fn what_is_asked_of_a_column_reads_its_own_sections_and_nothing_else() {
    let random = &mut Random(17);
    let mut columns = Vec::new();
    for ty in TYPES {
        for shape in ALL_SHAPES {
            for nulls in NULLS {
                columns.push((ty, column(ty, shape, nulls, 9_000, random)));
            }
        }
    }
    let encoded = row_group(&columns).encode(Effort::Fast).expect("encodes");
    let bytes = [encoded.footer, encoded.body].concat();
    let whole = Footer::parse(&bytes).expect("reads");
    let source = Recorded {
        bytes: &bytes,
        read: RefCell::default(),
    };
    let layout = GroupLayout::read(&source).expect("reads");
    let table_end = HEADER_BYTES + columns.len() * ENTRY_BYTES;
    assert!(source.read_bytes().into_iter().eq(0..table_end));
    for at in 0..columns.len() {
        let (statistics, nodes) = sections(&bytes, at);
        let meta = layout.column(at, &source).expect("reads");
        let expected = whole.column(at);
        assert_eq!(format!("{meta:?}"), format!("{expected:?}"), "column {at}");
        let read = source.read_bytes().into_iter();
        assert!(read.eq(statistics.start..nodes.end), "column {at}");
        layout.statistics(at, &source).expect("reads");
        let read = source.read_bytes().into_iter();
        assert!(read.eq(statistics), "statistics of column {at}");
        layout.row_access(at, &source).expect("plans");
        let read = source.read_bytes().into_iter();
        assert!(read.eq(nodes), "nodes of column {at}");
    }
}
