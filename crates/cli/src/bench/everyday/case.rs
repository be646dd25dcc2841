//! One everyday statement: its argument, where it runs, and its goal.

use super::super::figure::{Goal, Unit};

/// Which argument a statement gets.
#[derive(Clone, Copy)]
pub(super) enum Argument {
    None,
    /// A key of the table; runs of so many keys from it on may be changed by the statement.
    Key {
        apart: u64,
    },
    /// A list of so many keys.
    Keys(usize),
}

/// The session that a statement runs in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Session {
    /// One that has run such statements for a while, as those of a pool have: the pages that its
    /// rows are in belong to its address space.
    Warm,
    /// One of each run's own, which has seen no page of the tables yet.
    New,
    /// A warm one whose snapshot is from before this statement, which another session runs.
    Before(&'static str),
}

pub(super) struct Case {
    pub(super) title: &'static str,
    /// `{noise}` and the like stand for tables, `$1` for the argument.
    pub(super) sql: &'static str,
    pub(super) argument: Argument,
    /// Which table's rows the keys are of: the big table's rows are divided by this.
    pub(super) divisor: u64,
    /// Statements of one run; their median is the run's figure.
    pub(super) repeats: u32,
    pub(super) limit: f64,
    pub(super) session: Session,
}

impl Case {
    pub(super) fn goal(&self) -> Goal {
        Goal::RatioAtMost(self.limit)
    }

    pub(super) fn unit(&self) -> Unit {
        match self.repeats {
            0..10 => Unit::Milliseconds,
            _ => Unit::Microseconds,
        }
    }

    pub(super) fn needs(&self, table: &str) -> bool {
        self.sql.contains(&format!("{{{table}}}"))
    }

    /// Whether statements more change nothing for those that follow.
    pub(super) fn only_reads(&self) -> bool {
        self.sql.starts_with("SELECT") && !self.sql.contains(" FOR ")
    }

    /// The type of the statement's parameter.
    pub(super) fn parameter(&self) -> &'static str {
        match self.argument {
            Argument::None => "",
            Argument::Key { .. } => "(integer)",
            Argument::Keys(_) => "(integer[])",
        }
    }
}

pub(super) const fn case(
    title: &'static str,
    sql: &'static str,
    argument: Argument,
    repeats: u32,
    limit: f64,
) -> Case {
    Case {
        title,
        sql,
        argument,
        divisor: 1,
        repeats,
        limit,
        session: Session::Warm,
    }
}

pub(super) const fn of(divisor: u64, case: Case) -> Case {
    Case { divisor, ..case }
}

/// A case in a session that has its snapshot from before `change`.
pub(super) const fn before(change: &'static str, case: Case) -> Case {
    Case {
        session: Session::Before(change),
        ..case
    }
}

pub(super) const fn in_new_sessions(case: Case) -> Case {
    Case {
        session: Session::New,
        ..case
    }
}
