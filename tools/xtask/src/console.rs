//! Terminal output of tasks: plain lines on stdout, in color on a terminal.

use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use owo_colors::{OwoColorize as _, Style};

/// Writes a line to stdout. If the reader has closed the pipe (`| head`), the task continues.
pub(crate) fn line(text: impl Display) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// Writes a line to stderr, for tasks whose stdout is reserved for the output of another program.
pub(crate) fn note(text: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Returns whether stdout supports color: a terminal that is not dumb, and no `NO_COLOR`
/// (<https://no-color.org>).
pub(crate) fn color() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    std::io::stdout().is_terminal() && !dumb && !set("NO_COLOR")
}

/// Formats text in a style, or returns it unchanged without color.
pub(crate) fn paint(text: &str, style: Style) -> String {
    if color() {
        text.style(style).to_string()
    } else {
        text.to_owned()
    }
}

/// Returns the text of a log. What tests print may not be UTF-8.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn read(log: &Path) -> Result<String> {
    let text = std::fs::read(log).with_context(|| format!("cannot read {}", log.display()))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Formats a duration: `0.4 s`, `12.3 s`, `3 min 05 s`.
pub(crate) fn seconds(time: Duration) -> String {
    // Rounded first, so that 59.96 s becomes a minute and not "60.0 s".
    let tenths = (time.as_millis() + 50) / 100;
    if tenths < 600 {
        return format!("{}.{} s", tenths / 10, tenths % 10);
    }
    let whole = (tenths + 5) / 10;
    format!("{} min {:02} s", whole / 60, whole % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_from_one_minute_are_shown_in_minutes() {
        let cases = [
            (50, "0.1 s"),
            (12_340, "12.3 s"),
            (59_949, "59.9 s"),
            (59_960, "1 min 00 s"),
            (185_400, "3 min 05 s"),
        ];
        for (millis, told) in cases {
            assert_eq!(seconds(Duration::from_millis(millis)), told, "{millis} ms");
        }
    }
}
