//! What to do about a service: pure decisions.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use skydock_cloud::{Ingress, IpMode, LoadBalancerStatus};

use super::Classes;
use crate::constants::FINALIZER;

/// What a service needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing: it is none of ours.
    Nothing,
    /// A load balancer that is as it asks.
    Ensure,
    /// That its load balancer goes, and what it has left on the object.
    Cleanup,
}

/// What this service needs. `known` says that this process has worked on it before, or has found it served.
#[must_use]
pub fn need(service: &Service, classes: &Classes, known: bool) -> Need {
    if needs_cleanup(service, classes) {
        Need::Cleanup
    } else if wants_load_balancer(service, classes) && !deleting(service) {
        Need::Ensure
    } else if known {
        // It does not want a load balancer any more, and the finalizer was taken away by somebody else.
        Need::Cleanup
    } else {
        Need::Nothing
    }
}

/// True for services of type LoadBalancer and a class that is served: another one is another implementation's.
#[must_use]
pub fn wants_load_balancer(service: &Service, classes: &Classes) -> bool {
    spec(service).is_some_and(is_load_balancer) && classes.serve(class(service))
}

/// True for services that carry the finalizer and are deleted, or are not of type LoadBalancer any more.
#[must_use]
pub fn needs_cleanup(service: &Service, classes: &Classes) -> bool {
    has_finalizer(service)
        && (deleting(service) || !spec(service).is_some_and(is_load_balancer))
        && classes.clean_up(class(service))
}

/// True if the service carries the finalizer.
#[must_use]
pub fn has_finalizer(service: &Service) -> bool {
    service.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER)
}

/// True if a change of a service matters to its load balancer.
#[must_use]
pub fn needs_update(old: &Service, new: &Service, classes: &Classes) -> bool {
    let (wanted, wants) = (wants_load_balancer(old, classes), wants_load_balancer(new, classes));
    if !wanted && !wants {
        return false;
    }
    let empty = ServiceSpec::default();
    let (a, b) = (spec(old).unwrap_or(&empty), spec(new).unwrap_or(&empty));
    wanted != wants
        || old.metadata.uid != new.metadata.uid
        || class(old) != class(new)
        || annotations(old) != annotations(new)
        || list(a.load_balancer_source_ranges.as_ref()) != list(b.load_balancer_source_ranges.as_ref())
        || list(a.ports.as_ref()) != list(b.ports.as_ref())
        || a.session_affinity != b.session_affinity
        || a.session_affinity_config != b.session_affinity_config
        || a.load_balancer_ip.as_deref().unwrap_or_default() != b.load_balancer_ip.as_deref().unwrap_or_default()
        || list(a.external_ips.as_ref()) != list(b.external_ips.as_ref())
        || a.external_traffic_policy != b.external_traffic_policy
        || a.health_check_node_port.unwrap_or(0) != b.health_check_node_port.unwrap_or(0)
        || list(a.ip_families.as_ref()).len() != list(b.ip_families.as_ref()).len()
}

/// True if a service that wants its load balancer has lost the finalizer or the status.
///
/// A cleanup that ran while the type was changed back takes them away, and the cache shows it only after the service was
/// ensured again. Upstream leaves it so, and forgets such a load balancer when the service is deleted.
#[must_use]
pub fn needs_mending(old: &Service, new: &Service, classes: &Classes) -> bool {
    let lost = |has: fn(&Service) -> bool| has(old) && !has(new);
    wants_load_balancer(new, classes) && !deleting(new) && (lost(has_finalizer) || lost(served))
}

/// True if the status shows a load balancer.
#[must_use]
pub fn served(service: &Service) -> bool {
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref()?.ingress.as_ref());
    status.is_some_and(|ingress| !ingress.is_empty())
}

/// True if two statuses mean the same. The API server writes mode VIP where an address has none.
#[must_use]
pub fn same_status(a: &LoadBalancerStatus, b: &LoadBalancerStatus) -> bool {
    let meaning = |ingress: &Ingress| Ingress {
        ip_mode: if ingress.ip.is_some() { Some(ingress.ip_mode.unwrap_or(IpMode::Vip)) } else { None },
        ..ingress.clone()
    };
    a.ingress.iter().map(meaning).eq(b.ingress.iter().map(meaning))
}

