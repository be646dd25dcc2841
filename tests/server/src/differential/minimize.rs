//! Makes a script that differs as short as it can be: leaves out steps, then setup statements,
//! in ever smaller runs, while it still differs.

use std::time::{Duration, Instant};

use super::play::{Verdict, play};
use super::script::Script;
use super::worlds::Worlds;

/// After this the shortest script so far has to do.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// The shortest script found, and its difference.
///
/// # Errors
/// When the worlds can no longer be used.
pub(super) fn minimize(
    worlds: &mut Worlds<'_>,
    script: Script,
    difference: String,
) -> anyhow::Result<(Script, String)> {
    let mut search = Search {
        worlds,
        deadline: Instant::now() + TIME_LIMIT,
        best: (script, difference),
    };
    if !search.accept(search.best.0.clone())? {
        let (script, difference) = search.best;
        return Ok((script, format!("(not again when repeated) {difference}")));
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
    Ok(search.best)
}

struct Search<'s, 'w> {
    worlds: &'s mut Worlds<'w>,
    deadline: Instant,
    best: (Script, String),
}

impl Search<'_, '_> {
    /// Takes the script over if it differs. One whose setup fails does not.
    fn accept(&mut self, script: Script) -> anyhow::Result<bool> {
        match play(self.worlds, &script) {
            Ok(Verdict::Differs(difference)) => {
                self.best = (script, difference);
                Ok(true)
            }
            Ok(Verdict::Agreed | Verdict::CutShort) => Ok(false),
            Err(_) => {
                self.worlds.howdah.end()?;
                self.worlds.heap.end()?;
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
            // From the end: what comes late depends on what comes early.
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
