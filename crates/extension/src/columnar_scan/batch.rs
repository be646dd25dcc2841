//! Fills a batch: consecutive returned rows of one row group as datums, column by column.
//!
//! Values that are not passed by value lie in an arena of the column, which is emptied with the
//! next batch; nothing is allocated per row, and PostgreSQL is not called. Rows whose decoded views
//! are equal (as a dictionary makes them) may share one place in the arena: a scan's datums are
//! read-only.

use arrow_array::GenericByteViewArray;
use arrow_array::types::ByteViewType;
use howdah_bridge::Datum;
use howdah_bridge::scan;
use howdah_bridge::tid::RowNumber;
use howdah_columnar::{Column, Numeric, Value, ZONE_ROWS};

use crate::types::arena::Arena;
use crate::types::{AttributeLayout, datum_in, numeric};

/// The most rows in a batch.
pub const BATCH_ROWS: usize = ZONE_ROWS;

/// Rows of something decoded, ascending.
#[derive(Clone, Copy, Debug)]
pub enum Rows<'a> {
    Range(usize, usize),
    List(&'a [u32]),
}

impl Rows<'_> {
    fn len(&self) -> usize {
        match self {
            Rows::Range(start, end) => end - start,
            Rows::List(rows) => rows.len(),
        }
    }

    fn each(&self, mut visit: impl FnMut(usize)) {
        match self {
            Rows::Range(start, end) => (*start..*end).for_each(visit),
            Rows::List(rows) => rows.iter().for_each(|&row| visit(row as usize)),
        }
    }
}

/// The places of a batch's long values, by their views; a small direct-mapped cache.
struct Places([(u128, *const u8); Places::COUNT]);

impl Places {
    const COUNT: usize = 1 << Places::BITS;
    /// More than the words of most dictionaries, and still in the nearest cache.
    const BITS: u32 = 10;

    fn new() -> Places {
        // No view of a long value is 0: it begins with the length.
        Places([(0, std::ptr::null()); Places::COUNT])
    }

    fn of(&mut self, view: u128, place: impl FnOnce() -> *const u8) -> *const u8 {
        const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
        let hash = (view as u64 ^ (view >> 64) as u64).wrapping_mul(SPREAD);
        let known = &mut self.0[(hash >> (u64::BITS - Places::BITS)) as usize % Places::COUNT];
        if known.0 != view {
            *known = (view, place());
        }
        known.1
    }
}

/// The longest value that lies in its view.
const INLINE_BYTES: u32 = 12;

/// One column of a batch while it is filled.
struct Filling<'b> {
    values: &'b mut Vec<Datum>,
    nulls: &'b mut Vec<bool>,
    arena: &'b mut Arena,
}

