//! Reads values of any type from a tree. An error says where the mistake is.

use std::fmt;

use serde::{
    Deserializer, de,
    de::{DeserializeSeed, EnumAccess, MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor},
    forward_to_deserialize_any,
};

use super::{Entry, Node, Path, Place, Step, Value};

/// A mistake in a value.
#[derive(Debug)]
pub(crate) struct Fault {
    /// From the mistake outward.
    steps: Vec<Step>,
    at: Option<Place>,
    pub(crate) mistake: Mistake,
}

/// A kind of mistake.
#[derive(Debug)]
pub(crate) enum Mistake {
    /// The value has a field that does not exist.
    UnknownField {
        field: String,
        expected: &'static [&'static str],
    },
    /// The value is none of these words.
    UnknownWord {
        word: String,
        expected: &'static [&'static str],
    },
    /// The value does not have a field that it needs.
    MissingField(&'static str),
    /// The value is wrong in another way.
    Other(String),
}

impl Fault {
    fn new(mistake: Mistake) -> Self {
        Self {
            steps: Vec::new(),
            at: None,
            mistake,
        }
    }

    /// Returns the path of the wrong value.
    pub(crate) fn path(&self) -> Path {
        self.steps.iter().rev().cloned().collect()
    }

    pub(crate) fn place(&self) -> Option<Place> {
        self.at
    }

    /// Sets the place, unless it is known more precisely.
    pub(crate) fn at(mut self, place: Place) -> Self {
        self.at.get_or_insert(place);
        self
    }

    /// Notes that the mistake is in this part of a value.
    pub(crate) fn within(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.path(), self.mistake)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(Mistake::Other(message.to_string()))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let field = field.to_owned();
        Self::new(Mistake::UnknownField { field, expected })
    }

    fn unknown_variant(word: &str, expected: &'static [&'static str]) -> Self {
        let word = word.to_owned();
        Self::new(Mistake::UnknownWord { word, expected })
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(Mistake::MissingField(field))
    }
}

impl Node {
    /// Calls the visitor with a value that this node has whatever type is expected.
    fn visit<'de, V: Visitor<'de>>(&'de self, visitor: V) -> Result<V::Value, Fault> {
        match &self.value {
            Value::List(items) => visitor.visit_seq(Items {
                rest: items.iter().enumerate(),
            }),
            Value::Map(entries) => visitor.visit_map(Entries {
                rest: entries.iter(),
                next: None,
            }),
            Value::Scalar { .. } if self.is_null() => visitor.visit_unit(),
            Value::Scalar { text, plain: true } => match text.as_str() {
                // Other words for booleans are texts, unless a boolean is expected.
                "true" => visitor.visit_bool(true),
                "false" => visitor.visit_bool(false),
                text => match (text.parse(), text.parse(), text.parse()) {
                    (Ok(number), ..) => visitor.visit_u64(number),
                    (_, Ok(number), _) => visitor.visit_i64(number),
                    (.., Ok(number)) if has_digit(text) => visitor.visit_f64(number),
                    _ => visitor.visit_str(text),
                },
            },
            Value::Scalar { text, .. } => visitor.visit_str(text),
            Value::Removed => visitor.visit_unit(),
        }
    }

    fn unexpected(&self) -> Unexpected<'_> {
        match &self.value {
            Value::List(_) => Unexpected::Seq,
            Value::Map(_) => Unexpected::Map,
            Value::Scalar { text, .. } if !self.is_null() => Unexpected::Str(text),
            Value::Scalar { .. } | Value::Removed => Unexpected::Unit,
        }
    }
}

/// `inf` and `nan` are not numbers in YAML.
fn has_digit(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

/// The words for booleans of YAML 1.1.
fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "y" | "on" => Some(true),
        "false" | "no" | "n" | "off" => Some(false),
        _ => None,
    }
}

