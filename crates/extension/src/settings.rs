//! Settings `howdah.*` and the options of single tables.

use std::ffi::{CStr, CString};
use std::num::NonZero;
use std::sync::OnceLock;
use std::thread::available_parallelism;

use howdah_bridge::Oid;
use howdah_bridge::store::file_copy::FILE_COPIES;
use howdah_columnar::{Effort, EncodeOptions};
use pgrx::PostgresGucEnum;
use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};

/// Compression effort as a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PostgresGucEnum)]
pub enum EffortSetting {
    #[name = c"fast"]
    Fast,
    #[name = c"default"]
    Default,
    #[name = c"best"]
    Best,
}

static BULK_LOAD: GucSetting<bool> = GucSetting::<bool>::new(true);
static LOAD_THRESHOLD: GucSetting<i32> = GucSetting::<i32>::new(8_192);
static ROW_GROUP_BYTES: GucSetting<i32> = GucSetting::<i32>::new(64 * 1024);
static LOAD_MEMORY: GucSetting<i32> = GucSetting::<i32>::new(256 * 1024);
static CACHE_SIZE: GucSetting<i32> = GucSetting::<i32>::new(6 * 1024);
static EFFORT: GucSetting<EffortSetting> = GucSetting::<EffortSetting>::new(EffortSetting::Default);
static COLUMNAR_SCAN: GucSetting<bool> = GucSetting::<bool>::new(true);
static VECTORIZED: GucSetting<bool> = GucSetting::<bool>::new(true);
static FORCE_VECTORIZED: GucSetting<bool> = GucSetting::<bool>::new(false);
static THREADS: GucSetting<i32> = GucSetting::<i32>::new(-1);
static MAX_THREADS: GucSetting<i32> = GucSetting::<i32>::new(64);
static STEP_ROWS: GucSetting<i32> = GucSetting::<i32>::new(0);
static HASH_BITS: GucSetting<i32> = GucSetting::<i32>::new(HASH_BITS_MOST);
static DISABLED_FUNCTIONS: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static FORCE_COLD: GucSetting<bool> = GucSetting::<bool>::new(false);
static GROUP_COLUMNS: GucSetting<bool> = GucSetting::<bool>::new(false);
static GROUP_LOCKS: GucSetting<bool> = GucSetting::<bool>::new(true);

/// Of a table in PostgreSQL.
const MOST_COLUMNS: usize = 1_600;
const HASH_BITS_MOST: i32 = u64::BITS as i32;

fn int(
    name: &'static CStr,
    short: &'static CStr,
    long: &'static CStr,
    setting: &'static GucSetting<i32>,
    range: std::ops::RangeInclusive<i32>,
    flags: GucFlags,
) {
    GucRegistry::define_int_guc(
        name,
        short,
        long,
        setting,
        *range.start(),
        *range.end(),
        GucContext::Userset,
        flags,
    );
}

