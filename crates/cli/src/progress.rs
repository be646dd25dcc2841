//! Progress of anything that takes more than a few seconds: a bar on a terminal, plain lines
//! elsewhere, always on stderr so that stdout has the requested output only.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::units;

/// How often a plain line is worth printing.
const PLAIN_INTERVAL: Duration = Duration::from_secs(20);

/// How often a plain line tells that work of unknown length is still going on.
const ALIVE_INTERVAL: Duration = Duration::from_secs(60);

/// What the positions of a bar count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    Bytes,
    Things,
}

/// One running piece of work.
pub struct Progress {
    title: String,
    counting: Counting,
    bar: Option<ProgressBar>,
    /// Dropping it ends the plain lines of work of unknown length.
    _alive: Option<Sender<()>>,
    position: u64,
    total: Option<u64>,
    started: Instant,
    last_line: Instant,
}

impl Progress {
    /// A bar with a known end.
    pub fn of(title: &str, total: u64, counting: Counting) -> Self {
        let template = match counting {
            Counting::Bytes => {
                "  {msg:<26} {bar:32.cyan/blue} {bytes}/{total_bytes} {bytes_per_sec}"
            }
            Counting::Things => "  {msg:<26} {bar:32.cyan/blue} {pos}/{len} {elapsed} {prefix}",
        };
        Self::new(title, Some(total), counting, template)
    }

    /// Work whose end is unknown.
    pub fn open_ended(title: &str) -> Self {
        Self::new(
            title,
            None,
            Counting::Things,
            "  {msg:<26} {spinner} {elapsed} {prefix}",
        )
    }

    fn new(title: &str, total: Option<u64>, counting: Counting, template: &str) -> Self {
        let terminal = console::user_attended_stderr();
        let bar = terminal.then(|| {
            let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template(template)
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .progress_chars("█▉▊▋▌▍▎▏ ");
            bar.set_style(style);
            bar.set_message(title.to_owned());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        let now = Instant::now();
        Self {
            title: title.to_owned(),
            counting,
            _alive: (bar.is_none() && total.is_none()).then(|| tell_alive(title)),
            bar,
            position: 0,
            total,
            started: now,
            last_line: now,
        }
    }

    /// Advances by `steps`; `note` is shown beside the bar.
    pub fn advance(&mut self, steps: u64, note: &str) {
        self.position += steps;
        if let Some(bar) = &self.bar {
            bar.set_position(self.position);
            bar.set_prefix(console::truncate_str(note, 40, "…").into_owned());
        } else if self.last_line.elapsed() >= PLAIN_INTERVAL {
            self.last_line = Instant::now();
            eprintln!("  {}: {}", self.title, self.plain_state());
        }
    }

    fn plain_state(&self) -> String {
        let show = |value: u64| match self.counting {
            Counting::Bytes => units::bytes(value),
            Counting::Things => units::count(value),
        };
        match self.total {
            Some(total) => format!("{} of {}", show(self.position), show(total)),
            None => format!("{} so far", show(self.position)),
        }
    }

    /// Prints a line above the bar.
    pub fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
        }
    }

    /// Ends the work with one lasting line.
    pub fn finish(self, outcome: &str) {
        let time = units::duration(self.started.elapsed());
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        eprintln!("  {:<26} {outcome} ({time})", self.title);
    }

    /// Ends the work without output, for work that was quick.
    pub fn vanish(self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Prints a plain line a minute until the sender is dropped.
fn tell_alive(title: &str) -> Sender<()> {
    let (sender, receiver) = mpsc::channel();
    let (title, started) = (title.to_owned(), Instant::now());
    thread::spawn(move || {
        while receiver.recv_timeout(ALIVE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            let time = units::duration(started.elapsed());
            eprintln!("  {title}: still at it after {time}");
        }
    });
    sender
}
