//! Masks secrets, so that no recording contains them.
//!
//! The gateway adds secrets of credentials later, and masks them in answers to the same requests.
//! What is masked here are those in other answers, and secrets that a plugin knows: all that
//! `skydock-secrets` finds, and the data of Secrets. Each byte is replaced by an `x`, so that lengths stay the same
//! and a plugin does the same with the masked value when it is replayed.

mod known;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use skydock_secrets::{has_secret, is_secret, secrets};

use self::known::Known;
use crate::functions;

/// The fields of objects that are a name with its value: that of the name, and that of the value.
const NAMED: [(&str, &str); 3] = [("name", "value"), ("key", "value"), ("Key", "Value")];

/// The annotation in which `kubectl` keeps what it has written.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Masks values, and remembers what it has masked.
#[derive(Debug, Default)]
pub(super) struct Masks {
    known: Mutex<Known>,
}

impl Masks {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    /// Masks all texts in the value.
    pub(super) fn mask_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.mask_text(text),
            Value::Array(all) => {
                if let [Value::String(name), Value::String(text)] = all.as_mut_slice()
                    && is_secret(name)
                {
                    *text = self.mask_completely(text);
                }

                all.iter_mut().for_each(|it| self.mask_value(it));
            }
            Value::Object(fields) => {
                for (name, content) in NAMED {
                    let name = fields.get(name).and_then(Value::as_str);
                    if name.is_some_and(is_secret)
                        && let Some(Value::String(text)) = fields.get_mut(content)
                    {
                        *text = self.mask_completely(text);
                    }
                }

                for (name, it) in fields.iter_mut() {
                    match it {
                        Value::String(text) if is_secret(name) => {
                            *text = self.mask_completely(text);
                        }
                        Value::Array(all) if is_secret(name) => {
                            all.iter_mut().for_each(|it| self.mask_element(it));
                        }
                        Value::String(text) if name == "base64" => {
                            *text = STANDARD.encode(
                                self.mask_bytes(&STANDARD.decode(&*text).unwrap_or_default()),
                            );
                        }
                        it => self.mask_value(it),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Masks an element of a list of secrets.
    fn mask_element(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.mask_completely(text),
            other => self.mask_value(other),
        }
    }

    /// Masks a function of the host with its answer.
    pub(super) fn mask_call(&self, function: &str, arguments: &mut Value, answer: &mut Value) {
        let first = arguments.get(0).and_then(Value::as_str).unwrap_or_default();
        match function {
            functions::OBJECTS_READ if first == "v1/Secret" => {
                if let Some(Value::String(json)) = answer.get_mut("Ok") {
                    self.mask_secret_object(json);
                }
            }
            // What a plugin keeps under such a key is a secret, whatever it looks like.
            functions::CACHE_GET | functions::CACHE_SET | functions::CACHE_RESERVE
                if has_secret(first) =>
            {
                arguments
                    .as_array_mut()
                    .into_iter()
                    .flatten()
                    .skip(1)
                    .for_each(|it| self.mask_payload(it));
                self.mask_payload(answer);
            }
            _ => {}
        }

        self.mask_value(arguments);
        self.mask_value(answer);
    }

    /// Masks bytes completely.
    fn mask_payload(&self, payload: &mut Value) {
        if let Some(Value::String(text)) = payload.get_mut("text") {
            *text = self.mask_completely(text);
        }

        if let Some(Value::String(text)) = payload.get_mut("base64") {
            *text = STANDARD.encode(vec![
                b'x';
                STANDARD.decode(&*text).unwrap_or_default().len()
            ]);
        }
    }

    /// Masks the data of a Secret in JSON.
    fn mask_secret_object(&self, json: &mut String) {
        let parsed: Value = serde_json::from_str(json).unwrap_or_default();

        let data = parsed.get("data").and_then(Value::as_object);
        for encoded in data
            .into_iter()
            .flat_map(serde_json::Map::values)
            .filter_map(Value::as_str)
        {
            let Ok(bytes) = STANDARD.decode(encoded) else {
                continue;
            };

            let masked = STANDARD.encode(vec![b'x'; bytes.len()]);
            // In the text itself, which stays as it is apart from its secrets. The controllers have
            // written it with `serde_json`, as `parsed` is quoted here.
            *json = json.replace(&format!("\"{encoded}\""), &format!("\"{masked}\""));

            if encoded.len() >= known::SHORTEST {
                self.known().add(encoded.to_owned(), masked);
            }

            if let Ok(text) = String::from_utf8(bytes) {
                self.known().learn(&text);
                // It may be a configuration that contains others.
                self.mask_text(&text);
            }
        }

        // Here, the data are in other words.
        let applied = parsed
            .pointer("/metadata/annotations")
            .and_then(|it| it.get(LAST_APPLIED));
        if let Some(applied) = applied.filter(|it| it.is_string()).map(Value::to_string) {
            // The quotes stay.
            let length = applied.len().saturating_sub(2);

            *json = json.replace(&applied, &format!("\"{}\"", "x".repeat(length)));
        }
    }

    /// Masks this secret wherever it occurs from here on.
    pub(super) fn know(&self, secret: &str) {
        self.known().learn(secret);
    }

    fn mask_completely(&self, text: &str) -> String {
        let mut known = self.known();
        learn(&mut known, text);
        "x".repeat(text.len())
    }

    /// Masks secrets in bytes, as far as they are text.
    pub(super) fn mask_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut masked = Vec::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            masked.extend_from_slice(self.mask_text(chunk.valid()).as_bytes());
            masked.extend_from_slice(chunk.invalid());
        }
        masked
    }

