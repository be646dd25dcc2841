//! Fuzzes chunks of `ColumnType::Int32`.

#![no_main]

use howdah_columnar::ColumnType;

libfuzzer_sys::fuzz_target!(|input: &[u8]| howdah_fuzz::chunk(ColumnType::Int32, input));
