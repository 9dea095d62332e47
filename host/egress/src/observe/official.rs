//! Metrics of requests with the names of official cloud-controller-managers, for dashboards that
//! exist (`--metrics-compat`).

use http::Method;
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use super::outcome::RequestOutcome;

/// An official cloud-controller-manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Official {
    /// That of AWS.
    Aws,
    /// That of OpenStack.
    OpenStack,
}

/// The names of requests by their actions (`recordAWSMetric` in cloud-provider-aws 1.37).
const AWS: [(&str, &str); 6] = [
    ("CreateTags", "create_tags"),
    ("DeleteTags", "delete_tags"),
    ("DescribeInstances", "describe_instance"),
    ("DescribeNetworkInterfaces", "describe_network_interfaces"),
    ("DescribeRouteTables", "describe_route_tables"),
    ("DescribeSecurityGroups", "describe_security_groups"),
];

/// The names of resources by their collections in paths (`NewMetricContext` in
/// cloud-provider-openstack 1.36).
const OPENSTACK: [(&str, &str); 17] = [
    ("extensions", "network_extension"),
    ("flavors", "flavor"),
    ("floatingips", "floating_ip"),
    ("healthmonitors", "loadbalancer_healthmonitor"),
    ("l7policies", "loadbalancer_l7policy"),
    ("listeners", "loadbalancer_listener"),
    ("loadbalancers", "loadbalancer"),
    ("members", "loadbalancer_member"),
    ("networks", "network"),
    ("pools", "loadbalancer_pool"),
    ("ports", "port"),
    ("routers", "router"),
    ("rules", "loadbalancer_l7rule"),
    ("security-group-rules", "security_group_rule"),
    ("security-groups", "security_group"),
    ("servers", "server"),
    ("subnets", "subnet"),
];

/// The default buckets of Prometheus' client for Go, in seconds.
const DURATIONS: [f64; 11] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