    fn mask_text(&self, text: &str) -> String {
        let found = secrets(text);
        let mut known = self.known();

        for packed in packed(text) {
            let mask = "x".repeat(packed.len());
            known.add(packed.to_owned(), mask);
        }

        found
            .iter()
            .filter_map(|it| text.get(it.range.clone()))
            .for_each(|secret| learn(&mut known, secret));

        // A mask is as long as its secret, so the ranges of `text` are those of `hidden`.
        let hidden = known.hide(text);
        let mut masked = String::new();
        let mut at = 0;

        for it in found {
            masked.push_str(hidden.get(at..it.range.start).unwrap_or_default());
            masked.push_str(&blank(text.get(it.range.clone()).unwrap_or_default()));
            at = it.range.end;
        }

        masked.push_str(hidden.get(at..).unwrap_or_default());
        masked
    }
}

/// Returns texts in Base64 that are compressed: gzip, zstd and zip. What is in them is not known.
fn packed(text: &str) -> impl Iterator<Item = &str> {
    const BEGINNINGS: [&str; 3] = ["H4sI", "KLUv/", "UEsDB"];
    /// Minimum bytes of such a text.
    const SHORTEST: usize = 24;
    let is_part = |c: char| c.is_ascii_alphanumeric() || "+/-_=".contains(c);

    let runs = text.split(move |c: char| !is_part(c));
    runs.filter(|run| {
        run.len() >= SHORTEST && BEGINNINGS.iter().any(|begin| run.starts_with(begin))
    })
}

/// Returns a mask with the length and the lines of a secret. That of a number is one, so that JSON
/// stays valid.
fn blank(secret: &str) -> String {
    if secret.bytes().all(|b| b.is_ascii_digit()) {
        return "1".repeat(secret.len());
    }

    let masked = |c: char| match c {
        c if c.is_whitespace() => c.into(),
        c => "x".repeat(c.len_utf8()),
    };

    secret.chars().map(masked).collect()
}

