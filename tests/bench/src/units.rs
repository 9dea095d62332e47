//! Figures in a readable format.

/// Formats seconds.
#[must_use]
pub fn seconds(seconds: f64) -> String {
    if seconds < 10.0 {
        format!("{seconds:.2} s")
    } else if seconds < 120.0 {
        format!("{seconds:.1} s")
    } else if seconds < 600.0 {
        format!("{:.1} min", seconds / 60.0)
    } else {
        format!("{:.0} min", seconds / 60.0)
    }
}

/// Formats bytes in MiB.
#[must_use]
pub fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", as_f64(bytes) / f64::from(1 << 20))
}

/// Converts a count to a floating-point number for display.
#[must_use]
#[allow(clippy::cast_precision_loss)] // counts and bytes for display
pub fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_times_are_shown_in_minutes() {
        let told = [0.5, 12.34, 180.0, 3600.0].map(seconds);
        assert_eq!(told, ["0.50 s", "12.3 s", "3.0 min", "60 min"]);
        assert_eq!(mebibytes(3 << 19), "1.5 MiB");
    }
}