type Labels = [(&'static str, String); 1];

/// The metrics of one of them.
#[derive(Debug)]
pub(super) struct OfficialMetrics {
    official: Official,
    durations: Family<Labels, Histogram, fn() -> Histogram>,
    requests: Family<Labels, Counter>,
    errors: Family<Labels, Counter>,
    /// The same. A counter has a suffix in its name.
    errors_without_suffix: Family<Labels, Gauge>,
    throttled: Family<Labels, Counter>,
}

impl OfficialMetrics {
    pub(super) fn register(official: Official, registry: &mut Registry) -> Self {
        let metrics = Self {
            official,
            durations: Family::new_with_constructor(|| Histogram::new(DURATIONS)),
            requests: Family::default(),
            errors: Family::default(),
            errors_without_suffix: Family::default(),
            throttled: Family::default(),
        };

        match official {
            Official::Aws => {
                registry.register(
                    "cloudprovider_aws_api_request_duration_seconds",
                    "Seconds of requests to AWS that succeed",
                    metrics.durations.clone(),
                );
                registry.register(
                    "cloudprovider_aws_api_request_errors",
                    "Requests to AWS that failed",
                    metrics.errors_without_suffix.clone(),
                );
                registry.register(
                    "cloudprovider_aws_api_throttled_requests",
                    "Requests to AWS that were throttled",
                    metrics.throttled.clone(),
                );
            }
            Official::OpenStack => {
                registry.register(
                    "openstack_api_request_duration_seconds",
                    "Seconds of requests to OpenStack",
                    metrics.durations.clone(),
                );
                registry.register(
                    "openstack_api_requests",
                    "Requests to OpenStack",
                    metrics.requests.clone(),
                );
                registry.register(
                    "openstack_api_request_errors",
                    "Requests to OpenStack that failed",
                    metrics.errors.clone(),
                );
            }
        }
        metrics
    }

    pub(super) fn ended(&self, outcome: &RequestOutcome<'_>) {
        if self.official == Official::Aws && is_throttled(outcome) {
            let labels = [("operation_name", outcome.action.to_string())];
            self.throttled.get_or_create(&labels).inc();
        }

        let name = match self.official {
            Official::Aws => aws(outcome.action),
            Official::OpenStack => openstack(outcome.method, outcome.path),
        };
        let Some(name) = name else { return };
        let labels = [("request", name)];

        let has_failed = outcome.status.is_none_or(|status| status >= 400);
        self.requests.get_or_create(&labels).inc();
        if has_failed {
            self.errors.get_or_create(&labels).inc();
            self.errors_without_suffix.get_or_create(&labels).inc();
        }
        if !has_failed || self.official == Official::OpenStack {
            let took = outcome.took.as_secs_f64();
            self.durations.get_or_create(&labels).observe(took);
        }
    }
}

/// Returns true if AWS has rejected a request with `RequestLimitExceeded`, as far as its status says.
/// The metadata service has no actions.
fn is_throttled(outcome: &RequestOutcome<'_>) -> bool {
    outcome.status == Some(503) && !outcome.action.is_empty()
}

/// Returns the name of a request with this action.
fn aws(action: &str) -> Option<String> {
    let (_, name) = AWS.iter().find(|(known, _)| *known == action)?;
    Some((*name).to_owned())
}

/// Returns the name of a request for this path, which may have names of parameters.
fn openstack(method: &Method, path: &str) -> Option<String> {
    let resource = |segment: &str| {
        let mut known = OPENSTACK.iter();
        let (_, resource) = known.find(|(collection, _)| *collection == segment)?;
        Some(*resource)
    };

    let path = path.split('?').next().unwrap_or_default();
    let path = path.trim_end_matches('/').trim_end_matches("/detail");
    let mut segments = path.rsplit('/');
    let last = segments.next()?;
    let (resource, is_one) = match resource(last) {
        Some(resource) => (resource, false),
        None => (resource(segments.next()?)?, true),
    };

    let verb = match (method.as_str(), is_one) {
        ("GET", true) => "get",
        ("GET", false) => "list",
        ("POST", false) => "create",
        ("PUT" | "PATCH", true) => "update",
        // All members at once.
        ("PUT", false) => return Some(format!("{resource}s_update")),
        ("DELETE", true) => "delete",
        _ => return None,
    };
    Some(format!("{resource}_{verb}"))
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn requests_to_openstack_have_upstreams_names() {
        for (method, path, name) in [
            (
                Method::GET,
                "/v2.1/servers/detail?limit",
                Some("server_list"),
            ),
            (Method::GET, "/v2.1/servers/1-2", Some("server_get")),
            (
                Method::POST,
                "/v2.0/lbaas/loadbalancers",
                Some("loadbalancer_create"),
            ),
            (
                Method::DELETE,
                "/v2/lbaas/listeners/1-2",
                Some("loadbalancer_listener_delete"),
            ),
            (
                Method::GET,
                "/v2/lbaas/pools/1-2/members",
                Some("loadbalancer_member_list"),
            ),
            (
                Method::PUT,
                "/v2/lbaas/pools/1-2/members",
                Some("loadbalancer_members_update"),
            ),
            (
                Method::PUT,
                "/v2.0/floatingips/1-2",
                Some("floating_ip_update"),
            ),
            (
                Method::GET,
                "/v2.0/security-group-rules?x",
                Some("security_group_rule_list"),
            ),
            (Method::POST, "/v3/auth/tokens", None),
            (Method::POST, "/v2.1/servers/1-2/action", None),
            (Method::GET, "/", None),
        ] {
            assert_eq!(openstack(&method, path).as_deref(), name, "{method} {path}");
        }
    }

    /// Returns the lines of metrics of one request that succeeds and one that fails, without buckets.
    fn lines(official: Official, action: &str, path: &str) -> Vec<String> {
        let mut registry = Registry::default();
        let metrics = OfficialMetrics::register(official, &mut registry);
        for status in [Some(200), Some(503)] {
            metrics.ended(&RequestOutcome {
                action: &Arc::from(action),
                method: &Method::POST,
                path,
                status,
                took: Duration::from_secs(1),
                sent: 0,
                received: 0,
                breakers_open: 0,
            });
        }
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let lines = lines.filter(|line| !line.contains("_bucket") && !line.contains("_sum"));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn metrics_have_the_official_names() {
        assert_eq!(
            lines(Official::Aws, "DescribeInstances", "/"),
            [
                "cloudprovider_aws_api_request_duration_seconds_count{request=\"describe_instance\"} 1",
                "cloudprovider_aws_api_request_errors{request=\"describe_instance\"} 1",
                "cloudprovider_aws_api_throttled_requests_total{operation_name=\"DescribeInstances\"} 1",
            ]
        );
        assert_eq!(
            lines(Official::OpenStack, "", "/v2.0/lbaas/pools"),
            [
                "openstack_api_request_duration_seconds_count{request=\"loadbalancer_pool_create\"} 2",
                "openstack_api_requests_total{request=\"loadbalancer_pool_create\"} 2",
                "openstack_api_request_errors_total{request=\"loadbalancer_pool_create\"} 1",
            ]
        );
        assert_eq!(
            lines(Official::Aws, "other", "/"),
            ["cloudprovider_aws_api_throttled_requests_total{operation_name=\"other\"} 1"]
        );
        assert!(lines(Official::Aws, "", "/").is_empty());
    }
}
