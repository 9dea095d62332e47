//! Chooses the subnet of the external network that a floating IP comes from.

use regex_lite::Regex;

use crate::config::{Class, words};

/// A subnet by ID, or all subnets that match a pattern of the name and tags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubnetSpec {
    /// The ID. If set, the other fields are ignored.
    pub id: String,
    /// A glob for the name, or a regular expression after `~`. A leading `!` negates it.
    pub pattern: String,
    /// Tags separated by commas. One of them must match, or all with a leading `&`. A leading `!`
    /// negates it.
    pub tags: String,
}

impl SubnetSpec {
    /// Creates the specification from these values. An ID clears the others.
    #[must_use]
    pub fn of(id: &str, pattern: &str, tags: &str) -> Self {
        let unless = |text: &str| {
            if id.is_empty() {
                text.to_owned()
            } else {
                String::new()
            }
        };

        Self {
            id: id.to_owned(),
            pattern: unless(pattern),
            tags: unless(tags),
        }
    }

    /// Creates the specification of a class, or of the operator's defaults.
    #[must_use]
    pub fn of_class(class: &Class) -> Self {
        Self::of(
            &class.floating_subnet_id,
            &class.floating_subnet,
            &class.floating_subnet_tags,
        )
    }

    /// Returns true if the subnet is specified.
    #[must_use]
    pub fn is_set(&self) -> bool {
        !self.id.is_empty() || self.is_pattern()
    }

    /// Returns true if subnets must be searched by name or tags.
    #[must_use]
    pub fn is_pattern(&self) -> bool {
        !self.pattern.is_empty() || !self.tags.is_empty()
    }

    /// Returns the name and value of the tag filter in a query to Neutron.
    #[must_use]
    pub fn tag_filter(&self) -> Option<(&'static str, String)> {
        if self.tags.is_empty() {
            return None;
        }

        let (negated, tags) = strip(&self.tags, '!');
        let (all, tags) = strip(tags, '&');
        let name = match (all, negated) {
            (true, true) => "not-tags-any",
            (true, false) => "tags",
            (false, true) => "not-tags",
            (false, false) => "tags-any",
        };
        Some((name, words(tags).collect::<Vec<_>>().join(",")))
    }

    /// Checks a pattern of names.
    ///
    /// # Errors
    /// Fails if the pattern is invalid.
    pub fn check_pattern(pattern: &str) -> Result<(), String> {
        negated_regex(pattern).map(|_| ())
    }

    /// Returns true if a subnet with this name matches.
    ///
    /// # Errors
    /// Fails if the pattern is invalid.
    pub fn fits(&self, name: &str) -> Result<bool, String> {
        if self.pattern.is_empty() {
            return Ok(true);
        }

        let (negated, regex) = negated_regex(&self.pattern)?;

        // As in upstream, the first match must be the complete name.
        let whole = regex.find(name).map_or("", |found| found.as_str()) == name;
        Ok(whole != negated)
    }
}

/// Returns whether a pattern is negated, and its regular expression.
fn negated_regex(pattern: &str) -> Result<(bool, Regex), String> {
    let (negated, pattern) = strip(pattern, '!');
    let expression = pattern
        .strip_prefix('~')
        .map_or_else(|| glob(pattern), str::to_owned);

    let regex = Regex::new(&expression).map_err(|error| {
        format!("the pattern for the floating IP's subnet is not valid: {error}")
    })?;
    Ok((negated, regex))
}

fn strip(text: &str, sign: char) -> (bool, &str) {
    text.strip_prefix(sign)
        .map_or((false, text), |rest| (true, rest))
}

/// Converts a glob with `*`, `?`, `[…]` and `{a,b}` to a regular expression.
fn glob(pattern: &str) -> String {
    let mut expression = "^".to_owned();
    let mut in_group = false;

    for letter in pattern.chars() {
        match letter {
            '*' => expression.push_str("[^/]*"),
            '?' => expression.push('.'),
            '{' => {
                in_group = true;
                expression.push('(');
            }
            '}' if in_group => {
                in_group = false;
                expression.push(')');
            }
            ',' if in_group => expression.push('|'),
            '[' | ']' => expression.push(letter),
            '\\' | '$' | '^' | '+' | '.' | '(' | ')' | '|' | '}' => {
                expression.push('\\');
                expression.push(letter);
            }
            other => expression.push(other),
        }
    }

    expression.push('$');
    expression
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnet_names_are_matched_like_upstream() {
        for (pattern, name, fits) in [
            ("public-a", "public-a", true),
            ("public-a", "public-ab", false),
            ("public-*", "public-ab", true),
            ("public-?", "public-a", true),
            ("{one,two}-a", "two-a", true),
            ("!public-*", "public-a", false),
            ("!public-*", "other", true),
            ("~public-[0-9]+", "public-12", true),
            ("~public", "public-12", false),
            ("!~public-.*", "other", true),
            ("a.b", "axb", false),
            ("", "anything", true),
        ] {
            assert_eq!(
                SubnetSpec::of("", pattern, "").fits(name),
                Ok(fits),
                "{pattern} {name}"
            );
        }
        assert!(SubnetSpec::of("", "~(", "").fits("x").is_err());
    }

    #[test]
    fn tags_become_a_neutron_filter() {
        for (tags, name, value) in [
            ("a, b", "tags-any", "a,b"),
            ("&a,b", "tags", "a,b"),
            ("!a", "not-tags", "a"),
            ("!&a,b", "not-tags-any", "a,b"),
        ] {
            assert_eq!(
                SubnetSpec::of("", "", tags).tag_filter(),
                Some((name, value.to_owned())),
                "{tags}"
            );
        }
        assert_eq!(SubnetSpec::default().tag_filter(), None);
    }

    #[test]
    fn a_subnet_id_overrides_patterns() {
        let spec = SubnetSpec::of("s1", "x*", "t");
        assert!(spec.is_set() && !spec.is_pattern() && spec.tag_filter().is_none());
        assert!(!SubnetSpec::default().is_set());
    }
}
