//! Patterns for names of actions: `*` matches any text, all other characters match themselves.

/// A pattern, for example `Describe*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    /// Parses a pattern. Returns `None` if it contains a character that is not allowed in names of
    /// actions.
    pub fn parse(text: &str) -> Option<Self> {
        (!text.is_empty() && text.bytes().all(|byte| byte == b'*' || is_action(byte)))
            .then(|| Self(text.to_owned()))
    }

    /// Returns true if the pattern matches the whole name.
    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
            return false;
        };

        let Some(last) = parts.next_back() else {
            return rest.is_empty();
        };

        for part in parts {
            // The first place is as good as a later one: `*` matches whatever is between.
            let Some((_, after)) = rest.split_once(part) else {
                return false;
            };
            rest = after;
        }

        rest.ends_with(last)
    }

    /// Returns true if this pattern matches everything that the other one matches. It may return
    /// false for complicated patterns.
    pub fn covers(&self, other: &Self) -> bool {
        self.matches(&other.0)
    }
}

/// Returns true for bytes that are allowed in names of actions.
pub fn is_action(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_text() {
        let table = [
            ("Describe*", "DescribeInstances", true),
            ("Describe*", "Describe", true),
            ("Describe*", "XDescribe", false),
            ("*", "Anything", true),
            ("CreateLoadBalancer", "CreateLoadBalancer", true),
            ("CreateLoadBalancer", "CreateLoadBalancerListeners", false),
            ("*Tags", "AddTags", true),
            ("*Tags", "AddTagsX", false),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
        ];
        for (glob, name, matches) in table {
            assert_eq!(
                Glob::parse(glob).unwrap().matches(name),
                matches,
                "{glob} {name}"
            );
        }
    }

    #[test]
    fn rejects_characters_that_no_action_has() {
        for text in ["", "a b", "a?", "a;b", "é", "a/b"] {
            assert_eq!(Glob::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_wide_pattern_covers_a_narrow_one() {
        let table = [
            ("Describe*", "DescribeTags", true),
            ("*", "a*", true),
            ("a*", "*", false),
            ("a*", "a*b", true),
        ];
        for (wide, narrow, covers) in table {
            assert_eq!(
                Glob::parse(wide)
                    .unwrap()
                    .covers(&Glob::parse(narrow).unwrap()),
                covers,
                "{wide} {narrow}"
            );
        }
    }
}
