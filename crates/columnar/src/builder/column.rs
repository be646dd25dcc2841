//! One column under construction: a typed vector of values and a validity bitmap.

use super::numeric::NumericBuilder;
use super::validity::ValidityBuilder;
use crate::types::ColumnType;
use crate::value::{Numeric, Value};

/// Rows of a fixed-width type; a null holds the type's zero.
#[derive(Clone, Debug, Default)]
pub struct ScalarBuilder<T> {
    pub(crate) values: Vec<T>,
    pub(crate) validity: ValidityBuilder,
}

impl<T: Copy + Default> ScalarBuilder<T> {
    #[inline]
    fn push(&mut self, value: T) {
        self.values.push(value);
        self.validity.push_valid();
    }

    fn extend(&mut self, values: impl ExactSizeIterator<Item = T>) {
        let count = values.len();
        self.values.extend(values);
        self.validity.push_all_valid(count);
    }

    #[inline]
    fn push_null(&mut self) {
        self.values.push(T::default());
        self.validity.push_null();
    }

    #[inline]
    pub(crate) fn value(&self, row: usize) -> Option<T> {
        self.validity.is_valid(row).then(|| self.values[row])
    }

    fn heap_bytes(&self) -> usize {
        self.values.len() * size_of::<T>() + self.validity.heap_bytes()
    }

    fn clear(&mut self) {
        self.values.clear();
        self.validity.clear();
    }
}

/// Rows of a variable-width type, end to end; a null is empty.
#[derive(Clone, Debug, Default)]
pub struct BytesBuilder {
    pub(crate) data: Vec<u8>,
    /// End of each row within `data`.
    pub(crate) ends: Vec<usize>,
    pub(crate) validity: ValidityBuilder,
}

impl BytesBuilder {
    #[inline]
    fn push(&mut self, value: &[u8]) {
        self.data.extend_from_slice(value);
        self.ends.push(self.data.len());
        self.validity.push_valid();
    }

    #[inline]
    fn push_null(&mut self) {
        self.ends.push(self.data.len());
        self.validity.push_null();
    }

    #[inline]
    pub(crate) fn value(&self, row: usize) -> Option<&[u8]> {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        self.validity
            .is_valid(row)
            .then(|| &self.data[start..self.ends[row]])
    }

    fn heap_bytes(&self) -> usize {
        self.data.len() + self.ends.len() * size_of::<usize>() + self.validity.heap_bytes()
    }

    fn clear(&mut self) {
        self.data.clear();
        self.ends.clear();
        self.validity.clear();
    }
}

/// One column of a [`crate::RowGroupBuilder`].
///
/// Each `push_*` adds one row, each `extend_*` a row for each value, none of them null.
///
/// # Panics
///
/// Every `push_*` and `extend_*` but [`push_null`](Self::push_null) panics when the column is of another type;
/// [`push_bytes`](Self::push_bytes) also when a value of a `Fixed` column has another length than
/// the column's. The caller chose the types, so this is a bug of the caller.
#[derive(Clone, Debug)]
pub enum ColumnBuilder {
    /// Rows of [`ColumnType::Bool`].
    Bool(ScalarBuilder<bool>),
    /// Rows of [`ColumnType::Int16`].
    Int16(ScalarBuilder<i16>),
    /// Rows of [`ColumnType::Int32`].
    Int32(ScalarBuilder<i32>),
    /// Rows of [`ColumnType::Int64`].
    Int64(ScalarBuilder<i64>),
    /// Rows of [`ColumnType::Float32`].
    Float32(ScalarBuilder<f32>),
    /// Rows of [`ColumnType::Float64`].
    Float64(ScalarBuilder<f64>),
    /// Rows of [`ColumnType::Numeric`].
    Numeric(NumericBuilder),
    /// Rows of [`ColumnType::Text`].
    Text(BytesBuilder),
    /// Rows of [`ColumnType::Bytes`].
    Bytes(BytesBuilder),
    /// Rows of [`ColumnType::Fixed`].
    Fixed(u16, BytesBuilder),
}

macro_rules! each_builder {
    ($self:expr, $builder:ident => $body:expr) => {
        match $self {
            ColumnBuilder::Bool($builder) => $body,
            ColumnBuilder::Int16($builder) => $body,
            ColumnBuilder::Int32($builder) => $body,
            ColumnBuilder::Int64($builder) => $body,
            ColumnBuilder::Float32($builder) => $body,
            ColumnBuilder::Float64($builder) => $body,
            ColumnBuilder::Numeric($builder) => $body,
            ColumnBuilder::Text($builder) => $body,
            ColumnBuilder::Bytes($builder) => $body,
            ColumnBuilder::Fixed(_, $builder) => $body,
        }
    };
}

macro_rules! push_scalar {
    ($(#[doc = $doc:literal] $name:ident($ty:ty) => $variant:ident;)*) => {$(
        #[doc = $doc]
        #[inline]
        pub fn $name(&mut self, value: $ty) {
            match self {
                Self::$variant(builder) => builder.push(value),
                other => other.wrong_type(stringify!($name)),
            }
        }
    )*};
}

macro_rules! extend_scalar {
    ($(#[doc = $doc:literal] $name:ident($ty:ty) => $variant:ident;)*) => {$(
        #[doc = $doc]
        #[inline]
        pub fn $name(&mut self, values: impl ExactSizeIterator<Item = $ty>) {
            match self {
                Self::$variant(builder) => builder.extend(values),
                other => other.wrong_type(stringify!($name)),
            }
        }
    )*};
}

