//! What the fuzz targets do with their input.
//!
//! ```text
//!   row_groups   footers, chunks, node tables, golden files
//!   records      records of the cold store
//! ```
//!
//! `crates/columnar/tests/fuzz.rs` and `crates/records/tests/fuzz_records.rs` compile them with the
//! workspace, and drive them by random inputs for a few seconds in `./howdah test`, longer in
//! `./howdah soak`. With cargo-fuzz they are driven by coverage:
//!
//! ```text
//!   cargo +nightly fuzz run footer
//!   cargo +nightly fuzz run chunk_text -- -rss_limit_mb=2048
//! ```

mod records;
mod row_groups;

pub use records::records;
pub use row_groups::{chunk, footer, golden, nodes};
