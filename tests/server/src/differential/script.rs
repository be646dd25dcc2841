//! A script: the setup, and the steps that follow.

use std::fmt;

/// One step of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// A statement of one of the sessions; left out while that session waits.
    Sql { session: usize, text: String },
    /// A command outside of all sessions, in both worlds; it may be cancelled in their favour.
    Maintain(String),
    /// `CALL howdah.compact`, in the howdah world only.
    Compact(String),
}

#[derive(Debug, Clone)]
pub(super) struct Script {
    pub session_count: usize,
    /// Settings of every session in the howdah world.
    pub howdah_settings: Vec<String>,
    /// Settings of every session in both worlds.
    pub settings: Vec<String>,
    pub setup: Vec<String>,
    pub steps: Vec<Step>,
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "-- every session:")?;
        for setting in self.settings.iter().chain(&self.howdah_settings) {
            writeln!(f, "{setting};")?;
        }
        writeln!(f, "-- setup:")?;
        for statement in &self.setup {
            writeln!(f, "{statement};")?;
        }
        writeln!(f, "-- steps:")?;
        for step in &self.steps {
            match step {
                Step::Sql { session, text } if self.session_count > 1 => {
                    writeln!(f, "/* session {session} */ {text};")?;
                }
                Step::Sql { text, .. } => writeln!(f, "{text};")?,
                Step::Maintain(text) => writeln!(f, "/* elsewhere */ {text};")?,
                Step::Compact(table) => {
                    writeln!(f, "/* elsewhere */ CALL howdah.compact('{table}');")?;
                }
            }
        }
        Ok(())
    }
}