impl ColumnBuilder {
    pub(crate) fn new(ty: ColumnType) -> Self {
        match ty {
            ColumnType::Bool => Self::Bool(ScalarBuilder::default()),
            ColumnType::Int16 => Self::Int16(ScalarBuilder::default()),
            ColumnType::Int32 => Self::Int32(ScalarBuilder::default()),
            ColumnType::Int64 => Self::Int64(ScalarBuilder::default()),
            ColumnType::Float32 => Self::Float32(ScalarBuilder::default()),
            ColumnType::Float64 => Self::Float64(ScalarBuilder::default()),
            ColumnType::Numeric => Self::Numeric(NumericBuilder::default()),
            ColumnType::Text => Self::Text(BytesBuilder::default()),
            ColumnType::Bytes => Self::Bytes(BytesBuilder::default()),
            ColumnType::Fixed { len } => Self::Fixed(len, BytesBuilder::default()),
        }
    }

    push_scalar! {
        /// Adds a boolean.
        push_bool(bool) => Bool;
        /// Adds a 16-bit integer.
        push_i16(i16) => Int16;
        /// Adds a 32-bit integer.
        push_i32(i32) => Int32;
        /// Adds a 64-bit integer.
        push_i64(i64) => Int64;
        /// Adds a 32-bit float.
        push_f32(f32) => Float32;
        /// Adds a 64-bit float.
        push_f64(f64) => Float64;
        /// Adds a decimal.
        push_numeric(Numeric<'_>) => Numeric;
    }

    extend_scalar! {
        /// Adds booleans.
        extend_bool(bool) => Bool;
        /// Adds 16-bit integers.
        extend_i16(i16) => Int16;
        /// Adds 32-bit integers.
        extend_i32(i32) => Int32;
        /// Adds 64-bit integers.
        extend_i64(i64) => Int64;
        /// Adds 32-bit floats.
        extend_f32(f32) => Float32;
        /// Adds 64-bit floats.
        extend_f64(f64) => Float64;
    }

    /// Adds a text.
    #[inline]
    pub fn push_text(&mut self, value: &str) {
        match self {
            Self::Text(builder) => builder.push(value.as_bytes()),
            other => other.wrong_type("push_text"),
        }
    }

    /// Adds bytes to a `Bytes` or `Fixed` column.
    #[inline]
    pub fn push_bytes(&mut self, value: &[u8]) {
        match self {
            Self::Bytes(builder) => builder.push(value),
            Self::Fixed(len, builder) => {
                assert_eq!(value.len(), usize::from(*len), "length of a fixed value");
                builder.push(value);
            }
            other => other.wrong_type("push_bytes"),
        }
    }

    /// Adds a null.
    #[inline]
    pub fn push_null(&mut self) {
        each_builder!(self, builder => builder.push_null());
    }

    /// Adds a value, or a null for `None`.
    #[inline]
    pub fn push(&mut self, value: Option<Value<'_>>) {
        match value {
            None => self.push_null(),
            Some(Value::Bool(v)) => self.push_bool(v),
            Some(Value::Int16(v)) => self.push_i16(v),
            Some(Value::Int32(v)) => self.push_i32(v),
            Some(Value::Int64(v)) => self.push_i64(v),
            Some(Value::Float32(v)) => self.push_f32(v),
            Some(Value::Float64(v)) => self.push_f64(v),
            Some(Value::Numeric(v)) => self.push_numeric(v),
            Some(Value::Text(v)) => self.push_text(v),
            Some(Value::Bytes(v)) => self.push_bytes(v),
        }
    }

    /// The type of the column.
    pub fn column_type(&self) -> ColumnType {
        match self {
            Self::Bool(_) => ColumnType::Bool,
            Self::Int16(_) => ColumnType::Int16,
            Self::Int32(_) => ColumnType::Int32,
            Self::Int64(_) => ColumnType::Int64,
            Self::Float32(_) => ColumnType::Float32,
            Self::Float64(_) => ColumnType::Float64,
            Self::Numeric(_) => ColumnType::Numeric,
            Self::Text(_) => ColumnType::Text,
            Self::Bytes(_) => ColumnType::Bytes,
            Self::Fixed(len, _) => ColumnType::Fixed { len: *len },
        }
    }

    /// The value of one row; `None` is NULL.
    pub(crate) fn value(&self, row: usize) -> Option<Value<'_>> {
        match self {
            Self::Bool(b) => b.value(row).map(Value::Bool),
            Self::Int16(b) => b.value(row).map(Value::Int16),
            Self::Int32(b) => b.value(row).map(Value::Int32),
            Self::Int64(b) => b.value(row).map(Value::Int64),
            Self::Float32(b) => b.value(row).map(Value::Float32),
            Self::Float64(b) => b.value(row).map(Value::Float64),
            Self::Numeric(b) => b.value(row).map(Value::Numeric),
            Self::Text(b) => b.value(row).map(|bytes| Value::Text(text_of(bytes))),
            Self::Bytes(b) | Self::Fixed(_, b) => b.value(row).map(Value::Bytes),
        }
    }

    pub(crate) fn validity(&self) -> &ValidityBuilder {
        each_builder!(self, builder => &builder.validity)
    }

    /// Rows pushed so far.
    pub fn len(&self) -> usize {
        self.validity().len()
    }

    /// Whether no row was pushed yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        each_builder!(self, builder => builder.heap_bytes())
    }

    pub(crate) fn clear(&mut self) {
        each_builder!(self, builder => builder.clear());
    }

    #[cold]
    #[inline(never)]
    fn wrong_type(&self, push: &str) -> ! {
        panic!("{push} on a column of type {:?}", self.column_type());
    }
}

/// The text in a range of a text builder's bytes, which only ever got whole texts.
fn text_of(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("a text column was given valid UTF-8")
}