fn spec(service: &Service) -> Option<&ServiceSpec> {
    service.spec.as_ref()
}

fn class(service: &Service) -> Option<&str> {
    spec(service)?.load_balancer_class.as_deref()
}

fn is_load_balancer(spec: &ServiceSpec) -> bool {
    spec.type_.as_deref() == Some("LoadBalancer")
}

fn deleting(service: &Service) -> bool {
    service.metadata.deletion_timestamp.is_some()
}

fn list<T>(list: Option<&Vec<T>>) -> &[T] {
    list.map_or(&[], Vec::as_slice)
}

/// No annotations and an empty map of them are the same.
fn annotations(service: &Service) -> Option<&BTreeMap<String, String>> {
    service.metadata.annotations.as_ref().filter(|annotations| !annotations.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{service, with};

    fn lb(change: &Value) -> Service {
        with(&service("web"), change)
    }

    fn finalizer() -> Value {
        json!({"metadata": {"finalizers": ["other", FINALIZER]}})
    }

    fn gone() -> Value {
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    }

    #[test]
    fn s06_s07_s08_s13_s36_s37_what_a_service_needs_follows_from_type_class_finalizer_and_deletion() {
        let both = with::<Value>(&finalizer(), &gone());
        let class = json!({"spec": {"loadBalancerClass": "x.io/y"}});
        let cluster_ip = json!({"spec": {"type": "ClusterIP"}});
        for (what, service, need_unknown, need_known) in [
            ("plain", lb(&json!({})), Need::Ensure, Need::Ensure),
            ("with finalizer", lb(&finalizer()), Need::Ensure, Need::Ensure),
            ("deleted with finalizer", lb(&both), Need::Cleanup, Need::Cleanup),
            ("deleted, kept by others", lb(&gone()), Need::Nothing, Need::Cleanup),
            ("of a class", lb(&class), Need::Nothing, Need::Cleanup),
            ("of a class, with finalizer", with(&lb(&finalizer()), &class), Need::Nothing, Need::Cleanup),
            ("of a class, deleted with finalizer", with(&lb(&both), &class), Need::Cleanup, Need::Cleanup),
            ("ClusterIP", lb(&cluster_ip), Need::Nothing, Need::Cleanup),
            ("ClusterIP with finalizer", with(&lb(&finalizer()), &cluster_ip), Need::Cleanup, Need::Cleanup),
        ] {
            assert_eq!(need(&service, &Classes::default(), false), need_unknown, "{what}");
            assert_eq!(need(&service, &Classes::default(), true), need_known, "{what}, known");
        }
    }

    #[test]
    fn s10_s11_changes_that_matter() {
        for change in [
            json!({"spec": {"type": "ClusterIP"}}),
            json!({"spec": {"loadBalancerSourceRanges": ["10.0.0.0/8"]}}),
            json!({"spec": {"ports": [{"port": 81, "protocol": "TCP", "nodePort": 30080}]}}),
            json!({"spec": {"ports": [{"port": 80, "protocol": "UDP", "nodePort": 30080}]}}),
            json!({"spec": {"ports": [{"port": 80, "protocol": "TCP", "nodePort": 30081}]}}),
            json!({"spec": {"ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080, "name": "a"}]}}),
            json!({"spec": {"ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080, "targetPort": 8080}]}}),
            json!({"spec": {"ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080, "targetPort": "web"}]}}),
            json!({"spec": {"ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080, "appProtocol": "http"}]}}),
            json!({"spec": {"sessionAffinity": "ClientIP"}}),
            json!({"spec": {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 9}}}}),
            json!({"spec": {"loadBalancerIP": "192.0.2.7"}}),
            json!({"spec": {"externalIPs": ["192.0.2.8"]}}),
            json!({"spec": {"externalTrafficPolicy": "Local"}}),
            json!({"spec": {"healthCheckNodePort": 31000}}),
            json!({"spec": {"ipFamilies": ["IPv4", "IPv6"]}}),
            json!({"metadata": {"annotations": {"a": "b"}}}),
            json!({"metadata": {"uid": "another"}}),
        ] {
            assert!(needs_update(&lb(&json!({})), &lb(&change), &Classes::default()), "{change}");
            assert!(needs_update(&lb(&change), &lb(&json!({})), &Classes::default()), "back from {change}");
        }
    }

    #[test]
    fn s11_upstreams_cases_of_an_update() {
        let port = |change: Value| {
            let plain = json!({"port": 80, "protocol": "TCP", "nodePort": 30080});
            json!({"spec": {"ports": [with::<Value>(&plain, &change)]}})
        };
        let external = |ips: &[&str]| json!({"spec": {"externalIPs": ips}});
        let families = |families: &[&str]| json!({"spec": {"ipFamilies": families}});
        let app = |protocol: &str| port(json!({"appProtocol": protocol}));
        let plain = json!({});
        for (what, old, new, expected) in [
            ("type", json!({"spec": {"type": "ClusterIP"}}), plain.clone(), true),
            ("ports", port(json!({})), json!({"spec": {"ports": [{"port": 8080}]}}), true),
            ("number of external IPs", external(&["1.1.1.1"]), external(&["1.1.1.1", "2.2.2.2"]), true),
            ("external IPs", external(&["1.1.1.1"]), external(&["2.2.2.2"]), true),
            ("uid", plain.clone(), json!({"metadata": {"uid": "another"}}), true),
            ("traffic policy", plain.clone(), json!({"spec": {"externalTrafficPolicy": "Local"}}), true),
            ("health check", plain.clone(), json!({"spec": {"healthCheckNodePort": 31000}}), true),
            ("target port", port(json!({"targetPort": 20})), port(json!({"targetPort": 21})), true),
            ("target port's name", port(json!({"targetPort": "a"})), port(json!({"targetPort": "b"})), true),
            ("a second family", families(&["IPv4"]), families(&["IPv4", "IPv6"]), true),
            ("one family less", families(&["IPv4", "IPv6"]), families(&["IPv4"]), true),
            ("an app protocol", port(json!({})), app("http"), true),
            ("another app protocol", app("http"), app("tcp"), true),
            ("the same ports", app("http"), app("http"), false),
            ("the same families", families(&["IPv6"]), families(&["IPv6"]), false),
        ] {
            assert_eq!(needs_update(&lb(&old), &lb(&new), &Classes::default()), expected, "{what}");
        }
    }

    #[test]
    fn s10_s12_changes_that_do_not_matter() {
        for change in [
            json!({"metadata": {"labels": {"a": "b"}}}),
            json!({"metadata": {"annotations": {}}}),
            json!({"metadata": {"resourceVersion": "2", "finalizers": ["x"]}}),
            json!({"spec": {"selector": {"a": "b"}, "internalTrafficPolicy": "Local"}}),
            json!({"spec": {"allocateLoadBalancerNodePorts": false, "clusterIPs": ["10.96.0.9"]}}),
            json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}),
        ] {
            assert!(!needs_update(&lb(&json!({})), &lb(&change), &Classes::default()), "{change}");
        }
        let families = |families: &[&str]| lb(&json!({"spec": {"ipFamilies": families}}));
        assert!(!needs_update(&families(&["IPv4"]), &families(&["IPv6"]), &Classes::default()));
        let class = json!({"spec": {"loadBalancerClass": "x"}});
        let other = with(&lb(&class), &json!({"spec": {"ports": []}}));
        assert!(!needs_update(&lb(&class), &other, &Classes::default()));
    }

    #[test]
    fn s27_statuses_differ_by_order_hostname_ports_and_mode_but_not_by_the_default_mode() {
        let ip = |ip: &str, ip_mode| Ingress { ip: Some(ip.into()), ip_mode, ..Ingress::default() };
        let status = |ingress: &[Ingress]| LoadBalancerStatus { ingress: ingress.to_vec() };
        let (a, b) = (ip("192.0.2.1", None), ip("192.0.2.2", None));
        assert!(same_status(&status(&[]), &status(&[])));
        assert!(same_status(&status(std::slice::from_ref(&a)), &status(&[ip("192.0.2.1", Some(IpMode::Vip))])));
        assert!(!same_status(&status(std::slice::from_ref(&a)), &status(&[ip("192.0.2.1", Some(IpMode::Proxy))])));
        assert!(!same_status(&status(&[a.clone(), b.clone()]), &status(&[b, a.clone()])));
        let named = Ingress { hostname: Some("x".into()), ..a.clone() };
        assert!(!same_status(&status(&[a]), &status(&[named])));
    }
}
