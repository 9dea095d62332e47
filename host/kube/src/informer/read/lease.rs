//! Leases. Times that cannot be represented, for example the end of the year 9999, are omitted:
//! leader election does not depend on their values, and a Lease that someone has edited by hand
//! must not prevent it.

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use serde::Deserialize;
use serde_json::Value;

use super::{Lenient, Meta};

impl Lenient for Lease {
    type Sent = Sent;
}

#[derive(Deserialize)]
pub struct Sent {
    #[serde(default)]
    metadata: Meta,
    spec: Option<SentSpec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SentSpec {
    acquire_time: Option<Value>,
    holder_identity: Option<String>,
    lease_duration_seconds: Option<i32>,
    lease_transitions: Option<i32>,
    preferred_holder: Option<String>,
    renew_time: Option<Value>,
    strategy: Option<String>,
}

impl From<Sent> for Lease {
    fn from(Sent { metadata, spec }: Sent) -> Self {
        let time = |time: Option<Value>| {
            time.and_then(|time| serde_json::from_value::<MicroTime>(time).ok())
        };

        let spec = spec.map(|spec| LeaseSpec {
            acquire_time: time(spec.acquire_time),
            holder_identity: spec.holder_identity,
            lease_duration_seconds: spec.lease_duration_seconds,
            lease_transitions: spec.lease_transitions,
            preferred_holder: spec.preferred_holder,
            renew_time: time(spec.renew_time),
            strategy: spec.strategy,
        });

        Self {
            metadata: metadata.into(),
            spec,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::Read, *};

    #[test]
    fn a_lease_survives_a_round_trip() {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "ccm", "namespace": "kube-system", "resourceVersion": "7", "labels": {"a": "b"}},
            "spec": {
                "acquireTime": "2026-01-01T00:00:00.000001Z", "holderIdentity": "x", "leaseDurationSeconds": 15,
                "leaseTransitions": 2, "preferredHolder": "y", "renewTime": "2026-01-01T00:00:02.000001Z",
                "strategy": "OldestEmulationVersion",
            },
        });
        let read: Read<Lease> = serde_json::from_value(lease.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), lease);
    }

    #[test]
    fn an_out_of_range_time_is_dropped() {
        let end = "9999-12-31T23:59:59.999999Z";
        let lease = json!({
            "metadata": {"name": "ccm", "managedFields": [{"manager": "m", "time": end}]},
            "spec": {"holderIdentity": "x", "acquireTime": end, "renewTime": end},
        });
        assert!(
            serde_json::from_value::<Lease>(lease.clone()).is_err(),
            "or there is no need of this"
        );

        let Read::<Lease>(lease) = serde_json::from_value(lease).unwrap();
        let spec = lease.spec.unwrap();
        assert_eq!(
            (spec.holder_identity.as_deref(), spec.renew_time),
            (Some("x"), None)
        );
    }
}
