//! Parts of jsonb values: `->`, `->>`, `#>` and `#>>`.
//!
//! ```text
//!   image ── a key, a subscript, a path ─▶ item ─┬─ lies in the image as the result needs it:
//!                                                │    a view of the same bytes
//!                                                └─ otherwise: bytes that are made
//! ```

use arrow_array::builder::make_view;
use arrow_array::types::{BinaryViewType, ByteViewType, StringViewType};
use arrow_array::{BinaryViewArray, GenericByteViewArray};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer};
use howdah_columnar::{Column, Value};

use super::image::{Container, DAMAGED, Item, push_scalar_image};
use super::number::Number;
use super::path::{self, Found};
use super::write::{self, MOST_LEVELS};
use crate::error::VectorError;
use crate::functions::kernel::{Operand, Values, mismatch, nulls_of, row_count, value};
use crate::stop::check_here;

/// The images of an operand.
pub(super) enum Images<'a> {
    Rows(&'a BinaryViewArray),
    Same(&'a [u8]),
}

impl<'a> Images<'a> {
    pub(super) fn of(operand: Operand<'a>) -> Result<Self, VectorError> {
        match operand {
            Operand::Rows(Column::Bytes(rows)) => Ok(Self::Rows(rows)),
            Operand::Same(Value::Bytes(image)) => Ok(Self::Same(image)),
            _ => Err(mismatch()),
        }
    }

    pub(super) fn get(&self, row: usize) -> &'a [u8] {
        match self {
            Self::Rows(rows) => rows.value(row),
            Self::Same(image) => image,
        }
    }
}

/// Results of a kernel: some of them parts of the images.
pub(super) struct Results<'a> {
    images: &'a Images<'a>,
    views: Vec<u128>,
    valid: BooleanBufferBuilder,
    made: Vec<u8>,
    /// The number of the buffer that what is made will be.
    made_buffer: u32,
}

/// The longest value that lies within its view.
const INLINE_BYTES: usize = 12;

impl<'a> Results<'a> {
    fn new(images: &'a Images<'a>, row_count: usize) -> Self {
        let buffers = match images {
            Images::Rows(rows) => rows.data_buffers().len(),
            Images::Same(_) => 0,
        };
        Self {
            images,
            views: Vec::with_capacity(row_count),
            valid: BooleanBufferBuilder::new(row_count),
            made: Vec::new(),
            made_buffer: buffers as u32,
        }
    }

    fn push_null(&mut self) {
        self.views.push(0);
        self.valid.append(false);
    }

    /// A part of the image of a row.
    fn push_part(&mut self, row: usize, part: &[u8]) -> Result<(), VectorError> {
        let view = match self.images {
            _ if part.len() <= INLINE_BYTES => make_view(part, 0, 0),
            Images::Rows(rows) if rows.views()[row] as u32 as usize > INLINE_BYTES => {
                let view = rows.views()[row];
                let (buffer, start) = ((view >> 64) as u32, (view >> 96) as u32);
                // Both point into the row's bytes.
                let from = part.as_ptr() as usize - rows.value(row).as_ptr() as usize;
                make_view(part, buffer, start + from as u32)
            }
            _ => {
                let start = self.made.len();
                self.made.extend_from_slice(part);
                return self.push_made(start);
            }
        };
        self.views.push(view);
        self.valid.append(true);
        Ok(())
    }

    /// What was appended to `made` from there on.
    fn push_made(&mut self, start: usize) -> Result<(), VectorError> {
        if self.made.len() > MOST_MADE_BYTES {
            return Err(TOO_LONG);
        }
        let value = self.made.get(start..).ok_or(DAMAGED)?;
        self.views
            .push(make_view(value, self.made_buffer, start as u32));
        self.valid.append(true);
        Ok(())
    }

    fn push_text(&mut self, row: usize, found: Found<'_>) -> Result<(), VectorError> {
        let start = self.made.len();
        match found {
            Found::Nothing | Found::Item(Item::Null) => {
                self.push_null();
                return Ok(());
            }
            Found::Item(Item::String(text)) => return self.push_part(row, text),
            Found::Item(Item::Bool(true)) => return self.push_part(row, b"true"),
            Found::Item(Item::Bool(false)) => return self.push_part(row, b"false"),
            Found::Item(Item::Number(number)) => Number::open(number)?.write(&mut self.made),
            Found::Item(Item::Container(image)) => {
                write::container(image, MOST_LEVELS, &mut self.made)?;
            }
            Found::Root => {
                write::container(self.images.get(row), MOST_LEVELS, &mut self.made)?;
            }
        }
        self.push_made(start)
    }

