//! Services as they are read. One that cannot be is a list that cannot be, and a watch that does not get past it: who may write
//! one service must not be able to hide all others.

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::{
    api::core::v1::{LoadBalancerStatus, Service, ServiceSpec, ServiceStatus},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time},
};
use kube::Resource;
use serde::Deserialize;
use serde_json::Value;

/// A service without its managed fields. Whoever creates a service may fill them, with times that are beyond what can be kept
/// here, and nested deeper than JSON is read. Conditions that cannot be read are left out.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Sent")]
pub struct ReadService(Service);

impl From<ReadService> for Service {
    fn from(ReadService(service): ReadService) -> Self {
        service
    }
}

impl Resource for ReadService {
    type DynamicType = ();
    type Scope = <Service as Resource>::Scope;

    fn kind(_: &()) -> Cow<'_, str> {
        Service::kind(&())
    }

    fn group(_: &()) -> Cow<'_, str> {
        Service::group(&())
    }

    fn version(_: &()) -> Cow<'_, str> {
        Service::version(&())
    }

    fn plural(_: &()) -> Cow<'_, str> {
        Service::plural(&())
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
    spec: Option<ServiceSpec>,
    status: Option<SentStatus>,
}

/// Metadata without its managed fields.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReadMeta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
    finalizers: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SentStatus {
    load_balancer: Option<LoadBalancerStatus>,
    conditions: Option<Vec<Value>>,
}

impl From<ReadMeta> for ObjectMeta {
    fn from(meta: ReadMeta) -> Self {
        Self {
            name: meta.name,
            namespace: meta.namespace,
            uid: meta.uid,
            resource_version: meta.resource_version,
            generation: meta.generation,
            creation_timestamp: meta.creation_timestamp,
            deletion_timestamp: meta.deletion_timestamp,
            deletion_grace_period_seconds: meta.deletion_grace_period_seconds,
            labels: meta.labels,
            annotations: meta.annotations,
            owner_references: meta.owner_references,
            finalizers: meta.finalizers,
            ..Self::default()
        }
    }
}

impl From<Sent> for ReadService {
    fn from(Sent { metadata, spec, status }: Sent) -> Self {
        let readable = |conditions: Vec<Value>| {
            conditions.into_iter().filter_map(|condition| serde_json::from_value(condition).ok()).collect()
        };
        let status = status.map(|status| ServiceStatus {
            load_balancer: status.load_balancer,
            conditions: status.conditions.map(readable),
        });
        Self(Service { metadata: metadata.into(), spec, status })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(service: &Value) -> Service {
        serde_json::from_str::<ReadService>(&service.to_string()).unwrap().into()
    }

    #[test]
    fn a_service_is_read_as_it_is_without_its_managed_fields() {
        let mut service = json!({
            "metadata": {
                "name": "web", "namespace": "default", "uid": "u", "resourceVersion": "7", "generation": 2,
                "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T00:00:00Z",
                "deletionGracePeriodSeconds": 0, "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["x"],
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "q"}],
            },
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "targetPort": "http"}]},
            "status": {
                "loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]},
                "conditions": [{
                    "type": "x", "status": "True", "reason": "r", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            },
        });
        let whole: Service = serde_json::from_value(service.clone()).unwrap();
        assert_eq!(read(&service), whole);
        service["metadata"]["managedFields"] = json!([{"manager": "m", "time": "2026-01-01T00:00:00Z"}]);
        assert_eq!(read(&service), whole);
    }

    #[test]
    fn whoever_writes_into_a_service_cannot_make_it_unreadable() {
        let deep = "{\"f:a\":".repeat(500) + "{}" + &"}".repeat(500);
        let managed = |time: &str, fields: &str| {
            format!("[{{\"manager\":\"m\",\"time\":{time:?},\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{fields}}}]")
        };
        for managed in [managed("9999-12-31T23:59:59Z", "{}"), managed("2026-01-01T00:00:00Z", &deep)] {
            let service = format!("{{\"metadata\":{{\"name\":\"web\",\"managedFields\":{managed}}}}}");
            assert!(serde_json::from_str::<Service>(&service).is_err(), "or there is no need of this");
            let service: Service = serde_json::from_str::<ReadService>(&service).unwrap().into();
            assert_eq!(service.metadata.name.as_deref(), Some("web"));
        }
        let condition = json!({"type": "x", "status": "True", "lastTransitionTime": "9999-12-31T23:59:59Z"});
        let service = read(&json!({"metadata": {"name": "web"}, "status": {"conditions": [condition]}}));
        assert_eq!(service.status.unwrap().conditions, Some(Vec::new()));
    }
}
