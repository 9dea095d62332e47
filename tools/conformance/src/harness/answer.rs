//! What an answer consists of, whichever function has given it: for judgments, and as JSON with the
//! names that fields have in Kubernetes.
//!
//! A further type of answer is a further `impl` of [`Part`].

use std::{fmt::Debug, time::Duration};

use serde_json::{Value as Json, json};
use skydock_cloud::{
    Answer, Answers, Capacity, CloudError, Instance, IpMode, LoadBalancerStatus, NodeAddress,
    Pairs, Presence, Route, Snapshot, StorageError, Volume, Zone,
};

use super::observation::Value;

/// An answer, or an element of one that has several.
pub(crate) trait Part: Debug {
    /// Returns it as JSON.
    fn json(&self) -> Json;

    /// Returns true if it says that something does not exist.
    fn denies(&self) -> bool {
        false
    }

    /// Returns the error of an element that it is, although the cloud has answered.
    fn refusal(&self) -> Option<&StorageError> {
        None
    }

    /// Returns it for people. What is equal for a judgment has the same text.
    fn shown(&self) -> String {
        format!("{self:?}")
    }

    /// Returns it for judgments.
    fn value(&self) -> Value {
        Value {
            shown: self.shown(),
            denies: self.denies(),
        }
    }
}

/// An answer with one part, or with one for each question.
trait Parts {
    fn parts(&self) -> Vec<Result<&dyn Part, &CloudError>>;
}

impl<T: Part> Parts for T {
    fn parts(&self) -> Vec<Result<&dyn Part, &CloudError>> {
        vec![Ok(self)]
    }
}

impl<T: Part> Parts for Answers<T> {
    fn parts(&self) -> Vec<Result<&dyn Part, &CloudError>> {
        let mut parts: Vec<Result<&dyn Part, &CloudError>> = Vec::new();
        for answer in self {
            parts.push(match answer {
                Ok(part) => Ok(part),
                Err(error) => Err(error),
            });
        }
        parts
    }
}

/// What is not an error that any call can have says something about the cloud.
impl<T: Part> Parts for Answers<T, StorageError> {
    fn parts(&self) -> Vec<Result<&dyn Part, &CloudError>> {
        let mut parts: Vec<Result<&dyn Part, &CloudError>> = Vec::new();
        for answer in self {
            parts.push(match answer {
                Ok(part) => Ok(part),
                Err(StorageError::Cloud(error)) => Err(error),
                Err(error) => Ok(error),
            });
        }
        parts
    }
}

/// Defines [`parts`].
macro_rules! define {
    ($(
        $(#[$doc:meta])*
        $function:ident $effect:ident $capability:ident $name:literal:
            $method:ident($($argument:ident: $type:ty),*) -> $answer:ty;
    )*) => {
        /// Returns the parts of an answer: one for each question.
        pub(crate) fn parts(answer: &Answer) -> Vec<Result<&dyn Part, &CloudError>> {
            match answer {
                $(Answer::$function(answer) => answer.parts(),)*
            }
        }
    };
}

skydock_cloud::functions!(define);

impl Part for () {
    fn json(&self) -> Json {
        Json::Null
    }
}

impl Part for Duration {
    fn json(&self) -> Json {
        self.as_secs_f64().into()
    }
}

impl Part for Presence {
    fn json(&self) -> Json {
        json!(match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Absent => "absent",
        })
    }

    fn denies(&self) -> bool {
        *self == Self::Absent
    }
}

impl Part for Instance {
    fn json(&self) -> Json {
        json!({
            "providerID": self.provider_id, "instanceType": self.instance_type,
            "zone": self.zone, "region": self.region, "addresses": addresses(&self.addresses),
            "labels": self.labels, "annotations": self.annotations,
        })
    }
}

impl Part for Zone {
    fn json(&self) -> Json {
        json!({"zone": self.zone, "region": self.region})
    }
}

impl Part for LoadBalancerStatus {
    fn json(&self) -> Json {
        let ingress = self.ingress.iter().map(|it| {
            let mode = it.ip_mode.map(|mode| match mode {
                IpMode::Vip => "VIP",
                IpMode::Proxy => "Proxy",
            });
            let ports = it.ports.iter().map(|port| {
                json!({"port": port.port, "protocol": port.transport.as_str(), "error": port.error})
            });
            json!({
                "ip": it.ip, "hostname": it.hostname, "ipMode": mode,
                "ports": ports.collect::<Json>(),
            })
        });

        json!({"ingress": ingress.collect::<Json>()})
    }

    // As that of the load balancer that `get` has found.
    fn shown(&self) -> String {
        format!("{:?}", Some(self))
    }
}

impl Part for Option<LoadBalancerStatus> {
    fn json(&self) -> Json {
        self.as_ref().map_or(Json::Null, Part::json)
    }

    fn denies(&self) -> bool {
        self.is_none()
    }
}

impl Part for Route {
    fn json(&self) -> Json {
        json!({
            "name": self.name, "targetNode": self.target_node,
            "destinationCIDR": self.destination_cidr,
            "targetAddresses": self.target_addresses.as_deref().map(addresses),
            "blackhole": self.blackhole,
        })
    }
}

impl Part for Vec<Route> {
    fn json(&self) -> Json {
        self.iter().map(Part::json).collect()
    }

    fn denies(&self) -> bool {
        self.is_empty()
    }
}

fn addresses(all: &[NodeAddress]) -> Json {
    all.iter()
        .map(|it| json!({"type": it.kind.as_str(), "address": it.address}))
        .collect()
}

impl Part for StorageError {
    fn json(&self) -> Json {
        json!({"error": self.kind().replace('_', "-"), "message": self.to_string()})
    }

    fn refusal(&self) -> Option<&StorageError> {
        Some(self)
    }

    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Part for Volume {
    fn json(&self) -> Json {
        json!({
            "id": self.id.0, "bytes": self.bytes, "topology": self.topology,
            "context": self.context, "nodes": self.nodes,
        })
    }
}

impl Part for Vec<Volume> {
    fn json(&self) -> Json {
        self.iter().map(Part::json).collect()
    }

    fn denies(&self) -> bool {
        self.is_empty()
    }
}

impl Part for Pairs {
    fn json(&self) -> Json {
        json!(self)
    }
}

/// The size of a volume.
impl Part for u64 {
    fn json(&self) -> Json {
        json!(self)
    }
}

impl Part for Snapshot {
    fn json(&self) -> Json {
        json!({
            "id": self.id.0, "volume": self.volume.0, "bytes": self.bytes,
            "created": self.created.as_secs(), "ready": self.ready,
        })
    }
}

impl Part for Vec<Snapshot> {
    fn json(&self) -> Json {
        self.iter().map(Part::json).collect()
    }

    fn denies(&self) -> bool {
        self.is_empty()
    }
}

impl Part for Capacity {
    fn json(&self) -> Json {
        json!({
            "available": self.available, "maximum": self.maximum, "minimum": self.minimum,
        })
    }
}
