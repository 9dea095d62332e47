//! What a chore says on the terminal: plain lines on stdout, in colour where somebody looks at them.

use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use owo_colors::{OwoColorize as _, Style};

/// Writes one line to stdout. A reader that has gone away (`| head`) is no reason to stop a chore.
pub(crate) fn line(text: impl Display) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// Writes one line to stderr, for chores whose stdout belongs to another program's answer.
pub(crate) fn note(text: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Whether stdout takes colour: a terminal that is not dumb, and no `NO_COLOR` (<https://no-color.org>).
pub(crate) fn colour() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    std::io::stdout().is_terminal() && !dumb && !set("NO_COLOR")
}

/// The text in a style, or as it is where there is no colour.
pub(crate) fn paint(text: &str, style: Style) -> String {
    if colour() { text.style(style).to_string() } else { text.to_owned() }
}

/// A spinner on stderr that counts the time; shows nothing where stderr is no terminal.
pub(crate) fn spinner(text: impl Into<String>) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(text.into());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// A duration as people read it: `0.4 s`, `12.3 s`, `3 min 05 s`.
pub(crate) fn seconds(time: Duration) -> String {
    // Rounded first, so that 59.96 s is a minute and not "60.0 s".
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
    fn a_duration_is_told_in_seconds_below_a_minute_and_in_minutes_from_there_on() {
        let cases = [
            (0, "0.0 s"),
            (49, "0.0 s"),
            (50, "0.1 s"),
            (12_340, "12.3 s"),
            (59_949, "59.9 s"),
            (59_960, "1 min 00 s"),
            (185_400, "3 min 05 s"),
            (3_600_000, "60 min 00 s"),
        ];
        for (millis, told) in cases {
            assert_eq!(seconds(Duration::from_millis(millis)), told, "{millis} ms");
        }
    }
}
