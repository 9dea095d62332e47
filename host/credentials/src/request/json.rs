//! The keys of a JSON object, without its values.

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};

/// The body is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotJson;

/// Returns the keys of the objects in the text, also in lists, but not those of objects within them.
/// Other values have none.
///
/// # Errors
/// [`NotJson`], also if only a lenient server would accept it.
pub fn keys(text: &[u8]) -> Result<Vec<String>, NotJson> {
    // Some servers skip a byte order mark.
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);

    let mut all = Vec::new();
    for keys in serde_json::Deserializer::from_slice(text).into_iter::<Keys>() {
        let Keys(keys) = keys.map_err(|_| NotJson)?;
        all.extend(keys);
    }

    Ok(all)
}

/// The keys of an object; none for other values.
#[derive(Default)]
struct Keys(Vec<String>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Collect)
    }
}

struct Collect;

impl<'de> Visitor<'de> for Collect {
    type Value = Keys;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
        let mut keys = Vec::new();
        while let Some((key, IgnoredAny)) = map.next_entry()? {
            keys.push(key);
        }
        Ok(Keys(keys))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Keys, A::Error> {
        let mut all = Keys::default();
        while let Some(Keys(keys)) = seq.next_element()? {
            all.0.extend(keys);
        }
        Ok(all)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Keys, E> {
        Ok(Keys::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Keys, E> {
        Ok(Keys::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Keys, E> {
        Ok(Keys::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Keys, E> {
        Ok(Keys::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<Keys, E> {
        Ok(Keys::default())
    }

    fn visit_unit<E>(self) -> Result<Keys, E> {
        Ok(Keys::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_of_outer_objects_are_returned() {
        let table: [(&str, &[&str]); 6] = [
            (r#"{"a": {"b": 1}, "\u0061": [{"c": 2}]}"#, &["a", "a"]),
            (r#"[{"a": 1.5}, -1, null, true, "x"]"#, &["a"]),
            ("\u{feff}{\"a\": 1}", &["a"]),
            ("{\"a\": 1}\n{\"b\": 2}", &["a", "b"]),
            ("1.5 -1 1 null true \"x\"", &[]),
            ("", &[]),
        ];
        for (text, expected) in table {
            assert_eq!(keys(text.as_bytes()).unwrap(), expected, "{text}");
        }
        for text in ["{'a': 1}", "{a: 1}", "{\"a\": 1", "/**/{}"] {
            assert_eq!(keys(text.as_bytes()), Err(NotJson), "{text}");
        }
    }
}