/// Defines every setting. Call once, from `_PG_init`.
pub fn register() {
    GucRegistry::define_bool_guc(
        c"howdah.bulk_load",
        c"Writes bulk loads straight to row groups.",
        c"When off, every row is inserted hot and becomes cold by compaction only.",
        &BULK_LOAD,
        GucContext::Userset,
        GucFlags::default(),
    );
    int(
        c"howdah.load_threshold",
        c"Rows up to which a statement inserts hot, unless its plan expects at least twice as many or it is a COPY that brings more.",
        c"This COPY is one into a table without indexes and row triggers. Keeps small statements small.",
        &LOAD_THRESHOLD,
        0..=i32::MAX,
        GucFlags::default(),
    );
    int(
        c"howdah.row_group_bytes",
        c"Raw size at which a row group is closed before it is full.",
        c"Bounds the memory of a load and of a reader.",
        &ROW_GROUP_BYTES,
        1024..=1024 * 1024,
        GucFlags::UNIT_KB,
    );
    int(
        c"howdah.load_memory",
        c"Memory for the row groups that a backend loads at the same time.",
        c"Matters for loads into many partitions; past it the largest group is written early.",
        &LOAD_MEMORY,
        1024..=i32::MAX,
        GucFlags::UNIT_KB,
    );
    int(
        c"howdah.cache_size",
        c"Memory for what a backend keeps of row groups between reads of single rows.",
        c"Layouts, dictionaries and decoded blocks; never whole columns.",
        &CACHE_SIZE,
        1024..=i32::MAX,
        GucFlags::UNIT_KB,
    );
    GucRegistry::define_enum_guc(
        c"howdah.compression_effort",
        c"How hard the encoder tries: fast, default or best.",
        c"A table's own option compression_effort comes first.",
        &EFFORT,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_bool_guc(
        c"howdah.columnar_scan",
        c"Enables the planner's use of ColumnarScan plans.",
        c"",
        &COLUMNAR_SCAN,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_bool_guc(
        c"howdah.vectorized",
        c"Enables the planner's use of Vectorized plans.",
        c"They group, aggregate and find first rows by columns and by several threads.",
        &VECTORIZED,
        GucContext::Userset,
        GucFlags::default(),
    );
    int(
        c"howdah.threads",
        c"Threads that a Vectorized plan or a bulk load may use besides the session's own process.",
        c"A bulk load uses one. -1 is one for each processor, 0 does all work in the session's own process.",
        &THREADS,
        -1..=256,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"howdah.max_threads",
        c"Threads that all Vectorized plans and bulk loads of the server may use together.",
        c"One that finds no free thread does its work in the session's own process.",
        &MAX_THREADS,
        0,
        65_536,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_enum_guc(
        c"howdah.file_copies",
        c"Which bytes of single rows are copied from files that the operating system has in memory: auto, off or always.",
        c"auto: of pages that are in no shared buffer, and not worth one.",
        &FILE_COPIES,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_bool_guc(
        c"howdah.debug_force_vectorized",
        c"Takes every Vectorized plan that is possible, whatever it costs.",
        c"For tests only.",
        &FORCE_VECTORIZED,
        GucContext::Userset,
        GucFlags::default(),
    );
    int(
        c"howdah.debug_step_rows",
        c"Most rows that a Vectorized plan works on at a time.",
        c"For tests only: 0 lets it choose; few groups are then merged as many are.",
        &STEP_ROWS,
        0..=8_192,
        GucFlags::default(),
    );
    int(
        c"howdah.debug_hash_bits",
        c"Bits of the hashes by which Vectorized plans find groups.",
        c"For tests only: few bits let keys collide.",
        &HASH_BITS,
        0..=HASH_BITS_MOST,
        GucFlags::default(),
    );
    GucRegistry::define_string_guc(
        c"howdah.debug_disabled_functions",
        c"Functions and aggregates that Vectorized plans do not compute.",
        c"For tests only: names of the view howdah.functions, separated by commas.",
        &DISABLED_FUNCTIONS,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_bool_guc(
        c"howdah.debug_force_cold",
        c"Sends every insert straight to cold storage.",
        c"For tests only: each statement makes a row group of its own.",
        &FORCE_COLD,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_bool_guc(
        c"howdah.debug_group_columns",
        c"Treats all columns as if the option grouped_columns named them.",
        c"For tests only.",
        &GROUP_COLUMNS,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_bool_guc(
        c"howdah.debug_group_locks",
        c"Lets a transaction that has locked many cold rows lock whole row groups.",
        c"For tests only: without it, every row takes a place in the lock table.",
        &GROUP_LOCKS,
        GucContext::Userset,
        GucFlags::default(),
    );
}

pub fn bulk_load() -> bool {
    BULK_LOAD.get()
}

/// Rows of a statement that go hot first.
pub fn load_threshold() -> u64 {
    LOAD_THRESHOLD.get() as u64
}

/// Raw bytes at which a row group closes.
pub fn row_group_bytes() -> usize {
    ROW_GROUP_BYTES.get() as usize * 1024
}

/// Raw bytes of all pending groups of a backend.
pub fn load_memory() -> usize {
    LOAD_MEMORY.get() as usize * 1024
}

/// Bound of what is kept of groups between reads of single rows.
pub fn cache_size_bytes() -> usize {
    CACHE_SIZE.get() as usize * 1024
}

/// Whether the planner may read tables by ColumnarScan.
pub fn columnar_scan() -> bool {
    COLUMNAR_SCAN.get()
}

/// Whether the planner may take Vectorized plans.
pub fn vectorized() -> bool {
    VECTORIZED.get()
}

pub fn force_vectorized() -> bool {
    FORCE_VECTORIZED.get()
}

/// The most rows that a Vectorized plan works on at a time, if that is limited.
pub fn step_rows() -> Option<usize> {
    usize::try_from(STEP_ROWS.get())
        .ok()
        .filter(|&rows| rows > 0)
}

/// Bits of hashes that Vectorized plans use.
pub fn hash_bits() -> u32 {
    HASH_BITS.get() as u32
}

/// Whether Vectorized plans must do without a function or aggregate.
pub fn is_disabled_function(name: &str) -> bool {
    let disabled = DISABLED_FUNCTIONS.get();
    disabled.is_some_and(|names| {
        let names = names.to_string_lossy();
        names.split(',').any(|one| one.trim() == name)
    })
}

/// Threads of one plan.
pub fn threads() -> usize {
    // Asked of the system once: the answer is read from files of the process's control group.
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    usize::try_from(THREADS.get()).unwrap_or_else(|_| {
        *PROCESSORS.get_or_init(|| available_parallelism().map_or(1, NonZero::get))
    })
}

/// Threads of all plans of the server.
pub fn max_threads() -> usize {
    MAX_THREADS.get() as usize
}

pub fn force_cold() -> bool {
    FORCE_COLD.get()
}

pub fn group_locks() -> bool {
    GROUP_LOCKS.get()
}

/// How row groups of a table are encoded.
pub fn encoding_of(table: Oid) -> EncodeOptions {
    let options = crate::options::of(table);
    let setting = match EFFORT.get() {
        EffortSetting::Fast => Effort::Fast,
        EffortSetting::Default => Effort::Default,
        EffortSetting::Best => Effort::Best,
    };
    let position = |&column: &i16| usize::try_from(column - 1).ok();
    let named = || options.grouped_columns.iter().filter_map(position);
    EncodeOptions {
        effort: options.effort.unwrap_or(setting),
        grouped: match GROUP_COLUMNS.get() {
            true => (0..MOST_COLUMNS).collect(),
            false => named().collect(),
        },
    }
}
