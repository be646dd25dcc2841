//! Fuzzes chunks of `ColumnType::Numeric`.

#![no_main]

use howdah_columnar::ColumnType;

libfuzzer_sys::fuzz_target!(|input: &[u8]| howdah_fuzz::chunk(ColumnType::Numeric, input));
