//! Times in the formats of Kubernetes.

use jiff::Timestamp;
use prost::Message;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// `metav1.Time`, with a resolution of one second.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct Time {
    #[prost(int64, optional, tag = "1")]
    seconds: Option<i64>,
}

impl Time {
    pub(crate) fn now() -> Self {
        Self {
            seconds: Some(Timestamp::now().as_second()),
        }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let time = Timestamp::from_second(self.seconds.unwrap_or_default()).unwrap_or_default();
        serializer.collect_str(&time)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let time: Timestamp = text.parse().map_err(D::Error::custom)?;
        Ok(Self {
            seconds: Some(time.as_second()),
        })
    }
}
