//! The lease as it is read. What somebody has written into it by hand keeps nobody from leading.

use std::borrow::Cow;

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::Resource;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skydock_controllers::informer::ReadMeta;

/// A lease without its managed fields. Times that cannot be kept here, such as the end of the year 9999, are left out: nothing
/// depends on what they say.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(from = "Sent", into = "Lease")]
pub(super) struct ReadLease(pub(super) Lease);

impl From<ReadLease> for Lease {
    fn from(ReadLease(lease): ReadLease) -> Self {
        lease
    }
}

impl Resource for ReadLease {
    type DynamicType = ();
    type Scope = <Lease as Resource>::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        Lease::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        Lease::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        Lease::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        Lease::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.0.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0.metadata
    }
}

#[derive(Deserialize)]
struct Sent {
    #[serde(default)]
    metadata: ReadMeta,
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

impl From<Sent> for ReadLease {
    fn from(Sent { metadata, spec }: Sent) -> Self {
        let time = |time: Option<Value>| time.and_then(|time| serde_json::from_value::<MicroTime>(time).ok());
        let spec = spec.map(|spec| LeaseSpec {
            acquire_time: time(spec.acquire_time),
            holder_identity: spec.holder_identity,
            lease_duration_seconds: spec.lease_duration_seconds,
            lease_transitions: spec.lease_transitions,
            preferred_holder: spec.preferred_holder,
            renew_time: time(spec.renew_time),
            strategy: spec.strategy,
        });
        Self(Lease { metadata: metadata.into(), spec })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lease_is_read_and_written_as_it_is() {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "ccm", "namespace": "kube-system", "resourceVersion": "7", "labels": {"a": "b"}},
            "spec": {
                "acquireTime": "2026-01-01T00:00:00.000001Z", "holderIdentity": "x", "leaseDurationSeconds": 15,
                "leaseTransitions": 2, "preferredHolder": "y", "renewTime": "2026-01-01T00:00:02.000001Z",
                "strategy": "OldestEmulationVersion",
            },
        });
        let read: ReadLease = serde_json::from_value(lease.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), lease);
    }

    #[test]
    fn a_time_that_cannot_be_kept_is_left_out() {
        let end = "9999-12-31T23:59:59.999999Z";
        let lease = json!({
            "metadata": {"name": "ccm", "managedFields": [{"manager": "m", "time": end}]},
            "spec": {"holderIdentity": "x", "acquireTime": end, "renewTime": end},
        });
        assert!(serde_json::from_value::<Lease>(lease.clone()).is_err(), "or there is no need of this");
        let ReadLease(lease) = serde_json::from_value(lease).unwrap();
        let spec = lease.spec.unwrap();
        assert_eq!((spec.holder_identity.as_deref(), spec.renew_time), (Some("x"), None));
    }
}
