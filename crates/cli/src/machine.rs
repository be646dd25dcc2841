//! The machine's memory and free disk space, as the kernel and `df` report them.

use std::fs;
use std::path::Path;
use std::process::Command;

/// The machine's memory.
pub fn memory_bytes() -> Option<u64> {
    parse_memory_total(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// The free bytes of the file system that holds a path, or will hold it.
pub fn free_disk_bytes(path: &Path) -> Option<u64> {
    let existing = path.ancestors().find(|ancestor| ancestor.exists())?;
    parse_df(&df(existing)?, DfField::Available)
}

/// The bytes of the file system at a path, free or not.
pub fn file_system_bytes(path: &Path) -> Option<u64> {
    parse_df(&df(path)?, DfField::All)
}

fn df(path: &Path) -> Option<String> {
    let output = Command::new("df").arg("-Pk").arg(path).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn parse_memory_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// The position of a number of kilobytes in the second line of `df`, by POSIX.
#[derive(Clone, Copy)]
enum DfField {
    All = 1,
    Available = 3,
}

fn parse_df(output: &str, field: DfField) -> Option<u64> {
    let kilobytes: u64 = output
        .lines()
        .nth(1)?
        .split_whitespace()
        .nth(field as usize)?
        .parse()
        .ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_kernels_table() {
        let table = "MemTotal:       2048 kB\nMemFree:  1 kB\n";
        assert_eq!(parse_memory_total(table), Some(2 << 20));
        assert_eq!(parse_memory_total("nonsense"), None);
    }

    #[test]
    fn free_disk_is_what_df_calls_available() {
        let table =
            "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/x 100 60 40 60% /\n";
        assert_eq!(parse_df(table, DfField::Available), Some(40 * 1024));
        assert_eq!(parse_df(table, DfField::All), Some(100 * 1024));
        assert_eq!(parse_df("", DfField::Available), None);
    }
}
