//! Fuzzes the readers of records of the cold store.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| howdah_fuzz::records(input));
