//! What a run tells while it runs, on stderr.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::report;
use crate::scenario::{Figures, Scenario, Size, seconds};
use crate::side::Side;

/// A line that moves on a terminal; lines one after the other elsewhere.
pub(crate) struct Progress {
    bar: ProgressBar,
    is_terminal: bool,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        Self { bar, is_terminal: std::io::stderr().is_terminal() }
    }

    /// Says what is being done.
    pub(crate) fn say(&self, text: String) {
        if !self.is_terminal {
            note(&text);
        }
        self.bar.reset_elapsed();
        self.bar.set_message(text);
    }

    /// Says how many objects are still to be written.
    pub(crate) fn left(&self, count: usize) {
        if self.is_terminal {
            let message = self.bar.message();
            let what = message.split(" (").next().unwrap_or_default();
            self.bar.set_message(format!("{what} ({count} left)"));
        }
    }

    /// Says what came of a scenario.
    pub(crate) fn done(&self, side: Side, scenario: Scenario, size: &Size, figures: &Figures) {
        let time = figures.seconds.map(|time| format!("{}, ", seconds(time))).unwrap_or_default();
        self.line(&format!(
            "{}: {}: {time}{} requests, {} calls to the cloud, {:.2} s of CPU, {}",
            side.name(),
            scenario.title(size),
            figures.requests.requests,
            figures.calls(),
            figures.cpu_seconds,
            report::mebibytes(figures.peak_bytes)
        ));
    }

    /// A line that stays.
    pub(crate) fn line(&self, text: &str) {
        if self.is_terminal {
            self.bar.println(text);
        } else {
            note(text);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn note(text: &str) {
    // Nobody may be reading; the run goes on.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
