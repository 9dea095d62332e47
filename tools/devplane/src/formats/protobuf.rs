//! Converts request bodies in `application/vnd.kubernetes.protobuf` to JSON, by the field numbers
//! in the schema.
//!
//! Go writes fields that are not pointers even if they are empty. An empty string, a zero and a
//! zero time therefore mean that the field is missing, as in JSON (`omitempty`). `false` is kept,
//! because it was set explicitly where it matters.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::resources::{
    object,
    schema::{Object, Type},
};

/// Start of every body; a `runtime.Unknown` follows.
const MAGIC: &[u8] = b"k8s\0";

/// A body that cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the body is not a Kubernetes object in protobuf: {0}")]
pub(crate) struct Malformed(&'static str);

pub(crate) fn decode(body: &[u8], schema: &Object) -> Result<Value, Malformed> {
    let envelope = body
        .strip_prefix(MAGIC)
        .ok_or(Malformed("it does not begin with k8s"))?;
    let mut api_version = "";
    let mut kind = "";
    let mut raw = [].as_slice();

    for field in Fields(envelope) {
        // The fields of `runtime.Unknown`: `typeMeta`, `raw`, `contentEncoding` and `contentType`.
        match field? {
            (1, Wire::Bytes(meta)) => {
                for field in Fields(meta) {
                    match field? {
                        (1, value) => api_version = text(value)?,
                        (2, value) => kind = text(value)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(value)) => raw = value,
            (3, value) if !text(value)?.is_empty() => {
                return Err(Malformed("its content is encoded"));
            }
            (4, value) if !matches!(text(value)?, "" | "application/vnd.kubernetes.protobuf") => {
                return Err(Malformed("its content is of another type"));
            }
            _ => {}
        }
    }

    let mut fields = message(raw, schema)?;
    for (name, value) in [("apiVersion", api_version), ("kind", kind)] {
        if !value.is_empty() {
            fields.insert(name.to_owned(), value.into());
        }
    }
    Ok(Value::Object(fields))
}

fn message(bytes: &[u8], schema: &Object) -> Result<Map<String, Value>, Malformed> {
    let mut fields = Map::new();
    for field in Fields(bytes) {
        let (number, wire) = field?;

        // An unknown field comes from a newer client.
        let Some((_, name, ty)) = schema.fields.iter().find(|(known, ..)| *known == number) else {
            continue;
        };

        match *ty {
            Type::Map(item) => {
                let (key, value) = entry(wire, *item)?;
                object::as_map(fields.entry(*name).or_insert(Value::Null)).insert(key, value);
            }
            Type::List(item) | Type::Set(item) => push(&mut fields, name, value(wire, *item)?),
            Type::Keyed(schema, ..) => push(&mut fields, name, value(wire, Type::Object(schema))?),
            ty => {
                let value = value(wire, ty)?;
                if !(value.is_null() || value == "" || value == 0) {
                    fields.insert((*name).to_owned(), value);
                }
            }
        }
    }
    Ok(fields)
}

fn push(fields: &mut Map<String, Value>, name: &str, value: Value) {
    if let Value::Array(list) = fields
        .entry(name)
        .or_insert_with(|| Value::Array(Vec::new()))
    {
        list.push(value);
    }
}

/// Decodes one entry of a map: a message of key and value.
fn entry(wire: Wire<'_>, item: Type) -> Result<(String, Value), Malformed> {
    let mut key = "";
    let mut content = Wire::Bytes(&[]);

    for field in Fields(wire.bytes()?) {
        match field? {
            (1, wire) => key = text(wire)?,
            (2, wire) => content = wire,
            _ => {}
        }
    }
    Ok((key.to_owned(), value(content, item)?))
}

fn value(wire: Wire<'_>, ty: Type) -> Result<Value, Malformed> {
    Ok(match ty {
        Type::Str => text(wire)?.into(),
        Type::Bool => (wire.number()? != 0).into(),
        Type::Int32 | Type::Int64 => wire.number()?.into(),
        Type::Bytes => BASE64.encode(wire.bytes()?).into(),
        Type::Object(schema) => Value::Object(message(wire.bytes()?, schema)?),
        Type::IntOrString => {
            let [kind, number, name] = parts(wire)?;
            let is_number = kind.map_or(Ok(0), Wire::number)? == 0;
            if is_number {
                number.map_or(Ok(0), Wire::number)?.into()
            } else {
                name.map_or(Ok(""), text)?.into()
            }
        }
        Type::Quantity => {
            let [quantity, ..] = parts(wire)?;
            quantity.map_or(Ok(""), text)?.into()
        }
        Type::Time | Type::MicroTime => {
            let [seconds, nanos, _] = parts(wire)?;
            if seconds.is_none() && nanos.is_none() {
                return Ok(Value::Null);
            }

            let nanos = i32::try_from(nanos.map_or(Ok(0), Wire::number)?).ok();
            let seconds = seconds.map_or(Ok(0), Wire::number)?;
            let time = nanos.and_then(|nanos| Timestamp::new(seconds, nanos).ok());
            let time = time.ok_or(Malformed("a time is out of range"))?;

            if matches!(ty, Type::Time) {
                object::time(time).into()
            } else {
                object::micro_time(time).into()
            }
        }
        Type::Any | Type::Map(_) | Type::List(_) | Type::Set(_) | Type::Keyed(..) => {
            return Err(Malformed(
                "a field is of a type that protobuf does not have",
            ));
        }
    })
}

/// Returns the first three fields of a small message.
fn parts(wire: Wire<'_>) -> Result<[Option<Wire<'_>>; 3], Malformed> {
    let mut parts = [None; 3];
    for field in Fields(wire.bytes()?) {
        let (number, wire) = field?;
        let index = usize::try_from(number)
            .ok()
            .and_then(|number| number.checked_sub(1));
        if let Some(part) = index.and_then(|index| parts.get_mut(index)) {
            *part = Some(wire);
        }
    }
    Ok(parts)
}

fn text(wire: Wire<'_>) -> Result<&str, Malformed> {
    std::str::from_utf8(wire.bytes()?).map_err(|_| Malformed("a text is not UTF-8"))
}

/// A value in its wire format.
#[derive(Clone, Copy, Debug)]
enum Wire<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    /// 4 or 8 bytes. No supported type has such a field.
    Fixed,
}

impl<'a> Wire<'a> {
    /// Returns a signed number. 32-bit numbers are encoded like 64-bit ones.
    fn number(self) -> Result<i64, Malformed> {
        match self {
            Self::Varint(bits) => Ok(bits.cast_signed()),
            _ => Err(Malformed("a number was expected")),
        }
    }

    fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(Malformed("a text or a message was expected")),
        }
    }
}

