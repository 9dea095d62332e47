//! Schema of the supported objects: field names, types, and how lists are merged.
//!
//! One table has four uses: bodies are checked against it, protobuf bodies are decoded by its
//! numbers, strategic merge patches use its merge keys, and the OpenAPI document is generated from
//! it. Numbers and merge keys are those of the struct tags in `k8s.io/api`.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::resources::object;

pub(crate) mod core;
pub(crate) mod groups;
pub(crate) mod meta;

/// An object type with a fixed set of fields.
#[derive(Debug)]
pub(crate) struct Object {
    /// Name in the OpenAPI document, for example `io.k8s.api.core.v1.Node`.
    pub(crate) name: &'static str,
    /// Protobuf numbers, JSON names and types. A field with number 0 is not in the protobuf
    /// message: `apiVersion` and `kind`, which are listed for top-level objects only, are stored
    /// outside of it, and `managedFields` is never accepted from a client.
    pub(crate) fields: &'static [(u32, &'static str, Type)],
}

impl Object {
    pub(crate) fn field(&self, name: &str) -> Option<Type> {
        self.fields
            .iter()
            .find(|(_, field, _)| *field == name)
            .map(|(.., ty)| *ty)
    }
}

/// The type of one field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Type {
    Str,
    Bool,
    Int32,
    Int64,
    /// A port number or name.
    IntOrString,
    /// A resource quantity: a string, or a number that stands for one.
    Quantity,
    /// Bytes: base64 in JSON.
    Bytes,
    /// RFC 3339. Stored in whole seconds.
    Time,
    /// RFC 3339 with exactly six decimal places: Go clients cannot parse any other number.
    MicroTime,
    /// Any JSON, stored unchanged.
    Any,
    Object(&'static Object),
    Map(&'static Type),
    /// A list that is replaced as a whole.
    List(&'static Type),
    /// A list of scalars that is merged like a set.
    Set(&'static Type),
    /// A list of objects that are merged by this field.
    Keyed(&'static Object, &'static str),
}

/// A value that does not match the schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: expected {expected}, found {found}")]
pub(crate) struct Mismatch {
    path: String,
    expected: &'static str,
    found: &'static str,
}

/// Converts an object to its stored form. Wrong types are rejected; fields that are not in the
/// schema, nulls, and empty lists and maps are removed, like in a typed API server. Paths of
/// unknown fields are added to `unknown`.
pub(crate) fn decode(
    value: Value,
    object: &Object,
    unknown: &mut Vec<String>,
) -> Result<Value, Mismatch> {
    fields(value, object, "", unknown)
}

fn fields(
    value: Value,
    object: &Object,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<Value, Mismatch> {
    let map = match value {
        Value::Object(map) => map,
        other => return Err(mismatch(path, "an object", &other)),
    };

    let mut kept = Map::with_capacity(map.len());
    for (name, value) in map {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };

        let Some(ty) = object.field(&name) else {
            unknown.push(path);
            continue;
        };

        if value.is_null() {
            continue;
        }

        let value = typed(value, ty, &path, unknown)?;
        let empty = match ty {
            Type::Map(_) => value.as_object().is_some_and(Map::is_empty),
            Type::List(_) | Type::Set(_) | Type::Keyed(..) => {
                value.as_array().is_some_and(Vec::is_empty)
            }
            _ => false,
        };

        if !empty {
            kept.insert(name, value);
        }
    }
    Ok(Value::Object(kept))
}

fn typed(value: Value, ty: Type, path: &str, unknown: &mut Vec<String>) -> Result<Value, Mismatch> {
    let time = |text: &str| text.parse::<Timestamp>().ok();

    let fits = match ty {
        Type::Any => return Ok(value),
        Type::Object(object) => return fields(value, object, path, unknown),
        Type::Map(item) => {
            let Value::Object(map) = value else {
                return Err(mismatch(path, "a map", &value));
            };
            return map
                .into_iter()
                .map(|(key, value)| {
                    // Go decodes null as an empty value.
                    let value = if value.is_null() && matches!(item, Type::Str) {
                        "".into()
                    } else {
                        value
                    };
                    let value = typed(value, *item, &format!("{path}[{key}]"), unknown)?;
                    Ok((key, value))
                })
                .collect::<Result<Map<_, _>, _>>()
                .map(Value::Object);
        }
        Type::List(item) | Type::Set(item) => return items(value, *item, path, unknown),
        Type::Keyed(object, ..) => return items(value, Type::Object(object), path, unknown),
        Type::Str => value.is_string(),
        Type::Bool => value.is_boolean(),
        Type::Int32 => value
            .as_i64()
            .is_some_and(|number| i32::try_from(number).is_ok()),
        Type::Int64 => value.is_i64(),
        Type::IntOrString => {
            value.is_string()
                || value
                    .as_i64()
                    .is_some_and(|number| i32::try_from(number).is_ok())
        }
        Type::Quantity => match &value {
            Value::Number(number) => return Ok(number.to_string().into()),
            Value::String(text) => is_quantity(text),
            _ => false,
        },
        Type::Bytes => value
            .as_str()
            .is_some_and(|text| BASE64.decode(text).is_ok()),
        Type::Time => match value.as_str().and_then(time) {
            Some(time) => return Ok(object::time(time).into()),
            None => false,
        },
        Type::MicroTime => match value
            .as_str()
            .filter(|text| has_micros(text))
            .and_then(time)
        {
            Some(time) => return Ok(object::micro_time(time).into()),
            None => false,
        },
    };

    if fits {
        Ok(value)
    } else {
        Err(mismatch(path, ty.describe(), &value))
    }
}

fn items(
    value: Value,
    item: Type,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<Value, Mismatch> {
    let Value::Array(list) = value else {
        return Err(mismatch(path, "a list", &value));
    };
    list.into_iter()
        .enumerate()
        .map(|(index, value)| typed(value, item, &format!("{path}[{index}]"), unknown))
        .collect::<Result<Vec<_>, _>>()
        .map(Value::Array)
}

/// Returns whether the text is a number, optionally with an exponent or a suffix.
fn is_quantity(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned
        .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
        .unwrap_or(unsigned.len());

    let (number, suffix) = unsigned.split_at(end);
    let suffixes = [
        "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
    ];
    let exponent = suffix
        .strip_prefix(['e', 'E'])
        .is_some_and(|exponent| exponent.parse::<i32>().is_ok());

    number.parse::<f64>().is_ok() && (suffixes.contains(&suffix) || exponent)
}

fn has_micros(text: &str) -> bool {
    let fraction = text
        .split_once('.')
        .map(|(_, rest)| rest.bytes().take_while(u8::is_ascii_digit).count());
    fraction == Some(6)
}

fn mismatch(path: &str, expected: &'static str, value: &Value) -> Mismatch {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };

    // For these, a string is of the right type, and only its content is wrong.
    let formatted = [Type::Bytes, Type::Time, Type::MicroTime]
        .iter()
        .any(|ty| ty.describe() == expected);
    let found = if formatted && value.is_string() {
        "another text"
    } else {
        found
    };

    Mismatch {
        path: if path.is_empty() {
            "body".to_owned()
        } else {
            path.to_owned()
        },
        expected,
        found,
    }
}

impl Type {
    fn describe(self) -> &'static str {
        match self {
            Self::Str => "a string",
            Self::Bool => "a boolean",
            Self::Int32 => "a 32-bit integer",
            Self::Int64 => "a 64-bit integer",
            Self::IntOrString => "an integer or a string",
            Self::Quantity => "a quantity",
            Self::Bytes => "bytes in base64",
            Self::Time => "a time as in RFC 3339",
            Self::MicroTime => "a time as in RFC 3339 with six digits behind the point",
            Self::Any => "anything",
            Self::Object(_) => "an object",
            Self::Map(_) => "a map",
            Self::List(_) | Self::Set(_) | Self::Keyed(..) => "a list",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(value: Value) -> (Result<Value, String>, Vec<String>) {
        let mut unknown = Vec::new();
        let result = decode(value, &core::SERVICE, &mut unknown).map_err(|error| error.to_string());
        (result, unknown)
    }

    #[test]
    fn rejects_a_wrong_type_with_its_path() {
        let (result, _) = service(json!({"spec": {"ports": [{"port": 80}, {"port": "eighty"}]}}));
        assert_eq!(
            result.unwrap_err(),
            "spec.ports[1].port: expected a 32-bit integer, found a string"
        );
        let (result, _) = service(json!({"metadata": {"labels": {"a": 1}}}));
        assert_eq!(
            result.unwrap_err(),
            "metadata.labels[a]: expected a string, found a number"
        );
        let (result, _) = service(json!({"metadata": {"deletionTimestamp": "yesterday"}}));
        assert!(result.unwrap_err().contains("RFC 3339"));
        assert_eq!(
            service(json!([])).0.unwrap_err(),
            "body: expected an object, found a list"
        );
    }

    #[test]
    fn times_are_stored_in_a_form_that_go_clients_can_read() {
        let event =
            |body| decode(body, &core::EVENT, &mut Vec::new()).map_err(|error| error.to_string());
        let kept = event(
            json!({"lastTimestamp": "2024-01-01T01:00:00.5+01:00", "eventTime": "2024-01-01T00:00:00.123456Z"}),
        );
        let expected = json!({"lastTimestamp": "2024-01-01T00:00:00Z", "eventTime": "2024-01-01T00:00:00.123456Z"});
        assert_eq!(kept.unwrap(), expected);
        for time in ["2024-01-01T00:00:00Z", "2024-01-01T00:00:00.123Z"] {
            assert!(
                event(json!({"eventTime": time}))
                    .unwrap_err()
                    .contains("six digits"),
                "{time}"
            );
        }
    }

    #[test]
    fn bytes_are_base64() {
        let map = |text| {
            decode(
                json!({"binaryData": {"a": text}}),
                &core::CONFIG_MAP,
                &mut Vec::new(),
            )
        };
        assert!(map("aGVsbG8=").is_ok());
        assert_eq!(
            map("?").unwrap_err().to_string(),
            "binaryData[a]: expected bytes in base64, found another text"
        );
    }

    #[test]
    fn unknown_fields_are_reported_and_dropped() {
        let (result, unknown) =
            service(json!({"spec": {"prots": [], "type": "NodePort"}, "extra": 1}));
        assert_eq!(result.unwrap(), json!({"spec": {"type": "NodePort"}}));
        assert_eq!(unknown, ["extra", "spec.prots"]);
    }

    #[test]
    fn nulls_and_empty_collections_are_dropped() {
        let body = json!({"metadata": {"creationTimestamp": null, "labels": {}, "finalizers": []}, "status": {"loadBalancer": {}}});
        assert_eq!(
            service(body).0.unwrap(),
            json!({"metadata": {}, "status": {"loadBalancer": {}}})
        );
    }
}
