//! Where a plugin does something else than in the recording.

use std::fmt;

use serde_json::Value;
use skydock_cloud::text::escape;

/// Maximum characters of a value in a message.
const SHOWN: usize = 300;

/// The first difference between a recording and its replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Number of the call in the recording; 0 is the instantiation.
    pub call: u64,
    /// The function that was called.
    pub function: String,
    /// What differs, for example `request 3`.
    pub what: String,
    /// What was recorded.
    pub expected: String,
    /// What came instead.
    pub came: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Each in its line, whatever the recording has.
        let [function, what, expected, came] =
            [&self.function, &self.what, &self.expected, &self.came].map(|text| escape(text));

        match self.call {
            0 => f.write_str("instantiation: ")?,
            number => write!(f, "call {number}, {function}: ")?,
        }

        write!(
            f,
            "{what} differs\n  recorded: {expected}\n  replayed: {came}"
        )
    }
}

/// Minimum number of `x` in a recording that may stand for a secret which this instance has not
/// been told by name.
const MASKED: usize = 8;

/// Returns true if a value is as recorded. Secrets are masked in a recording wherever any instance
/// has seen them; so may the beginning of a label be that happens to be a password. Such a text is
/// the same if everything around the mask is.
pub(super) fn alike(recorded: &Value, came: &Value) -> bool {
    match (recorded, came) {
        (Value::String(recorded), Value::String(came)) => recorded == came || masks(recorded, came),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| alike(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(key, one)| other.get(key).is_some_and(|other| alike(one, other)))
        }
        (one, other) => one == other,
    }
}

/// Returns true if the texts have the same length, and are the same where neither is masked: an
/// older recording may have masked less.
fn masks(recorded: &str, came: &str) -> bool {
    let recorded = recorded.as_bytes();
    let came = came.as_bytes();

    recorded.len() == came.len() && {
        let hidden = masked(recorded).zip(masked(came));
        let bytes = recorded.iter().zip(came);
        bytes
            .zip(hidden)
            .all(|((one, other), (recorded, came))| one == other || recorded || came)
    }
}

/// Returns for each byte whether it is part of a mask.
fn masked(text: &[u8]) -> impl Iterator<Item = bool> {
    text.chunk_by(|one, other| (*one == b'x') == (*other == b'x'))
        .flat_map(|run| {
            let is_mask = run.len() >= MASKED && run.starts_with(b"x");
            std::iter::repeat_n(is_mask, run.len())
        })
}

/// A place at which two values differ.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Mismatch {
    /// For example `.Ok[1].zone`; empty if it is the whole value.
    pub(super) path: String,
    /// What was recorded there.
    pub(super) expected: String,
    /// What came instead.
    pub(super) came: String,
}

/// Returns the first place at which two values differ.
pub(super) fn first(expected: &Value, came: &Value) -> Option<Mismatch> {
    let at = |key: String, one: &Value, other: &Value| {
        first(one, other).map(|inner| Mismatch {
            path: key + &inner.path,
            ..inner
        })
    };
    match (expected, came) {
        (one, other) if alike(one, other) => None,
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let mut pairs = one.iter().zip(other).enumerate();
            pairs.find_map(|(index, (one, other))| at(format!("[{index}]"), one, other))
        }
        (Value::Object(one), Value::Object(other)) if one.keys().eq(other.keys()) => {
            let mut pairs = one.iter().zip(other.values());
            pairs.find_map(|((key, one), other)| at(format!(".{key}"), one, other))
        }
        (Value::Array(one), Value::Array(other)) => Some(Mismatch {
            path: String::new(),
            expected: counted(one.len(), expected),
            came: counted(other.len(), came),
        }),
        _ => Some(Mismatch {
            path: String::new(),
            expected: shown(expected),
            came: shown(came),
        }),
    }
}

fn counted(count: usize, value: &Value) -> String {
    format!("{count} elements: {}", shown(value))
}

/// Returns a value as short JSON.
pub(super) fn shown(value: &Value) -> String {
    short(&value.to_string())
}

/// Returns the beginning of a text.
pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mask_stands_for_any_text_of_its_length() {
        let same = |one: &str, other: &str| alike(&json!({"a": [one]}), &json!({"a": [other]}));
        assert!(same("xxxxxxxxxx.io/name", "kubernetes.io/name") && same("a", "a"));
        assert!(
            !same("xxxxxxxxxx.io/name", "kubernetes.io/nama") && !same("xxxxxxxxxx", "kubernete")
        );
        assert!(same("kubernetes.io/name", "xxxxxxxxxx.io/name"));
        assert!(
            !same("box-1", "boy-1") && !same("xxxxxxx", "1234567"),
            "an ordinary text"
        );
    }

    #[test]
    fn the_first_different_field_is_found() {
        let one = json!({"Ok": [{"Ok": {"zone": "a", "labels": []}}, {"Ok": {"zone": "b", "labels": []}}]});
        assert_eq!(first(&one, &one.clone()), None);
        let mut other = one.clone();
        other["Ok"][1]["Ok"]["zone"] = json!("c");
        let found = first(&one, &other).unwrap();
        assert_eq!(
            found,
            Mismatch {
                path: ".Ok[1].Ok.zone".into(),
                expected: "\"b\"".into(),
                came: "\"c\"".into()
            }
        );

        other["Ok"][0]["Ok"]["labels"] = json!([["k", "v"]]);
        let found = first(&one, &other).unwrap();
        assert_eq!(
            (&*found.path, &*found.expected),
            (".Ok[0].Ok.labels", "0 elements: []")
        );
        assert_eq!(
            first(&json!({"Ok": 1}), &json!({"Err": 1})).unwrap().path,
            ""
        );
    }
}
