//! Makes a script that differs as short as it can be: leaves out steps, then setup statements,
//! in ever smaller runs, while it still differs.

use std::time::{Duration, Instant};

use super::play::{Verdict, play};
use super::script::Script;
use super::tally::Tally;
use super::worlds::{Places, Worlds};

/// After this time the shortest script so far is reported.
const TIME_LIMIT: Duration = Duration::from_secs(90);

/// A difference must occur again in one of this many repetitions. When several sessions wait for
/// the same one, the order in which they continue is undefined, and both worlds are right.
const REPETITION_COUNT: usize = 5;

/// The shortest script found, and its difference; nothing if the difference does not occur again.
///
/// # Errors
/// When the worlds can no longer be used.
pub(super) fn minimize(
    worlds: &mut Worlds<'_>,
    script: Script,
    difference: String,
) -> anyhow::Result<Option<(Script, String)>> {
    let mut search = Search {
        worlds,
        deadline: Instant::now() + TIME_LIMIT,
        best: (script, difference),
    };
    let mut shows_again = false;
    for _ in 0..REPETITION_COUNT {
        shows_again = shows_again || search.accept(search.best.0.clone())?;
    }
    if !shows_again {
        return Ok(None);
    }
    search.shorten(
        |script| script.steps.len(),
        |script, run| drop(script.steps.drain(run)),
    )?;
    search.shorten(
        |script| script.setup.len(),
        |script, run| drop(script.setup.drain(run)),
    )?;
    search.shorten(
        |script| script.steps.len(),
        |script, run| drop(script.steps.drain(run)),
    )?;
    Ok(Some(search.best))
}

struct Search<'s, 'w> {
    worlds: &'s mut Worlds<'w>,
    deadline: Instant,
    best: (Script, String),
}

impl Search<'_, '_> {
    /// Accepts the script if it differs. A script whose setup fails does not.
    fn accept(&mut self, script: Script) -> anyhow::Result<bool> {
        // Plays while minimizing are not counted.
        match play(
            self.worlds,
            &script,
            Places::AsInserted,
            &mut Tally::default(),
        ) {
            Ok(Verdict::Differs(difference)) => {
                self.best = (script, difference);
                Ok(true)
            }
            Ok(Verdict::Agreed | Verdict::CutShort(_)) => Ok(false),
            Err(_) => {
                self.worlds.end()?;
                Ok(false)
            }
        }
    }

    fn shorten(
        &mut self,
        length: impl Fn(&Script) -> usize,
        leave_out: impl Fn(&mut Script, std::ops::Range<usize>),
    ) -> anyhow::Result<()> {
        let mut run_length = length(&self.best.0).div_ceil(2);
        while run_length > 0 {
            // From the end, because later steps depend on earlier ones.
            let mut end = length(&self.best.0);
            while end > 0 && Instant::now() < self.deadline {
                let start = end.saturating_sub(run_length);
                let mut shorter = self.best.0.clone();
                leave_out(&mut shorter, start..end);
                self.accept(shorter)?;
                end = start.min(length(&self.best.0));
            }
            run_length /= 2;
        }
        Ok(())
    }
}
