//! Progress messages of a run, on stderr.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// An updated line on a terminal, and separate lines elsewhere.
pub struct Progress {
    bar: ProgressBar,
    is_terminal: bool,
}

impl Default for Progress {
    fn default() -> Self {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        Self {
            bar,
            is_terminal: std::io::stderr().is_terminal(),
        }
    }
}

impl Progress {
    /// Sets the message.
    pub fn say(&self, text: String) {
        if !self.is_terminal {
            note(&text);
        }
        self.bar.reset_elapsed();
        self.bar.set_message(text);
    }

    /// Shows how many objects still have to be written.
    pub fn left(&self, count: usize) {
        if self.is_terminal {
            let message = self.bar.message();
            let what = message.split(" (").next().unwrap_or_default();
            self.bar.set_message(format!("{what} ({count} left)"));
        }
    }

    /// Prints a permanent line.
    pub fn line(&self, text: &str) {
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
    // Errors are ignored, because the run continues without a reader.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
