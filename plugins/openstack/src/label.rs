//! Label values, as Kubernetes allows them.

/// Most bytes of a label's value.
const MOST: usize = 63;

/// True if a label can have this value; an empty one can be had.
#[must_use]
pub fn is_value(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let ends = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= MOST && text.chars().all(inner) && ends(text.chars().next()) && ends(text.chars().next_back())
}

/// The nearest value a label can have, as upstream derives it from names of availability zones; none if nothing is left.
#[must_use]
pub fn sanitized(text: &str) -> Option<String> {
    let mut value = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') {
            value.push(c);
        } else if !value.ends_with('\u{0}') {
            value.push('\u{0}');
        }
    }
    let value = value.replace('\u{0}', "-");
    let value: String = value.trim_matches(['-', '_', '.']).chars().take(MOST).collect();
    // Upstream leaves what a cut uncovers at the end, and the API server refuses it.
    let value = value.trim_end_matches(['-', '_', '.']);
    (!value.is_empty()).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_that_kubernetes_takes() {
        assert!(["", "m1.tiny", "a", "A_b-c.9"].iter().all(|value| is_value(value)));
        assert!(!["-a", "a.", "a b", "ü", &"x".repeat(64)].iter().any(|value| is_value(value)));
    }

    #[test]
    fn what_no_label_takes_becomes_a_dash() {
        for (text, value) in [("nova", "nova"), ("my zone / a", "my-zone-a"), ("-a_", "a"), ("a..b", "a..b")] {
            assert_eq!(sanitized(text).as_deref(), Some(value), "{text}");
        }
        assert_eq!(sanitized(" "), None);
        assert_eq!(sanitized(&format!("{}-b", "x".repeat(62))), Some("x".repeat(62)));
    }
}
