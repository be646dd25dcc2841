//! Fuzzes chunks of `ColumnType::Int64`.

#![no_main]

use howdah_columnar::ColumnType;

libfuzzer_sys::fuzz_target!(|input: &[u8]| howdah_fuzz::chunk(ColumnType::Int64, input));
