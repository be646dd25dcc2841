//! The settings that the instance's server starts with, computed from the machine's memory and
//! processors.

use std::path::Path;

use crate::machine;
use crate::paths::Paths;

const MEGABYTE: u64 = 1 << 20;

pub(super) fn for_this_machine(paths: &Paths) -> Vec<(String, String)> {
    let memory = machine::memory_bytes().unwrap_or(1024 * MEGABYTE);
    let mut settings = paths.extension_settings();
    settings.extend(for_memory(memory));
    settings.extend(for_shared_files(
        memory,
        machine::file_system_bytes(Path::new("/dev/shm")),
    ));
    settings
}

/// Parallel queries share memory by files in `/dev/shm`. Containers give it 64 MB, less than a hash
/// table of these settings may take; System V's shared memory has no such limit.
fn for_shared_files(
    memory_bytes: u64,
    shared_files_bytes: Option<u64>,
) -> Option<(String, String)> {
    // PostgreSQL's own settings: a hash table has twice work_mem for each of three processes.
    let hash_table = 6 * work_mem(memory_bytes);
    shared_files_bytes
        .is_some_and(|bytes| bytes < hash_table)
        .then(|| ("dynamic_shared_memory_type".into(), "sysv".into()))
}

fn work_mem(memory_bytes: u64) -> u64 {
    (memory_bytes / 256).clamp(4 * MEGABYTE, 256 * MEGABYTE)
}

fn for_memory(memory_bytes: u64) -> Vec<(String, String)> {
    let megabytes = |bytes: u64| format!("{}MB", bytes / MEGABYTE);
    let shared = (memory_bytes / 4).clamp(128 * MEGABYTE, 4096 * MEGABYTE);
    let work = work_mem(memory_bytes);
    let maintenance = (memory_bytes / 16).clamp(64 * MEGABYTE, 1024 * MEGABYTE);
    let cache = (memory_bytes / 5 * 3).max(shared);
    let pairs = [
        ("listen_addresses", "127.0.0.1".to_owned()),
        ("shared_buffers", megabytes(shared)),
        ("work_mem", megabytes(work)),
        ("maintenance_work_mem", megabytes(maintenance)),
        ("effective_cache_size", megabytes(cache)),
        ("max_wal_size", "4GB".to_owned()),
        ("checkpoint_timeout", "15min".to_owned()),
        ("log_line_prefix", "%m %b[%p] %q%u@%d ".to_owned()),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(memory_bytes: u64, name: &str) -> String {
        let settings = for_memory(memory_bytes);
        settings
            .into_iter()
            .find(|(own, _)| own == name)
            .expect("a setting")
            .1
    }

    #[test]
    fn shared_buffers_are_a_quarter_of_memory_up_to_four_gigabytes() {
        assert_eq!(value(8192 * MEGABYTE, "shared_buffers"), "2048MB");
        assert_eq!(value(65_536 * MEGABYTE, "shared_buffers"), "4096MB");
        assert_eq!(value(256 * MEGABYTE, "shared_buffers"), "128MB");
    }

    #[test]
    fn a_small_shared_file_system_is_not_used() {
        let memory = 24 << 30;
        assert!(for_shared_files(memory, Some(64 * MEGABYTE)).is_some());
        assert_eq!(for_shared_files(memory, Some(memory / 2)), None);
        assert_eq!(for_shared_files(memory, None), None);
    }
}
