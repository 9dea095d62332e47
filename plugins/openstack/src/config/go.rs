//! Values in the syntax of Go.

use std::time::Duration;

/// Parses a decimal or hexadecimal number without a sign.
pub(super) fn number(value: &str) -> Result<u64, String> {
    let value = value.trim();
    let number = match value
        .strip_prefix("0x")
        .or_else(|| value.strip_prefix("0X"))
    {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => value.parse(),
    };

    number.map_err(|_| "expected a number".to_owned())
}

/// Parses a duration in the format of Go's `time.ParseDuration`, for example `1m30s`.
pub(super) fn duration(value: &str) -> Result<Duration, String> {
    let wrong = || "expected a duration, for example `5s` or `1m30s`".to_owned();

    if value == "0" {
        return Ok(Duration::ZERO);
    }

    let mut rest = value;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(wrong)?;

        let (amount, tail) = rest.split_at(digits);
        let units = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(units);

        let scale = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };

        seconds += amount.parse::<f64>().map_err(|_| wrong())? * scale;
        rest = tail;
    }

    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|_| !value.is_empty())
        .ok_or_else(wrong)
}

/// Returns the words separated by commas and whitespace, like upstream's `SplitTrim`.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || c == ',')
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_like_in_go() {
        assert_eq!(duration("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1.5h"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("300ms"), Ok(Duration::from_millis(300)));
        for wrong in ["", "5", "s", "5x", "-5s", "1.2.3s", "5 s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_are_parsed_like_in_gcfg() {
        assert_eq!((number("10"), number("0x10")), (Ok(10), Ok(16)));
        assert!(number("-1").is_err() && number("ten").is_err());
    }
}
