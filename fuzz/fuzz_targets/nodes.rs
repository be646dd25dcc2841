//! Fuzzes row access under changed sections of a footer.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| howdah_fuzz::nodes(input));
