//! What the kernel tells of a backend: its threads, its open files, its memory.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context as _;

/// Threads of the process, at this moment.
///
/// # Errors
/// When there is no such process.
pub fn thread_count(pid: &str) -> anyhow::Result<usize> {
    Ok(fs::read_dir(format!("/proc/{pid}/task"))?.count())
}

/// Whether the process has one thread. A thread that has done its work still exists for a moment.
///
/// # Errors
/// When there is no such process.
pub fn has_one_thread(pid: &str) -> anyhow::Result<bool> {
    for _ in 0..100 {
        if thread_count(pid)? == 1 {
            return Ok(true);
        }
        sleep(Duration::from_millis(1));
    }
    Ok(false)
}

/// Open files of the process.
///
/// # Errors
/// When there is no such process.
pub fn open_file_count(pid: &str) -> anyhow::Result<usize> {
    Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}

/// Anonymous memory of the process.
///
/// # Errors
/// When there is no such process.
pub fn own_memory_bytes(pid: &str) -> anyhow::Result<u64> {
    status_bytes(pid, "RssAnon:")
}

/// Page tables of the process, which lead to its own memory, shared memory, and mapped files.
///
/// # Errors
/// When there is no such process.
pub fn page_table_bytes(pid: &str) -> anyhow::Result<u64> {
    status_bytes(pid, "VmPTE:")
}

fn status_bytes(pid: &str, name: &str) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .with_context(|| format!("the kernel does not tell {name}"))?;
    let kilobytes = line.trim().trim_end_matches(" kB").parse::<u64>()?;
    Ok(kilobytes * 1024)
}

/// Regular files of the server's data directory that the process has mapped.
///
/// # Errors
/// When there is no such process.
pub fn mapped_file_count(pid: &str, directory: &Path) -> anyhow::Result<usize> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let directory = directory.to_str().context("the directory is not UTF-8")?;
    Ok(maps.lines().filter(|line| line.contains(directory)).count())
}

/// Whether the process ends within a few seconds.
#[must_use]
pub fn is_gone(pid: &str) -> bool {
    let directory = format!("/proc/{pid}");
    for _ in 0..500 {
        if !Path::new(&directory).exists() {
            return true;
        }
        sleep(Duration::from_millis(10));
    }
    false
}