    fn push_image(&mut self, row: usize, found: Found<'_>) -> Result<(), VectorError> {
        match found {
            Found::Nothing => {
                self.push_null();
                Ok(())
            }
            Found::Root => self.push_part(row, self.images.get(row)),
            Found::Item(Item::Container(image)) => self.push_part(row, image),
            Found::Item(item) => {
                let start = self.made.len();
                push_scalar_image(item, &mut self.made).ok_or(TOO_LONG)?;
                self.push_made(start)
            }
        }
    }

    fn finish<T: ByteViewType>(mut self) -> Result<GenericByteViewArray<T>, VectorError> {
        let mut buffers: Vec<Buffer> = match self.images {
            Images::Rows(rows) => rows.data_buffers().to_vec(),
            Images::Same(_) => Vec::new(),
        };
        buffers.push(Buffer::from_vec(self.made));
        let nulls = NullBuffer::new(self.valid.finish());
        let nulls = (nulls.null_count() > 0).then_some(nulls);
        // Text that is not UTF-8 is found here.
        GenericByteViewArray::try_new(self.views.into(), buffers, nulls).map_err(|_| DAMAGED)
    }
}

const TOO_LONG: VectorError = VectorError::Unsupported {
    what: "jsonb values that are too long together",
};

/// Results of a step that take more bytes are left to PostgreSQL, which has one at a time: a number
/// of a few bytes may have 131,072 digits.
const MOST_MADE_BYTES: usize = 64 << 20;

/// What the results are.
pub(super) trait As {
    fn push(results: &mut Results<'_>, row: usize, found: Found<'_>) -> Result<(), VectorError>;
    fn finish(results: Results<'_>) -> Result<Column, VectorError>;
}

pub(super) struct AsText;
pub(super) struct AsImage;

impl As for AsText {
    fn push(results: &mut Results<'_>, row: usize, found: Found<'_>) -> Result<(), VectorError> {
        results.push_text(row, found)
    }

    fn finish(results: Results<'_>) -> Result<Column, VectorError> {
        results.finish::<StringViewType>().map(Column::Text)
    }
}

impl As for AsImage {
    fn push(results: &mut Results<'_>, row: usize, found: Found<'_>) -> Result<(), VectorError> {
        results.push_image(row, found)
    }

    fn finish(results: Results<'_>) -> Result<Column, VectorError> {
        results.finish::<BinaryViewType>().map(Column::Bytes)
    }
}

/// A result for each row where both arguments are.
fn each<'a, R: As>(
    left: Operand<'a>,
    right: Operand<'a>,
    mut find: impl FnMut(&'a [u8], usize) -> Result<Found<'a>, VectorError>,
) -> Result<Column, VectorError> {
    let images = Images::of(left)?;
    let nulls = nulls_of(left, right);
    let row_count = row_count(left, right);
    let mut results = Results::new(&images, row_count);
    for row in 0..row_count {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            results.push_null();
            continue;
        }
        check_here()?;
        let found = find(images.get(row), row)?;
        R::push(&mut results, row, found)?;
    }
    R::finish(results)
}

fn found(item: Option<Item<'_>>) -> Found<'_> {
    item.map_or(Found::Nothing, Found::Item)
}

/// `-> text`, `->> text`
pub(super) fn field<R: As>(left: Operand<'_>, right: Operand<'_>) -> Result<Column, VectorError> {
    let mut guess = 0;
    each::<R>(left, right, |image, row| match value(right, row) {
        Some(Value::Text(key)) => {
            let object = Container::open(image)?;
            object.value_of(key.as_bytes(), &mut guess).map(found)
        }
        _ => Err(mismatch()),
    })
}

/// `-> integer`, `->> integer`
pub(super) fn element<R: As>(left: Operand<'_>, right: Operand<'_>) -> Result<Column, VectorError> {
    let subscripts = Values::<i32>::of(right)?;
    each::<R>(left, right, |image, row| {
        path::element(&Container::open(image)?, subscripts.get(row)).map(found)
    })
}

/// `#>`, `#>>`
pub(super) fn path<R: As>(left: Operand<'_>, right: Operand<'_>) -> Result<Column, VectorError> {
    let paths = Images::of(right)?;
    let mut steps = match paths {
        Images::Same(image) => steps_of(image)?,
        Images::Rows(_) => None,
    };
    let mut guesses = Vec::new();
    each::<R>(left, right, |image, row| {
        if let Images::Rows(rows) = paths {
            steps = steps_of(rows.value(row))?;
        }
        let Some(steps) = &steps else {
            return Ok(Found::Nothing);
        };
        guesses.resize(steps.len(), 0);
        path::follow(image, steps, &mut guesses)
    })
}

/// The steps of a path; `None` if one of them is NULL.
fn steps_of(image: &[u8]) -> Result<Option<Vec<&[u8]>>, VectorError> {
    Ok(path::texts(image)?.into_iter().collect())
}
