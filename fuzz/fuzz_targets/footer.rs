//! Fuzzes `Footer::parse`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| howdah_fuzz::footer(input));
