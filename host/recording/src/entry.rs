//! The format of a recording: a JSON object in each line.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;
use skydock_egress::Code;

/// Version of the format.
pub(super) const FORMAT: u32 = 1;

/// One line, as it is written.
pub(super) type Entry = Line<Value>;

/// One line. `V` are its values: parsed, or the text of what was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Line<V> {
    /// The first line.
    Recording(Header),
    /// A call of the plugin begins. What follows belongs to it.
    Call {
        /// Its number in this recording, from 1.
        number: u64,
        /// `INTERFACE.FUNCTION`.
        function: String,
        /// A list. Handles are omitted.
        arguments: V,
    },
    /// The plugin called a function of the host.
    Host {
        /// `INTERFACE.FUNCTION`.
        function: String,
        /// A list.
        arguments: V,
        /// What the host answered.
        answer: V,
    },
    /// The plugin sent a request, as it made it.
    Request {
        /// Number of the exchange, from 1.
        exchange: u64,
        #[serde(flatten)]
        head: RequestHead,
    },
    /// The body of a request has been read by the host.
    RequestBody {
        exchange: u64,
        body: Payload,
        /// Whether it was read to its end.
        complete: bool,
    },
    /// The host has a response for the plugin.
    Response {
        exchange: u64,
        #[serde(flatten)]
        head: ResponseHead,
    },
    /// The host has a piece of a response's body for the plugin.
    Piece { exchange: u64, body: Payload },
    /// The exchange has ended.
    End {
        exchange: u64,
        #[serde(flatten)]
        ending: Ending,
    },
    /// The plugin answered.
    Answer(V),
    /// The call ended the instance.
    Trap(String),
    /// Recording stopped before the instance ended.
    Cut(String),
}

/// Where a recording comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Header {
    /// [`FORMAT`].
    pub(super) format: u32,
    /// Version of the contract.
    pub contract: String,
    /// Version of Skydock.
    pub skydock: String,
    /// The operator's name for the plugin.
    pub plugin: String,
    /// Number of the generation.
    pub generation: u64,
    /// SHA-256 of the component, in hexadecimal.
    pub component: String,
    /// Number of the instance in its process.
    pub instance: u64,
    /// When it was created, in milliseconds since 1970-01-01T00:00:00Z.
    pub started_ms: u64,
}

/// Names and values, in order.
pub type Fields = Vec<(String, String)>;

/// A request without its body.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestHead {
    /// Its method.
    pub method: String,
    /// Its whole URI.
    pub uri: String,
    /// Its headers, masked when they are written.
    pub headers: Fields,
    /// Timeouts that the plugin has set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<Timeouts>,
}

/// How long a request may take, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Timeouts {
    /// Until it is connected.
    pub connect: Option<u64>,
    /// Until the first byte of the response.
    pub first_byte: Option<u64>,
    /// Between two parts of the response.
    pub between_bytes: Option<u64>,
}

/// A response without its body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseHead {
    /// Its status code.
    pub status: u16,
    /// Its headers, masked when they are written.
    pub headers: Fields,
}

/// How an exchange ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// With the end of the body.
    Trailers(Option<Fields>),
    /// With an error.
    Failure {
        /// The code that the plugin sees.
        code: Code,
        /// The text that the plugin sees.
        message: Option<String>,
    },
}

/// Bytes, written as text if they are UTF-8, and in Base64 if not.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Payload(pub Vec<u8>);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Written {
    Text(String),
    Base64(String),
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = match std::str::from_utf8(&self.0) {
            Ok(text) => Written::Text(text.to_owned()),
            Err(_) => Written::Base64(STANDARD.encode(&self.0)),
        };
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Written::deserialize(deserializer)? {
            Written::Text(text) => Ok(Self(text.into_bytes())),
            Written::Base64(text) => STANDARD.decode(text).map(Self).map_err(D::Error::custom),
        }
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl Header {
    /// Returns true if this version of Skydock can read the rest.
    pub(super) fn is_known(&self) -> bool {
        self.format == FORMAT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_one_line_that_reads_back() {
        let head = RequestHead {
            method: "GET".into(),
            uri: "http://cloud:80/v1".into(),
            headers: vec![("accept".into(), "*/*".into())],
            timeouts: None,
        };
        let failure = Ending::Failure {
            code: Code::ConnectionRefused,
            message: None,
        };
        for (entry, text) in [
            (
                Entry::Request { exchange: 1, head },
                r#"{"request":{"exchange":1,"method":"GET","uri":"http://cloud:80/v1","headers":[["accept","*/*"]]}}"#,
            ),
            (
                Entry::End {
                    exchange: 1,
                    ending: failure,
                },
                r#"{"end":{"exchange":1,"failure":{"code":"ConnectionRefused","message":null}}}"#,
            ),
            (
                Entry::End {
                    exchange: 1,
                    ending: Ending::Trailers(None),
                },
                r#"{"end":{"exchange":1,"trailers":null}}"#,
            ),
            (
                Entry::Piece {
                    exchange: 2,
                    body: Payload(b"a\nb".to_vec()),
                },
                r#"{"piece":{"exchange":2,"body":{"text":"a\nb"}}}"#,
            ),
            (
                Entry::Piece {
                    exchange: 2,
                    body: Payload(vec![0xff]),
                },
                r#"{"piece":{"exchange":2,"body":{"base64":"/w=="}}}"#,
            ),
            (Entry::Answer(Value::Null), r#"{"answer":null}"#),
        ] {
            assert_eq!(serde_json::to_string(&entry).unwrap(), text);
            assert_eq!(serde_json::from_str::<Entry>(text).unwrap(), entry);
        }
    }
}
