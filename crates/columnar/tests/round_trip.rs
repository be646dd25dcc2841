//! What goes into a row group comes out of it again, whichever way it is read.

use howdah_columnar::{
    Chunk, ChunkBuffer, ColumnType, Effort, Footer, Numeric, RowGroupBuilder, Value,
};

const TYPES: [ColumnType; 11] = [
    ColumnType::Bool,
    ColumnType::Int16,
    ColumnType::Int32,
    ColumnType::Int64,
    ColumnType::Float32,
    ColumnType::Float64,
    ColumnType::Numeric,
    ColumnType::Text,
    ColumnType::Bytes,
    ColumnType::Fixed { len: 16 },
    ColumnType::Int64,
];

fn sample(rows: usize) -> RowGroupBuilder {
    let mut builder = RowGroupBuilder::new(&TYPES);
    for row in 0..rows as i64 {
        let null = row % 11 == 3;
        let text = format!("row {} of many {}", row % 100, row);
        let fixed = (row as u128 * 77_777).to_le_bytes();
        let unscaled = i128::from(row * 100);
        let values = [
            Value::Bool(row % 3 == 0),
            Value::Int16((row % 1_000) as i16),
            Value::Int32(row as i32 * 3),
            Value::Int64(row * 1_000_000 + 1_700_000_000_000_000),
            Value::Float32(row as f32 * 0.5),
            Value::Float64(row as f64 / 100.0),
            Value::Numeric(Numeric::Small { unscaled, scale: 2 }),
            Value::Text(&text),
            Value::Bytes(text.as_bytes()),
            Value::Bytes(&fixed),
        ];
        for (column, value) in values.into_iter().enumerate() {
            builder.column_mut(column).push((!null).then_some(value));
        }
        builder.column_mut(10).push_null();
        builder.finish_row();
    }
    builder
}

fn open(footer: &Footer, body: &[u8], column: usize) -> Chunk {
    let meta = footer.column(column);
    let range = meta.byte_range.start as usize..meta.byte_range.end as usize;
    Chunk::open(meta, footer.row_count(), ChunkBuffer::from(&body[range])).expect("chunk opens")
}

#[test]
fn every_way_to_read_agrees_with_what_was_written() {
    for rows in [1, 100, 20_000] {
        let builder = sample(rows);
        for effort in [Effort::Fast, Effort::Default, Effort::Best] {
            let encoded = builder.encode(effort).expect("encodes");
            let footer = Footer::parse(&encoded.footer).expect("footer parses");
            assert_eq!(footer.row_count(), rows);
            for column in 0..TYPES.len() {
                let chunk = open(&footer, &encoded.body, column);
                if rows == 20_000 {
                    let range = &footer.column(column).byte_range;
                    println!(
                        "{effort:?} {:?}: {} ({} bytes)",
                        TYPES[column],
                        footer.column(column).encoding,
                        range.end - range.start
                    );
                }
                let whole = chunk.decode().expect("decodes");
                assert_eq!(whole.len(), rows);
                for row in 0..rows {
                    let expected = format!("{:?}", builder.value(column, row));
                    assert_eq!(
                        format!("{:?}", whole.value(row)),
                        expected,
                        "{column} {row}"
                    );
                    if row % 97 == 0 {
                        let value = chunk.value(row).expect("value");
                        let value = value.as_ref().map(|v| v.as_value());
                        assert_eq!(format!("{value:?}"), expected);
                    }
                }
                let range = rows / 3..rows - rows / 4;
                let part = chunk.decode_range(range.clone()).expect("range");
                for (at, row) in range.enumerate() {
                    let expected = format!("{:?}", builder.value(column, row));
                    assert_eq!(format!("{:?}", part.value(at)), expected);
                }
                let selection: Vec<u32> = (0..rows as u32).filter(|row| row % 13 == 5).collect();
                let part = chunk.decode_selection(&selection).expect("selection");
                for (at, &row) in selection.iter().enumerate() {
                    let expected = format!("{:?}", builder.value(column, row as usize));
                    assert_eq!(format!("{:?}", part.value(at)), expected);
                }
            }
        }
    }
}