/// Learns a secret and its parts: a kind of authentication may be before it, and the fields of a
/// form behind it.
fn learn(known: &mut Known, secret: &str) {
    known.learn(secret.trim());

    let parts = secret.split(|c: char| c.is_whitespace() || ",&".contains(c));
    // The list of what is signed has names that each request and each response has, such as
    // `content-type`.
    let parts = parts.filter(|part| !part.starts_with("SignedHeaders="));

    parts
        .flat_map(|part| part.split(';'))
        .for_each(|part| known.learn(part));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn masked(text: &str) -> String {
        Masks::default().mask_text(text)
    }

    #[test]
    fn values_with_the_name_of_a_secret_are_masked() {
        for (text, expected) in [
            (
                r#"{"password": "hunter2", "user": "me"}"#,
                r#"{"password": "xxxxxxx", "user": "me"}"#,
            ),
            (
                "password: hunter2 # ours\nuser: me",
                "password: xxxxxxx # ours\nuser: me",
            ),
            (
                "[global]\nsecret-key=abc=\nregion=r",
                "[global]\nsecret-key=xxxx\nregion=r",
            ),
            (
                "user=me&client_secret=abc&x=1",
                "user=me&client_secret=xxx&x=1",
            ),
            (
                r#"{"a": "{\"token\":\"abc\"}"}"#,
                r#"{"a": "{\"token\":\"xxx\"}"}"#,
            ),
            (
                "api_key: |\n  abc\n  def\nuser: me",
                "api_key: |\n  xxx\n  xxx\nuser: me",
            ),
            (
                "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\nx",
                "-----BEGIN PRIVATE KEY-----\nxxx\n-----END PRIVATE KEY-----\nx",
            ),
            (
                r#"{"nextToken": "abc", "secretName": "tls", "tokenCount": 3}"#,
                r#"{"nextToken": "abc", "secretName": "tls", "tokenCount": 3}"#,
            ),
            (
                r#"{"password": 12345, "tokens": {"a": 1}}"#,
                r#"{"password": 11111, "tokens": {"a": 1}}"#,
            ),
            ("password", "password"),
            ("the token: ", "the token: "),
        ] {
            assert_eq!(masked(text), expected);
            assert_eq!(
                masked(expected),
                expected,
                "and masking again changes nothing"
            );
        }
    }

    // Holds: SEC-26
    #[test]
    fn what_is_compressed_and_encoded_is_masked() {
        let packed = "H4sIAAAAAAAC/6tWKkgsLi7PL0pRslLKKM0rSS1SqgUAT0vPyRQAAAA=";
        assert_eq!(
            masked(&format!("{{\"data\": \"{packed}\", \"a\": \"H4sI\"}}")),
            format!(
                "{{\"data\": \"{}\", \"a\": \"H4sI\"}}",
                "x".repeat(packed.len())
            )
        );
    }

    #[test]
    fn headers_options_and_fields_are_masked_everywhere_later() {
        let masks = Masks::default();
        let mut value =
            json!([["authorization", "Bearer abcdef"], {"apiToken": "zyxwvuts"}, ["region", "r1"]]);
        masks.mask_value(&mut value);
        assert_eq!(
            value,
            json!([["authorization", "xxxxxxxxxxxxx"], {"apiToken": "xxxxxxxx"}, ["region", "r1"]])
        );
        assert_eq!(masks.mask_text("it is zyxwvuts"), "it is xxxxxxxx");
    }

    #[test]
    fn names_of_signed_headers_are_no_secrets() {
        // A plugin that signs with a placeholder sends such a header.
        let masks = Masks::default();
        let signed = "AWS4-HMAC-SHA256 Credential=KEY/20261125/r/ec2/aws4_request, \
                      SignedHeaders=content-type;host;x-amz-date, Signature=0123456789abcdef";
        let mut value = json!([["authorization", signed]]);
        masks.mask_value(&mut value);
        assert_eq!(value[0][1], "x".repeat(signed.len()));

        let mut response = json!([
            ["content-type", "text/xml"],
            ["x-amz-date", "now"],
            ["a", "Signature=0123456789abcdef"]
        ]);
        masks.mask_value(&mut response);
        assert_eq!(
            response,
            json!([
                ["content-type", "text/xml"],
                ["x-amz-date", "now"],
                ["a", "x".repeat(26)]
            ])
        );
    }

    #[test]
    fn lists_named_values_and_bytes_are_masked() {
        let masks = Masks::default();
        let mut value = json!([
            {"tokens": ["abc", {"a": "b"}]},
            {"name": "DB_PASSWORD", "value": "abc"},
            {"name": "region", "value": "abc"},
            {"base64": STANDARD.encode(b"\xffpassword=abc\n\xff")},
            ["authorization", "Bearer abcdefgh"],
        ]);
        masks.mask_value(&mut value);
        assert_eq!(value[0], json!({"tokens": ["xxx", {"a": "b"}]}));
        assert_eq!(
            (&value[1]["value"], &value[2]["value"]),
            (&json!("xxx"), &json!("abc"))
        );
        assert_eq!(
            value[3]["base64"],
            STANDARD.encode(b"\xffpassword=xxx\n\xff")
        );
        assert_eq!(
            masks.mask_text("the token is abcdefgh"),
            "the token is xxxxxxxx",
            "without the kind"
        );

        let (mut arguments, mut answer) = (json!(["projects/7/token"]), json!({"text": "abc"}));
        masks.mask_call(functions::CACHE_GET, &mut arguments, &mut answer);
        assert_eq!(answer, json!({"text": "xxx"}));
    }

    #[test]
    fn what_kubectl_keeps_of_a_secret_is_masked() {
        let applied = json!({"stringData": {"cloud.conf": "user = me\nregion = r"}}).to_string();
        let object =
            json!({"metadata": {"annotations": {LAST_APPLIED: applied}}, "data": {"a": "YWI="}});
        let (mut arguments, mut answer) = (
            json!(["v1/Secret", "ns", "n"]),
            json!({"Ok": object.to_string()}),
        );
        Masks::default().mask_call(functions::OBJECTS_READ, &mut arguments, &mut answer);
        let text = answer["Ok"].as_str().unwrap();

        assert!(
            !text.contains("region") && text.len() == object.to_string().len(),
            "{text}"
        );
        assert!(serde_json::from_str::<Value>(text).is_ok());
    }

    #[test]
    fn data_of_a_secret_keeps_its_length() {
        let masks = Masks::default();
        let mut json =
            json!({"data": {"tls.key": STANDARD.encode("hunter2-hunter2"), "a": "YWI="}})
                .to_string();
        masks.mask_secret_object(&mut json);

        assert_eq!(
            json,
            json!({"data": {"tls.key": STANDARD.encode("x".repeat(15)), "a": "eHg="}}).to_string()
        );
        assert_eq!(
            masks.mask_text("key hunter2-hunter2"),
            format!("key {}", "x".repeat(15))
        );
    }
}