/// Iterates over the fields of a message: numbers and values.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Wire<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        // Behind an invalid field, it is unknown where the next one begins.
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<(u32, Wire<'a>), Malformed> {
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).ok().filter(|number| *number > 0);
        let number = number.ok_or(Malformed("a field has no valid number"))?;

        let wire = match key & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => self.take(8).map(|_| Wire::Fixed)?,
            2 => {
                let length = self.varint()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Wire::Fixed)?,
            _ => return Err(Malformed("a field is of an unknown wire type")),
        };
        Ok((number, wire))
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        /// Each byte contains seven bits: ten bytes hold 64 bits.
        const LONGEST: usize = 10;
        let mut bits = 0;

        for index in 0..LONGEST {
            let (first, rest) = self.0.split_first().ok_or(BROKEN_OFF)?;
            self.0 = rest;
            bits |= u64::from(first & 0x7f) << (7 * index);
            if first & 0x80 == 0 {
                return Ok(bits);
            }
        }
        Err(Malformed("a number is too long"))
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(length).map_err(|_| BROKEN_OFF)?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or(BROKEN_OFF)?;
        self.0 = rest;
        Ok(taken)
    }
}

const BROKEN_OFF: Malformed = Malformed("it breaks off");

#[cfg(test)]
mod tests;
