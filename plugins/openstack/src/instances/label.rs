//! Label values of Kubernetes.

/// Maximum length of a label value in bytes.
const MOST: usize = 63;

/// Returns true if this is a valid label value, which can be empty.
#[must_use]
pub fn is_value(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let ends = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= MOST
        && text.chars().all(inner)
        && ends(text.chars().next())
        && ends(text.chars().next_back())
}

/// Returns the most similar valid label value, derived like upstream does for names of availability
/// zones, or `None` if nothing remains.
#[must_use]
pub fn sanitized(text: &str) -> Option<String> {
    // A NUL stands for a run of invalid characters, so that a dash of the name does not merge with
    // it.
    let mut value = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') {
            value.push(c);
        } else if !value.ends_with('\u{0}') {
            value.push('\u{0}');
        }
    }

    let value = value.replace('\u{0}', "-");
    let value: String = value
        .trim_matches(['-', '_', '.'])
        .chars()
        .take(MOST)
        .collect();

    // Upstream keeps these characters at the end of a shortened value, which the API server
    // rejects.
    let value = value.trim_end_matches(['-', '_', '.']);
    (!value.is_empty()).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_are_validated_like_in_kubernetes() {
        assert!(
            ["", "m1.tiny", "a", "A_b-c.9"]
                .iter()
                .all(|value| is_value(value))
        );
        assert!(
            !["-a", "a.", "a b", "ü", &"x".repeat(64)]
                .iter()
                .any(|value| is_value(value))
        );
    }

    #[test]
    fn invalid_label_characters_become_dashes() {
        for (text, value) in [
            ("nova", "nova"),
            ("my zone / a", "my-zone-a"),
            ("-a_", "a"),
            ("a..b", "a..b"),
        ] {
            assert_eq!(sanitized(text).as_deref(), Some(value), "{text}");
        }
        assert_eq!(sanitized(" "), None);
        assert_eq!(
            sanitized(&format!("{}-b", "x".repeat(62))),
            Some("x".repeat(62))
        );
    }
}
