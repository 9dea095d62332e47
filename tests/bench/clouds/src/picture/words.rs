//! Stable words for values that differ in each run. Pure.

use serde_json::{Map, Value};

/// Fields with times, counts, or numbers of creations and changes.
const TIMES: [&str; 14] = [
    "id",
    "standard_attr_id",
    "created_at",
    "updated_at",
    "revision_number",
    "CreatedTime",
    "createTime",
    "managedFields",
    "creationTimestamp",
    "resourceVersion",
    "uid",
    "generation",
    "lastTransitionTime",
    "lastHeartbeatTime",
];
/// Minimum length of a run of hexadecimal digits with a decimal digit that is considered an ID.
const ID: usize = 8;
/// Minimum length without a decimal digit. No word of English has that many letters up to f.
const LETTERS: usize = 10;

/// Replacements of texts by words.
#[derive(Debug, Default)]
pub(crate) struct Words(Vec<(String, String)>);

impl Words {
    /// Replaces `text` by `word` wherever it is a separate word.
    pub(crate) fn say(&mut self, text: &str, word: &str) {
        if !text.is_empty() {
            self.0.push((text.to_owned(), word.to_owned()));
            self.0
                .sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        }
    }

    /// Returns a text with all replacements. Remaining IDs are replaced by `ID`.
    pub(crate) fn text(&self, text: &str) -> String {
        let mut told = text.to_owned();
        for (from, to) in &self.0 {
            told = replaced(&told, from, to);
        }
        without_ids(&told)
    }

    /// Returns a value and its keys with all replacements, without fields of [`TIMES`] and empty
    /// fields.
    pub(crate) fn value(&self, value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let kept = fields
                    .iter()
                    .filter(|(key, value)| !TIMES.contains(&key.as_str()) && !is_nothing(value));
                Value::Object(
                    kept.map(|(key, value)| (self.text(key), self.value(value)))
                        .collect::<Map<_, _>>(),
                )
            }
            Value::Array(values) => {
                Value::Array(values.iter().map(|value| self.value(value)).collect())
            }
            Value::String(text) => Value::String(self.text(text)),
            Value::Number(number) => match self.text(&number.to_string()) {
                told if told == number.to_string() => value.clone(),
                told => Value::String(told),
            },
            other => other.clone(),
        }
    }
}

/// Returns true for empty values, because some APIs do not distinguish them from absent fields.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Replaces a text that has no letter or digit directly before or after it.
fn replaced(text: &str, from: &str, to: &str) -> String {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let (mut told, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(from) {
        let previous = before
            .chars()
            .next_back()
            .or_else(|| told.chars().next_back());
        let stands_alone = !is_word(previous) && !is_word(after.chars().next());
        told.push_str(before);
        told.push_str(if stands_alone { to } else { from });
        rest = after;
    }
    told + rest
}

/// Replaces IDs: runs of hexadecimal digits, with at least one decimal digit if they are short. A
/// UUID is one ID.
fn without_ids(text: &str) -> String {
    let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    let is_id = |run: &str, least: usize| {
        let is_word = run.len() < LETTERS && !run.contains(|c: char| c.is_ascii_digit());
        run.len() >= least && run.chars().all(is_digit) && !is_word
    };
    let mut told = String::new();
    for word in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '-') {
        let end = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        let parts: Vec<&str> = end.split('-').collect();
        let is_uuid =
            parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && is_id(&parts.concat(), 32);
        if is_uuid {
            told.push_str("ID");
        } else {
            let parts: Vec<&str> = parts
                .iter()
                .map(|part| if is_id(part, ID) { "ID" } else { part })
                .collect();
            told.push_str(&parts.join("-"));
        }
        told.push_str(word.get(end.len()..).unwrap_or_default());
    }
    told
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_whole_words_are_replaced_longest_first() {
        let mut words = Words::default();
        words.say("10.9.0.4", "address(node-1)");
        words.say("10.9.0.42", "address(node-2)");
        assert_eq!(
            words.text("10.9.0.42/32, 10.9.0.4"),
            "address(node-2)/32, address(node-1)"
        );
        assert_eq!(words.text("10.9.0.43"), "10.9.0.43");
    }

    #[test]
    fn text_that_looks_like_an_id_is_replaced() {
        let words = Words::default();
        assert_eq!(
            words.text("sg-0123456789abcdef0 of k8s-web-1a2b3c4d5e"),
            "sg-ID of k8s-web-ID"
        );
        assert_eq!(
            words.text("deadbeef cafe 12345 k8s-web-aeaafdaedf"),
            "deadbeef cafe 12345 k8s-web-ID"
        );
        assert_eq!(
            words.text("lb-0c7ef7d8-3a3c-4c24-8a4c-d1bd72eb7c51: 1"),
            "lb-ID-3a3c-4c24-8a4c-ID: 1"
        );
        assert_eq!(words.text("(0c7ef7d8-3a3c-4c24-8a4c-d1bd72eb7c51)"), "(ID)");
    }

    #[test]
    fn times_and_empty_values_are_omitted() {
        let value = json!({"created_at": "now", "name": "", "port": 80, "tags": [], "on": true});
        assert_eq!(
            Words::default().value(&value),
            json!({"port": 80, "on": true})
        );
    }

    #[test]
    fn numbers_are_replaced_with_words() {
        let mut words = Words::default();
        words.say("31234", "node port");
        assert_eq!(
            words.value(&json!({"port": 31234})),
            json!({"port": "node port"})
        );
    }
}
