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
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .context("the kernel does not tell RssAnon")?;
    let kilobytes = line.trim().trim_end_matches(" kB").parse::<u64>()?;
    Ok(kilobytes * 1024)
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
