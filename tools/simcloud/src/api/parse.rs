//! Strict input: unknown fields and parameters are errors that name them.
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::api::error::{Error, Result};

/// Maximum number of bytes of a body.
pub(crate) const BODY: usize = 256 << 10;

/// Returns the number in an ID that begins with this prefix. Each number has one ID: `srv-01` is
/// none.
pub(crate) fn number(prefix: &str, id: &str) -> Option<u64> {
    let number: u64 = id.strip_prefix(prefix)?.parse().ok()?;
    (id == format!("{prefix}{number}")).then_some(number)
}

/// Reads a body.
pub(crate) fn body<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    if body.len() > BODY {
        return Err(Error::too_large(BODY));
    }

    let value: Value = serde_json::from_slice(body)
        .map_err(|error| Error::invalid(None, format!("the body is not valid JSON: {error}")))?;

    // serde would read an array as an object.
    if !value.is_object() {
        return Err(Error::invalid(None, "the body is not a JSON object"));
    }

    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        Error::invalid(
            // `.` is the whole body.
            Some(path.as_str()).filter(|path| *path != "."),
            error.inner().to_string(),
        )
    })
}

/// For an optional field that can be set to null: the outer none means that the field is not there.
pub(crate) fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Reads a query, all of whose parameters must be among the given ones. Returns the values in their
/// order.
pub(crate) fn query<const N: usize>(query: &str, names: [&str; N]) -> Result<[Option<String>; N]> {
    let mut values = [const { None }; N];
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let known = names
            .iter()
            .zip(&mut values)
            .find(|(known, _)| **known == name);

        let Some((_, place)) = known else {
            return Err(Error::field(name, "unknown parameter"));
        };

        if place.replace(value.into_owned()).is_some() {
            return Err(Error::field(name, "this parameter is there twice"));
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, PartialEq, Eq)]
    #[serde(deny_unknown_fields)]
    struct Thing {
        a: u8,
        #[serde(default)]
        list: Vec<Thing>,
        #[serde(default, deserialize_with = "present")]
        null: Option<Option<u8>>,
    }

    fn rejected(text: &str) -> String {
        serde_json::to_string(&body::<Thing>(text.as_bytes()).unwrap_err()).unwrap()
    }

    #[test]
    fn an_error_names_the_field() {
        for (text, field) in [
            (r#"{"a": 1, "b": 2}"#, r#""b""#),
            (
                r#"{"a": 1, "list": [{"a": 1}, {"a": 1, "c": 2}]}"#,
                r#""list[1].c""#,
            ),
            (r#"{"a": 300}"#, r#""a""#),
            ("{}", "null"),
            ("[]", "null"),
            ("{", "null"),
            ("", "null"),
        ] {
            let error = rejected(text);
            assert!(
                error.contains(&format!(r#""field":{field}"#))
                    && error.contains(r#""code":"invalid""#),
                "{error}"
            );
        }
        assert_eq!(
            body::<Thing>(&vec![b' '; BODY + 1]).unwrap_err().status,
            413
        );
    }

    #[test]
    fn null_differs_from_absent() {
        let null = |text: &str| body::<Thing>(text.as_bytes()).unwrap().null;
        assert_eq!(null(r#"{"a": 1}"#), None);
        assert_eq!(null(r#"{"a": 1, "null": null}"#), Some(None));
        assert_eq!(null(r#"{"a": 1, "null": 2}"#), Some(Some(2)));
    }

    #[test]
    fn a_query_has_known_parameters_once() {
        assert_eq!(
            query("b=%3D+x", ["a", "b"]),
            Ok([None, Some("= x".to_owned())])
        );
        assert_eq!(query("", ["a"]), Ok([None]));
        assert_eq!(
            query("c=1", ["a"]),
            Err(Error::field("c", "unknown parameter"))
        );
        assert!(query("a=1&a=2", ["a"]).is_err());
    }
}