/// A text of any form: a number or a boolean is one too if a text is expected.
macro_rules! texts {
    ($($name:ident)*) => {$(
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            let read = match self.text() {
                Some(text) => visitor.visit_str(text),
                None => Err(de::Error::invalid_type(self.unexpected(), &visitor)),
            };
            read.map_err(|fault: Fault| fault.at(self.at))
        }
    )*};
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.visit(visitor).map_err(|fault| fault.at(self.at))
    }

    texts! { deserialize_str deserialize_string deserialize_char deserialize_identifier }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.text().and_then(boolean) {
            Some(value) => visitor.visit_bool(value),
            None => Err(de::Error::invalid_type(self.unexpected(), &visitor)),
        }
        .map_err(|fault: Fault| fault.at(self.at))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.is_null() {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.is_null() {
            // `egress:` without anything.
            return visitor.visit_seq(Items {
                rest: [].iter().enumerate(),
            });
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.is_null() {
            // `options:` without anything.
            let nothing = Entries {
                rest: [].iter(),
                next: None,
            };
            return visitor
                .visit_map(nothing)
                .map_err(|fault| fault.at(self.at));
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        // A list of the values of all fields in their order would be accepted otherwise.
        if let Value::List(_) = self.value {
            let fault: Fault = de::Error::invalid_type(self.unexpected(), &visitor);
            return Err(fault.at(self.at));
        }
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let read = match &self.value {
            Value::Map(entries) => {
                let mut present = entries.iter().filter(|entry| !entry.value.is_removed());
                match (present.next(), present.next()) {
                    (Some(entry), None) => visitor.visit_enum(Choice {
                        at: entry.at,
                        word: &entry.key,
                        content: Some(&entry.value),
                    }),
                    _ => Err(de::Error::custom(format!(
                        "the map has {} entries; expected exactly one",
                        entries.len()
                    ))),
                }
            }
            _ => match self.text() {
                Some(word) => visitor.visit_enum(Choice {
                    at: self.at,
                    word,
                    content: None,
                }),
                None => Err(de::Error::invalid_type(self.unexpected(), &visitor)),
            },
        };

        read.map_err(|fault: Fault| fault.at(self.at))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 bytes byte_buf unit unit_struct tuple
        tuple_struct
    }
}

struct Items<'de> {
    rest: std::iter::Enumerate<std::slice::Iter<'de, Node>>,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let Some((index, item)) = self.rest.find(|(_, item)| !item.is_removed()) else {
            return Ok(None);
        };
        let read = seed.deserialize(item);
        read.map(Some)
            .map_err(|fault| fault.at(item.at).within(Step::Index(index)))
    }
}

struct Entries<'de> {
    rest: std::slice::Iter<'de, Entry>,
    next: Option<&'de Entry>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        self.next = self.rest.find(|entry| !entry.value.is_removed());
        let Some(entry) = self.next else {
            return Ok(None);
        };
        let key = de::value::StrDeserializer::new(&entry.key);
        let read = seed.deserialize(key);
        read.map(Some).map_err(|fault: Fault| fault.at(entry.at))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        let Some(entry) = self.next.take() else {
            return Err(de::Error::custom("a value was read before its key"));
        };

        let read = seed.deserialize(&entry.value);
        read.map_err(|fault| {
            fault
                .at(entry.value.at)
                .within(Step::Key(entry.key.clone()))
        })
    }
}

/// One of several forms of a value: a word, or a map of one entry whose key is the word.
#[derive(Clone, Copy)]
struct Choice<'de> {
    at: Place,
    word: &'de str,
    content: Option<&'de Node>,
}

impl<'de> EnumAccess<'de> for Choice<'de> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), Fault> {
        let word = de::value::StrDeserializer::new(self.word);
        let read = seed.deserialize(word);
        read.map(|value| (value, self))
            .map_err(|fault: Fault| fault.at(self.at))
    }
}

impl<'de> Choice<'de> {
    fn within<T>(self, read: impl FnOnce(&'de Node) -> Result<T, Fault>) -> Result<T, Fault> {
        let Some(content) = self.content else {
            let fault: Fault = de::Error::custom(format!("`{}` needs a value", self.word));
            return Err(fault.at(self.at));
        };
        read(content).map_err(|fault| fault.at(content.at).within(Step::Key(self.word.to_owned())))
    }
}

impl<'de> VariantAccess<'de> for Choice<'de> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        match self.content {
            Some(content) if !content.is_null() => {
                let fault: Fault = de::Error::custom(format!("`{}` has no value", self.word));
                Err(fault.at(content.at))
            }
            _ => Ok(()),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        self.within(|content| seed.deserialize(content))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        self.within(|content| content.deserialize_seq(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.within(|content| content.deserialize_struct("", fields, visitor))
    }
}
