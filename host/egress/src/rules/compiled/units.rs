//! Parsing of durations and sizes.

use std::time::Duration;

use jiff::fmt::friendly::{Spacing, SpanPrinter};

/// Parses a duration in Go's notation: `5s`, `1m30s`, `250ms`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    Duration::try_from(text.parse::<jiff::SignedDuration>().ok()?).ok()
}

/// Writes a duration so that [`duration`] can parse it: `5s`, `1m30s`, `10m`.
pub(super) fn written(duration: Duration) -> String {
    SpanPrinter::new()
        .spacing(Spacing::None)
        .unsigned_duration_to_string(&duration)
}

/// Parses a size in bytes: `512KiB`, `8MiB`, `100`.
pub(crate) fn size(text: &str) -> Option<u64> {
    let digits = text
        .find(|it: char| !it.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);

    let unit: u64 = match unit {
        "" => 1,
        "KiB" | "Ki" => 1 << 10,
        "MiB" | "Mi" => 1 << 20,
        _ => return None,
    };

    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_durations_and_sizes_with_units() {
        let table = [
            ("5s", Some(5000)),
            ("1m30s", Some(90_000)),
            ("250ms", Some(250)),
            ("-5s", None),
            ("5", None),
            ("", None),
        ];
        for (text, millis) in table {
            assert_eq!(duration(text), millis.map(Duration::from_millis), "{text}");
        }

        for (millis, text) in [
            (250, "250ms"),
            (5000, "5s"),
            (90_000, "1m30s"),
            (600_000, "10m"),
        ] {
            assert_eq!(written(Duration::from_millis(millis)), text);
        }

        let table = [
            ("8MiB", Some(8 << 20)),
            ("512KiB", Some(512 << 10)),
            ("7", Some(7)),
            ("1Mi", Some(1 << 20)),
            ("1MB", None),
            ("-1", None),
            ("MiB", None),
            ("99999999999999999999", None),
            ("18446744073709551615MiB", None),
        ];
        for (text, bytes) in table {
            assert_eq!(size(text), bytes, "{text}");
        }
    }
}
