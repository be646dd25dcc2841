//! Pages that a statement touches, as EXPLAIN counts them.

use anyhow::{Context as _, ensure};
use postgres::Client;

use crate::cluster::query;

/// Buffers, in memory or not, that a query has touched until all columns of its rows were written
/// as text. Its plan must have these words.
pub fn touched(session: &mut Client, sql: &str, words: &[&str]) -> anyhow::Result<u64> {
    let sql = format!(
        "EXPLAIN (ANALYZE, BUFFERS, SERIALIZE TEXT, COSTS OFF, TIMING OFF, SUMMARY OFF) {sql}"
    );
    let plan = query(session, &sql)?;
    ensure!(words.iter().all(|word| plan.contains(word)), "{plan}");
    // Of the plan, and of the serialization, which reads the columns.
    let (scan, rest) = plan
        .split_once("Serialization:")
        .context("no serialization in the plan")?;
    let mut sum = 0;
    for part in [scan, rest] {
        let line = part
            .lines()
            .take_while(|line| !line.starts_with("Planning"))
            .find_map(|line| line.trim().strip_prefix("Buffers: shared "));
        let counts = line.unwrap_or_default().split(' ');
        for (what, count) in counts.filter_map(|word| word.split_once('=')) {
            if ["hit", "read"].contains(&what) {
                sum += count.parse::<u64>().context("not a count")?;
            }
        }
    }
    Ok(sum)
}
