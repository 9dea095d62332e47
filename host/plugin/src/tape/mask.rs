//! Masks secrets, so that no recording contains them.
//!
//! Secrets of credentials never come here: the gateway adds them later, and masks them in answers. What is masked here are secrets that
//! a plugin knows: values with the name of a secret, private keys, and the data of Secrets. Each byte is replaced by an `x`, so that
//! lengths stay the same and a plugin does the same with the masked value when it is replayed.

use std::ops::Range;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

/// Minimum bytes of a secret that is masked wherever it occurs later. Shorter ones are ordinary words.
const SHORTEST: usize = 8;

/// Parts of names of secrets, without the characters between words.
const NAMES: [&str; 21] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "privatekey",
    "accesstoken",
    "authtoken",
    "bearertoken",
    "idtoken",
    "refreshtoken",
    "sessiontoken",
    "securitytoken",
    "subjecttoken",
    "apikey",
    "apitoken",
    "accountkey",
    "credential",
    "authorization",
    "cookie",
    "signature",
    "clientkeydata",
];

/// Ends of names of what only refers to a secret.
const REFERENCES: [&str; 9] = ["name", "namespace", "ref", "file", "path", "url", "type", "kind", "version"];

/// Masks values, and remembers what it has masked.
#[derive(Debug, Default)]
pub(super) struct Masks {
    /// Secrets, and what replaces them.
    known: Vec<(String, String)>,
}

