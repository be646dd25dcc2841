//! Checks excused differences: a script that ended at a known limit, or differed by the places of
//! rows, is played again where that cannot happen.
//!
//! ```text
//!   a race                     again, several times: by chance the worlds agree
//!   a row group locked         with each row locked by itself
//!   SERIALIZABLE is coarser    with REPEATABLE READ
//!   places of rows             heap with its rows elsewhere, howdah unchanged
//! ```
//!
//! Then the worlds must agree to the end, or up to another limit, which then counts.

use super::limits::Limit;
use super::play::{Verdict, play};
use super::script::{Script, Step};
use super::tally::Tally;
use super::worlds::{Places, Worlds};

/// How often a script is played in which sessions race because they are woken at once.
const RACE_COUNT: usize = 6;

/// How often a script must behave the other way with rows at other places.
const PLACED_PLAY_COUNT: usize = 3;

/// How a script ended.
pub(super) struct Played {
    /// The script, without the part that led to a limit.
    pub script: Script,
    pub verdict: Verdict,
    /// The limits that it no longer reaches.
    pub avoided: Vec<Limit>,
}

/// Plays a script, and again without the part that leads to a limit, where that can be removed.
///
/// # Errors
/// When it cannot be played.
pub(super) fn play_out(
    worlds: &mut Worlds<'_>,
    mut script: Script,
    tally: &mut Tally,
) -> anyhow::Result<Played> {
    let mut verdict = play_races(worlds, &script, Places::AsInserted, tally)?;
    let mut avoided = Vec::new();
    while let Verdict::CutShort(limit) = verdict
        && !avoided.contains(&limit)
        && let Some(other) = without(limit, &script)
    {
        script = other;
        avoided.push(limit);
        verdict = play_races(worlds, &script, Places::AsInserted, &mut Tally::default())?;
    }
    Ok(Played {
        script,
        verdict,
        avoided,
    })
}

/// Plays a script in which sessions race until they do not.
fn play_races(
    worlds: &mut Worlds<'_>,
    script: &Script,
    places: Places,
    tally: &mut Tally,
) -> anyhow::Result<Verdict> {
    let mut verdict = play(worlds, script, places, tally)?;
    for _ in 1..RACE_COUNT {
        if verdict == Verdict::CutShort(Limit::Raced) {
            verdict = play(worlds, script, places, &mut Tally::default())?;
        }
    }
    Ok(verdict)
}

/// The script changed so that it does not reach the limit, if that is possible.
fn without(limit: Limit, script: &Script) -> Option<Script> {
    let mut other = script.clone();
    match limit {
        Limit::GroupLocked => other
            .howdah_settings
            .push("SET howdah.debug_group_locks = off".into()),
        Limit::CoarseReads => {
            for step in &mut other.steps {
                if let Step::Sql { text, .. } = step
                    && text.starts_with("BEGIN")
                {
                    *text = text.replace("SERIALIZABLE", "REPEATABLE READ");
                }
            }
        }
        _ => return None,
    }
    Some(other)
}

/// Whether heap itself behaves as howdah does, from the first step to the last, if its rows lie
/// elsewhere; and does not if they lie as usual.
///
/// # Errors
/// When the worlds can no longer be used.
pub(super) fn depends_on_places(worlds: &mut Worlds<'_>, script: &Script) -> anyhow::Result<bool> {
    for _ in 0..PLACED_PLAY_COUNT {
        let as_ever = play(worlds, script, Places::AsInserted, &mut Tally::default())?;
        if !matches!(as_ever, Verdict::Differs(_)) || !agrees_elsewhere(worlds, script)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether heap, with its rows elsewhere, agrees with howdah to the end.
///
/// # Errors
/// When the worlds can no longer be used.
pub(super) fn agrees_elsewhere(worlds: &mut Worlds<'_>, script: &Script) -> anyhow::Result<bool> {
    let tally = &mut Tally::default();
    match play_races(worlds, script, Places::BehindLaterOnes, tally) {
        Ok(verdict) => Ok(verdict == Verdict::Agreed),
        // The setup fails if `t` cannot hold the rows that reserve places.
        Err(_) => worlds.end().map(|()| false),
    }
}
