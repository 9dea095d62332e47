//! Services. Conditions that cannot be decoded are omitted.

use k8s_openapi::api::core::v1::{LoadBalancerStatus, Service, ServiceSpec, ServiceStatus};
use serde::Deserialize;
use serde_json::Value;

use super::{Lenient, Meta, Read};

impl Lenient for Service {
    type Sent = Sent;
}

impl From<Read<Service>> for Service {
    fn from(Read(service): Read<Service>) -> Self {
        service
    }
}

#[derive(Deserialize)]
pub struct Sent {
    #[serde(default)]
    metadata: Meta,
    spec: Option<ServiceSpec>,
    status: Option<SentStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SentStatus {
    load_balancer: Option<LoadBalancerStatus>,
    conditions: Option<Vec<Value>>,
}

impl From<Sent> for Service {
    fn from(
        Sent {
            metadata,
            spec,
            status,
        }: Sent,
    ) -> Self {
        let readable = |conditions: Vec<Value>| {
            conditions
                .into_iter()
                .filter_map(|condition| serde_json::from_value(condition).ok())
                .collect()
        };

        let status = status.map(|status| ServiceStatus {
            load_balancer: status.load_balancer,
            conditions: status.conditions.map(readable),
        });

        Self {
            metadata: metadata.into(),
            spec,
            status,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(service: &Value) -> Service {
        serde_json::from_str::<Read<Service>>(&service.to_string())
            .unwrap()
            .0
    }

    #[test]
    fn a_service_is_read_completely_except_managed_fields() {
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

        service["metadata"]["managedFields"] =
            json!([{"manager": "m", "time": "2026-01-01T00:00:00Z"}]);
        assert_eq!(read(&service), whole);
    }

    #[test]
    fn a_service_with_bad_managed_fields_or_times_can_be_read() {
        let deep = "{\"f:a\":".repeat(500) + "{}" + &"}".repeat(500);
        let managed = |time: &str, fields: &str| {
            format!(
                "[{{\"manager\":\"m\",\"time\":{time:?},\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{fields}}}]"
            )
        };
        for managed in [
            managed("9999-12-31T23:59:59Z", "{}"),
            managed("2026-01-01T00:00:00Z", &deep),
        ] {
            let service =
                format!("{{\"metadata\":{{\"name\":\"web\",\"managedFields\":{managed}}}}}");
            assert!(
                serde_json::from_str::<Service>(&service).is_err(),
                "or there is no need of this"
            );
            let Read::<Service>(service) = serde_json::from_str(&service).unwrap();
            assert_eq!(service.metadata.name.as_deref(), Some("web"));
        }

        let condition =
            json!({"type": "x", "status": "True", "lastTransitionTime": "9999-12-31T23:59:59Z"});
        let service =
            read(&json!({"metadata": {"name": "web"}, "status": {"conditions": [condition]}}));
        assert_eq!(service.status.unwrap().conditions, Some(Vec::new()));
    }
}