impl Masks {
    /// Masks all texts in the value.
    pub(super) fn value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(all) => {
                if let [Value::String(name), Value::String(text)] = all.as_mut_slice()
                    && is_secret(name)
                {
                    *text = self.whole(text);
                }
                all.iter_mut().for_each(|it| self.value(it));
            }
            Value::Object(fields) => {
                for (name, it) in fields.iter_mut() {
                    match it {
                        Value::String(text) if is_secret(name) => *text = self.whole(text),
                        it => self.value(it),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Masks a function of the host with its answer.
    pub(super) fn call(&mut self, function: &str, arguments: &mut Value, answer: &mut Value) {
        let first = arguments.get(0).and_then(Value::as_str).unwrap_or_default();
        match function {
            "objects.read" if first == "v1/Secret" => {
                if let Some(Value::String(json)) = answer.get_mut("Ok") {
                    self.secret_object(json);
                }
            }
            "cache.get" | "cache.set" | "cache.reserve" if is_secret(first) => {
                arguments.as_array_mut().into_iter().flatten().skip(1).for_each(|it| self.payload(it));
                self.payload(answer);
            }
            _ => {}
        }
        self.value(arguments);
        self.value(answer);
    }

    /// Masks bytes completely.
    fn payload(&mut self, payload: &mut Value) {
        if let Some(Value::String(text)) = payload.get_mut("text") {
            *text = self.whole(text);
        }
        if let Some(Value::String(text)) = payload.get_mut("base64") {
            *text = STANDARD.encode(vec![b'x'; STANDARD.decode(&*text).unwrap_or_default().len()]);
        }
    }

    /// Masks the data of a Secret in JSON.
    pub(super) fn secret_object(&mut self, json: &mut String) {
        let parsed: Value = serde_json::from_str(json).unwrap_or_default();
        let data = parsed.get("data").and_then(Value::as_object);
        for encoded in data.into_iter().flat_map(serde_json::Map::values).filter_map(Value::as_str) {
            let Ok(bytes) = STANDARD.decode(encoded) else { continue };
            let masked = STANDARD.encode(vec![b'x'; bytes.len()]);
            *json = json.replace(&format!("\"{encoded}\""), &format!("\"{masked}\""));
            self.learn(encoded, masked);
            if let Ok(text) = String::from_utf8(bytes) {
                self.learn(&text, "x".repeat(text.len()));
            }
        }
    }

    fn learn(&mut self, secret: &str, masked: String) {
        if secret.len() >= SHORTEST && secret != masked && self.known.iter().all(|(known, _)| known != secret) {
            self.known.push((secret.to_owned(), masked));
        }
    }

    fn whole(&mut self, text: &str) -> String {
        let masked = "x".repeat(text.len());
        self.learn(text, masked.clone());
        masked
    }

    fn text(&mut self, text: &str) -> String {
        let mut masked = text.to_owned();
        for range in secrets(text) {
            let secret = text.get(range.clone()).unwrap_or_default();
            secret.split_whitespace().for_each(|word| self.learn(word, "x".repeat(word.len())));
            let blank: String =
                secret.chars().map(|c| if c.is_whitespace() { c.into() } else { "x".repeat(c.len_utf8()) }).collect();
            masked.replace_range(range, &blank);
        }
        for (secret, replacement) in &self.known {
            if masked.contains(secret.as_str()) {
                masked = masked.replace(secret.as_str(), replacement);
            }
        }
        masked
    }
}

/// Returns true for the name of a secret.
fn is_secret(name: &str) -> bool {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let is_named =
        name == "token" || name.ends_with("key") && name.contains("secret") || NAMES.iter().any(|it| name.contains(it));
    is_named && !REFERENCES.iter().any(|end| name.ends_with(end))
}

/// Returns where a text contains secrets: after a name and `:` or `=`, and in private keys. YAML, JSON, TOML, INI and forms have this in
/// common.
fn secrets(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let start = at + rest.find(is_word).unwrap_or(rest.len());
        let word = text.get(start..).unwrap_or_default();
        let end = start + word.find(|c| !is_word(c)).unwrap_or(word.len());
        at = end;
        if is_secret(text.get(start..end).unwrap_or_default())
            && let Some(range) = value_after(text, start, end)
        {
            at = range.end.max(end);
            found.push(range);
        }
    }
    found.extend(private_keys(text));
    found.sort_unstable_by_key(|range| range.start);
    found.dedup_by(|later, earlier| {
        let overlaps = later.start < earlier.end;
        earlier.end = if overlaps { earlier.end.max(later.end) } else { earlier.end };
        overlaps
    });
    found.retain(|range| !range.is_empty());
    found
}

/// Returns the range of the value of a name at `start..end`.
fn value_after(text: &str, start: usize, end: usize) -> Option<Range<usize>> {
    let is_quoted = text.get(..start).is_some_and(|before| before.ends_with(['"', '\'']));
    let quotes = ['"', '\'', '\\'];
    let rest = text.get(end..)?;
    let rest = rest.trim_start_matches(quotes).trim_start_matches([' ', '\t']);
    let rest = rest.strip_prefix([':', '=']).map(|rest| rest.trim_start_matches([' ', '\t']))?;
    let begin = text.len() - rest.len();
    let inner = rest.trim_start_matches('\\');
    if let Some(quote) = inner.chars().next().filter(|c| ['"', '\''].contains(c)) {
        let from = text.len() - inner.len() + 1;
        let inner = text.get(from..)?;
        let is_nested = rest.starts_with('\\');
        let mut escaped = false;
        let length = inner.find(|c| {
            let ends = c == quote && !escaped || is_nested && c == '\\';
            escaped = c == '\\' && !escaped;
            ends
        });
        return Some(from..from + length.unwrap_or(inner.len()));
    }
    if is_quoted {
        // A number or a nested value: replacing it would make the text invalid.
        return None;
    }
    if rest.starts_with(['|', '>']) {
        return Some(block(text, start, begin));
    }
    let length = rest.find(|c: char| c.is_whitespace() || ",&;}]\"'".contains(c)).unwrap_or(rest.len());
    Some(begin..begin + length)
}

/// Returns the range of a block of YAML: the lines after the value at `begin` that are indented more than its name at `start`.
fn block(text: &str, start: usize, begin: usize) -> Range<usize> {
    let line = text.get(..start).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    let indent = start - line;
    let first = text.get(begin..).and_then(|rest| rest.find('\n')).map_or(text.len(), |at| begin + at + 1);
    let mut end = first;
    for line in text.get(first..).unwrap_or_default().split_inclusive('\n') {
        let blank = line.trim().is_empty();
        if !blank && line.len() - line.trim_start().len() <= indent {
            break;
        }
        end += line.len();
    }
    first..end
}

/// Returns the ranges between the lines of PEM around private keys.
fn private_keys(text: &str) -> impl Iterator<Item = Range<usize>> {
    const BEGIN: &str = "PRIVATE KEY-----";
    text.match_indices(BEGIN).filter_map(|(at, _)| {
        let from = at + BEGIN.len();
        let rest = text.get(from..)?;
        let end = rest.find("-----").unwrap_or(rest.len());
        // The one after END has no data behind it.
        text.get(..at)
            .is_some_and(|before| before.rfind("BEGIN").is_some_and(|it| at - it < 24))
            .then_some(from..from + end)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn masked(text: &str) -> String {
        Masks::default().text(text)
    }

    // Holds: OPS-143
    #[test]
    fn values_with_the_name_of_a_secret_are_masked() {
        for (text, expected) in [
            (r#"{"password": "hunter2", "user": "me"}"#, r#"{"password": "xxxxxxx", "user": "me"}"#),
            ("password: hunter2 # ours\nuser: me", "password: xxxxxxx # ours\nuser: me"),
            ("[global]\nsecret-key=abc=\nregion=r", "[global]\nsecret-key=xxxx\nregion=r"),
            ("user=me&client_secret=abc&x=1", "user=me&client_secret=xxx&x=1"),
            (r#"{"a": "{\"token\":\"abc\"}"}"#, r#"{"a": "{\"token\":\"xxx\"}"}"#),
            ("api_key: |\n  abc\n  def\nuser: me", "api_key: |\n  xxx\n  xxx\nuser: me"),
            (
                "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\nx",
                "-----BEGIN PRIVATE KEY-----\nxxx\n-----END PRIVATE KEY-----\nx",
            ),
            (
                r#"{"nextToken": "abc", "secretName": "tls", "tokenCount": 3}"#,
                r#"{"nextToken": "abc", "secretName": "tls", "tokenCount": 3}"#,
            ),
            ("password", "password"),
            ("the token: ", "the token: "),
        ] {
            assert_eq!(masked(text), expected);
            assert_eq!(masked(expected), expected, "and masking again changes nothing");
        }
    }

    // Holds: OPS-143
    #[test]
    fn headers_options_and_fields_are_masked_everywhere_later() {
        let mut masks = Masks::default();
        let mut value = json!([["authorization", "Bearer abcdef"], {"apiToken": "zyxwvuts"}, ["region", "r1"]]);
        masks.value(&mut value);
        assert_eq!(value, json!([["authorization", "xxxxxxxxxxxxx"], {"apiToken": "xxxxxxxx"}, ["region", "r1"]]));
        assert_eq!(masks.text("it is zyxwvuts"), "it is xxxxxxxx");
    }

    // Holds: OPS-143
    #[test]
    fn data_of_a_secret_keeps_its_length() {
        let mut masks = Masks::default();
        let mut json = json!({"data": {"tls.key": STANDARD.encode("hunter2-hunter2"), "a": "YWI="}}).to_string();
        masks.secret_object(&mut json);
        assert_eq!(json, json!({"data": {"tls.key": STANDARD.encode("x".repeat(15)), "a": "eHg="}}).to_string());
        assert_eq!(masks.text("key hunter2-hunter2"), format!("key {}", "x".repeat(15)));
    }
}
