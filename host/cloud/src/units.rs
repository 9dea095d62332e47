//! Writes quantities as operators do in flags and files: `128Mi`, `10m`.

use std::time::Duration;

/// Writes a number of bytes in Kubernetes' notation: `512`, `64Ki`, `128Mi`, `1Gi`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    let units = [("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
    let unit = units
        .into_iter()
        .find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit));
    unit.map_or_else(
        || bytes.to_string(),
        |(suffix, unit)| format!("{}{suffix}", bytes / unit),
    )
}

/// Writes a duration in Go's notation: `500ms`, `30s`, `1m30s`, `10m`, `1h`.
#[must_use]
pub fn duration(duration: Duration) -> String {
    let minutes = duration.as_secs() / 60;
    let rest = duration.saturating_sub(Duration::from_secs(minutes * 60));
    let parts = [(minutes / 60, "h"), (minutes % 60, "m")];

    let mut text: String = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect();

    if text.is_empty() || !rest.is_zero() {
        text += &format!("{rest:?}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_largest_unit_without_a_fraction() {
        for (number, text) in [
            (0, "0"),
            (1000, "1000"),
            (1 << 10, "1Ki"),
            (1536 << 10, "1536Ki"),
            (128 << 20, "128Mi"),
            (1 << 30, "1Gi"),
            (u64::MAX, "18446744073709551615"),
        ] {
            assert_eq!(bytes(number), text);
        }
    }

    #[test]
    fn durations_are_written_as_in_flags() {
        for (millis, text) in [
            (10, "10ms"),
            (1500, "1.5s"),
            (59_000, "59s"),
            (90_000, "1m30s"),
            (600_000, "10m"),
            (3_600_000, "1h"),
            (5_400_500, "1h30m500ms"),
            (8760 * 3_600_000, "8760h"),
        ] {
            assert_eq!(duration(Duration::from_millis(millis)), text);
        }
    }
}
