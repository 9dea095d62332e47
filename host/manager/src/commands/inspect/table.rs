//! Rows about a plugin as lines of text, and the comparison of two plugins.

use skydock_cloud::text::{SENTENCE, beginning};

/// A property of a plugin, and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    values: Vec<String>,
}

impl Row {
    pub(crate) fn new(name: &'static str, values: impl IntoIterator<Item = impl ToString>) -> Self {
        Self {
            name,
            values: values.into_iter().map(|value| value.to_string()).collect(),
        }
    }

    fn line(&self) -> String {
        let values = if self.values.is_empty() {
            "none".to_owned()
        } else {
            let values = self.values.iter();
            let values = values.map(|value| beginning(value, SENTENCE));
            values.collect::<Vec<_>>().join(", ")
        };
        format!("{:<15} {values}", self.name)
    }
}

/// Returns the rows as an object, whose keys are the names in camel case.
pub(crate) fn object(rows: &[Row]) -> serde_json::Map<String, serde_json::Value> {
    let key = |name: &str| {
        let words = name.split(' ').enumerate();
        let words = words.map(|(number, word)| match word.split_at_checked(1) {
            Some((first, rest)) if number > 0 => first.to_uppercase() + rest,
            _ => word.to_owned(),
        });
        words.collect::<String>()
    };

    rows.iter()
        .map(|row| (key(row.name), row.values.clone().into()))
        .collect()
}

pub(crate) fn lines(rows: &[Row]) -> Vec<String> {
    rows.iter().map(Row::line).collect()
}

/// Returns the lines for a plugin compared with an earlier build: values that were added have a
/// `+`, values that were removed a `-`. What only one of them says is added or removed as a whole.
pub(crate) fn compared(rows: &[Row], earlier: &[Row]) -> Vec<String> {
    let mut out = Vec::new();
    let only_earlier = earlier
        .iter()
        .filter(|before| rows.iter().all(|row| row.name != before.name));
    let names = rows.iter().chain(only_earlier).map(|row| row.name);

    for name in names {
        let values = |rows: &[Row]| {
            rows.iter()
                .find(|row| row.name == name)
                .map(|row| row.values.clone())
        };
        let now = values(rows).unwrap_or_default();
        let before = values(earlier).unwrap_or_default();

        if now == before {
            out.push(Row { name, values: now }.line());
            continue;
        }

        let removed = before
            .iter()
            .filter(|value| !now.contains(value))
            .map(|value| format!("- {}", beginning(value, SENTENCE)));
        let added = now
            .iter()
            .filter(|value| !before.contains(value))
            .map(|value| format!("+ {}", beginning(value, SENTENCE)));

        let mut changes = removed.chain(added).peekable();
        if changes.peek().is_none() {
            // Only their order differs.
            out.push(
                Row {
                    name,
                    values: now.clone(),
                }
                .line(),
            );
        }

        out.extend(
            changes.enumerate().map(|(index, change)| {
                format!("{:<15} {change}", if index == 0 { name } else { "" })
            }),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_an_object_are_in_camel_case() {
        let rows = [
            Row::new("provider IDs", ["metal://"]),
            Row::new("wants to reach", [""; 0]),
        ];
        assert_eq!(
            serde_json::Value::Object(object(&rows)),
            serde_json::json!({"providerIDs": ["metal://"], "wantsToReach": []})
        );
    }

    #[test]
    fn a_comparison_shows_what_was_added_and_removed() {
        let earlier = [
            Row::new("provider", ["metal 1.0"]),
            Row::new("capabilities", ["instances", "zones"]),
            Row::new("imports", ["b", "a"]),
            Row::new("provider IDs", ["metal://"]),
        ];
        let now = [
            Row::new("provider", ["metal 1.1"]),
            Row::new("capabilities", ["instances", "routes"]),
            Row::new("imports", ["a", "b"]),
            Row::new("wants to reach", [""; 0]),
        ];
        let expected = "\
            provider        - metal 1.0\n                + metal 1.1\n\
            capabilities    - zones\n                + routes\n\
            imports         a, b\n\
            wants to reach  none\n\
            provider IDs    - metal://";
        assert_eq!(compared(&now, &earlier).join("\n"), expected);
    }
}
