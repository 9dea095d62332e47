//! `${NAME}` in hooks: values from outside the file, which are not shown in reports.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use serde_json::Value;

/// Where the values come from, and which were used.
pub(super) struct Variables {
    given: BTreeMap<String, String>,
    used: Mutex<BTreeMap<String, String>>,
}

impl Variables {
    /// Values that are not given are those of environment variables.
    pub(super) fn new(given: BTreeMap<String, String>) -> Self {
        Self {
            given,
            used: Mutex::default(),
        }
    }

    /// Replaces `${NAME}` in a text.
    ///
    /// # Errors
    /// A sentence, if there is no such value.
    pub(super) fn expand(&self, text: &str) -> Result<String, String> {
        let mut out = String::new();
        let mut rest = text;

        while let Some((before, after)) = rest.split_once("${") {
            let Some((name, behind)) = after.split_once('}') else {
                return Err(format!("`${{{after}` has no closing brace"));
            };

            out.push_str(before);
            out.push_str(&self.value(name)?);
            rest = behind;
        }

        Ok(out + rest)
    }

    /// Replaces `${NAME}` in all texts of a value.
    ///
    /// # Errors
    /// As [`Variables::expand`].
    pub(super) fn expand_all(&self, value: &Value) -> Result<Value, String> {
        Ok(match value {
            Value::String(text) => Value::String(self.expand(text)?),
            Value::Array(all) => Value::Array(
                all.iter()
                    .map(|it| self.expand_all(it))
                    .collect::<Result<_, _>>()?,
            ),
            Value::Object(all) => {
                let expanded = all
                    .iter()
                    .map(|(key, it)| Ok((key.clone(), self.expand_all(it)?)));
                Value::Object(expanded.collect::<Result<_, String>>()?)
            }
            other => other.clone(),
        })
    }

    fn value(&self, name: &str) -> Result<String, String> {
        if let Some(value) = self.given.get(name) {
            return Ok(value.clone());
        }

        let value = std::env::var(name)
            .map_err(|_| format!("the environment variable {name} is not set"))?;

        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.insert(name.to_owned(), value.clone());

        Ok(value)
    }

    /// Returns the text with names instead of the values of environment variables: they may be
    /// secrets.
    pub(super) fn redact(&self, text: &str) -> String {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let mut values: Vec<_> = used.iter().filter(|(_, value)| !value.is_empty()).collect();

        // A value may be part of another.
        values.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));

        values
            .into_iter()
            .fold(text.to_owned(), |text, (name, value)| {
                text.replace(value, &format!("${{{name}}}"))
            })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_come_from_outside_and_are_not_shown() {
        let variables = Variables::new([("URL".to_owned(), "http://x".to_owned())].into());
        assert_eq!(variables.expand("${URL}/a").unwrap(), "http://x/a");
        let home = std::env::var("PATH").unwrap();
        let expanded = variables
            .expand_all(&json!({"a": ["${URL} ${PATH}", 1]}))
            .unwrap();
        assert_eq!(expanded, json!({"a": [format!("http://x {home}"), 1]}));
        assert_eq!(
            variables.redact(&format!("http://x {home}")),
            "http://x ${PATH}"
        );
        assert!(
            variables
                .expand("${SKYDOCK_NO_SUCH}")
                .unwrap_err()
                .contains("SKYDOCK_NO_SUCH is not set")
        );
        assert!(variables.expand("${URL").is_err());
    }
}