impl Filling<'_> {
    /// Fills the column with rows of a decoded one.
    fn fill(&mut self, column: &Column, rows: Rows<'_>, attribute: &AttributeLayout) {
        self.fill_nulls(column, rows);
        match column {
            Column::Int16(a) if attribute.len == 1 => {
                self.scalars(a.values(), rows, |v| Datum::from(v as i8));
            }
            Column::Int16(a) => self.scalars(a.values(), rows, Datum::from),
            Column::Int32(a) => self.scalars(a.values(), rows, Datum::from),
            Column::Int64(a) => self.scalars(a.values(), rows, Datum::from),
            Column::Float32(a) => {
                self.scalars(a.values(), rows, |v| Datum::from(v.to_bits() as i32));
            }
            Column::Float64(a) => {
                self.scalars(a.values(), rows, |v| Datum::from(v.to_bits()));
            }
            Column::Bool(a) => {
                let values = &mut *self.values;
                rows.each(|row| values.push(Datum::from(a.value(row))));
            }
            Column::Text(a) if attribute.len == -1 => self.varlenas(a, rows),
            Column::Bytes(a) if attribute.len == -1 => self.varlenas(a, rows),
            Column::Text(a) => self.bytes(rows, attribute, |row| a.value(row).as_bytes()),
            Column::Bytes(a) => self.bytes(rows, attribute, |row| a.value(row)),
            Column::Fixed(a) => self.bytes(rows, attribute, |row| a.value(row)),
            Column::Numeric(a) => {
                if let Some((digits, scale)) = a.as_narrow() {
                    return self.decimals(digits, scale, rows);
                }
                let (values, arena) = (&mut *self.values, &mut *self.arena);
                rows.each(|row| {
                    let at = match column.value(row) {
                        Some(Value::Numeric(value)) => {
                            numeric::with_image(value, |image| arena.varlena(image))
                        }
                        _ => std::ptr::null(),
                    };
                    values.push(Datum::from(at));
                });
            }
        }
    }

    fn fill_nulls(&mut self, column: &Column, rows: Rows<'_>) {
        match column.nulls() {
            None => self.nulls.resize(rows.len(), false),
            Some(valid) => match rows {
                Rows::Range(start, end) => {
                    let valid = valid.inner().slice(start, end - start);
                    self.nulls.extend(valid.iter().map(|valid| !valid));
                }
                Rows::List(rows) => {
                    let is_null = |&row: &u32| valid.is_null(row as usize);
                    self.nulls.extend(rows.iter().map(is_null));
                }
            },
        }
    }

    fn scalars<T: Copy>(&mut self, values: &[T], rows: Rows<'_>, datum: impl Fn(T) -> Datum) {
        match rows {
            Rows::Range(start, end) => {
                self.values
                    .extend(values[start..end].iter().map(|&v| datum(v)));
            }
            Rows::List(rows) => {
                self.values
                    .extend(rows.iter().map(|&row| datum(values[row as usize])));
            }
        }
    }

    fn bytes<'a>(
        &mut self,
        rows: Rows<'_>,
        attribute: &AttributeLayout,
        get: impl Fn(usize) -> &'a [u8],
    ) {
        let (values, nulls, arena) = (&mut *self.values, &*self.nulls, &mut *self.arena);
        rows.each(|row| {
            let at = match nulls[values.len()] {
                true => std::ptr::null(),
                false => arena.value(get(row), attribute.len),
            };
            values.push(Datum::from(at));
        });
    }

    /// Decimals of one scale.
    fn decimals(&mut self, digits: &[i64], scale: u16, rows: Rows<'_>) {
        let (values, nulls, arena) = (&mut *self.values, &*self.nulls, &mut *self.arena);
        rows.each(|row| {
            let at = match (nulls[values.len()], numeric::view_of(digits[row], scale)) {
                (true, _) => std::ptr::null(),
                (false, Some(view)) => arena.inline_varlena(view),
                (false, None) => {
                    let unscaled = digits[row].into();
                    let value = Numeric::Small { unscaled, scale };
                    numeric::with_image(value, |image| arena.varlena(image))
                }
            };
            values.push(Datum::from(at));
        });
    }

    fn varlenas<T: ByteViewType>(&mut self, column: &GenericByteViewArray<T>, rows: Rows<'_>) {
        let views = column.views();
        let mut places = Places::new();
        let (values, nulls, arena) = (&mut *self.values, &*self.nulls, &mut *self.arena);
        rows.each(|row| {
            let view = views[row];
            let at = match nulls[values.len()] {
                true => std::ptr::null(),
                false if view as u32 <= INLINE_BYTES => arena.inline_varlena(view),
                false => places.of(view, || arena.varlena(column.value(row).as_ref())),
            };
            values.push(Datum::from(at));
        });
    }

    /// Appends one value.
    fn push(&mut self, value: Option<Value<'_>>, attribute: &AttributeLayout) {
        self.nulls.push(value.is_none());
        self.values.push(match value {
            None => Datum::from(0),
            Some(value) => datum_in(self.arena, value, attribute),
        });
    }
}

/// The batch of a node, with the memory of its values.
pub struct Batch<'b> {
    rows: &'b mut scan::Batch,
    /// One per attribute.
    arenas: &'b mut [Arena],
}

impl<'b> Batch<'b> {
    pub fn of(rows: &'b mut scan::Batch, arenas: &'b mut [Arena]) -> Batch<'b> {
        Batch { rows, arenas }
    }

    /// Starts a batch of the rows at `positions` of the group that begins with `first_row`.
    pub fn start(&mut self, first_row: RowNumber, positions: Rows<'_>, recheck: bool) {
        match positions {
            Rows::Range(start, end) => {
                let first_row = RowNumber(first_row.0 + start as u64);
                self.rows.start_consecutive(first_row, end - start, recheck);
            }
            Rows::List(rows) => self.rows.start_scattered(first_row, rows, recheck),
        }
    }

    /// The column of an attribute, emptied.
    fn column(&mut self, i: usize) -> Filling<'_> {
        let (column, arena) = (self.rows.column_mut(i), &mut self.arenas[i]);
        column.clear();
        arena.clear();
        Filling {
            values: &mut column.values,
            nulls: &mut column.nulls,
            arena,
        }
    }

    /// Fills a column with rows of a decoded one.
    pub fn fill(&mut self, i: usize, column: &Column, rows: Rows<'_>, attribute: &AttributeLayout) {
        self.column(i).fill(column, rows, attribute);
    }

    /// Fills a column with the values that `each` passes, one for each row.
    pub fn fill_by<E>(
        &mut self,
        i: usize,
        attribute: &AttributeLayout,
        each: impl FnOnce(&mut dyn FnMut(Option<Value<'_>>)) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut column = self.column(i);
        each(&mut |value| column.push(value, attribute))
    }

    /// Fills a column with one value for all rows; `None` is NULL.
    pub fn repeat(&mut self, i: usize, value: Option<Datum>) {
        let row_count = self.rows.row_count();
        let column = self.column(i);
        (column.values).resize(row_count, value.unwrap_or(Datum::from(0)));
        column.nulls.resize(row_count, value.is_none());
    }
}
