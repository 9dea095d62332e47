//! The health check of a classic load balancer.

use skydock_sdk::{
    Result,
    types::{Service, TrafficPolicy},
};

use crate::{
    client::api::elb::{HealthCheck, Listener},
    cloud::invalid,
    config::Config,
    load_balancing::common::annotation::{self, Annotations},
};

const TRAFFIC_PORT: &str = "traffic-port";

/// What is checked on the instances.
struct Check {
    protocol: String,
    port: u16,
    path: String,
}

/// Returns the health check of a Service with these listeners: of the first port, or over TLS of the
/// first port behind which the nodes use TLS.
///
/// # Errors
/// Fails if an annotation is invalid.
pub(crate) fn of(
    service: &Service,
    listeners: &[Listener],
    config: &Config,
) -> Result<HealthCheck> {
    let annotations = Annotations(&service.annotations);
    let check = by_annotations(annotations, default(service, listeners, config))?;
    let health = HealthCheck {
        target: format!("{}:{}{}", check.protocol, check.port, check.path),
        interval: annotations
            .number(annotation::HEALTH_INTERVAL)?
            .unwrap_or(10),
        timeout: annotations.number(annotation::HEALTH_TIMEOUT)?.unwrap_or(5),
        unhealthy_threshold: annotations.number(annotation::UNHEALTHY)?.unwrap_or(6),
        healthy_threshold: annotations.number(annotation::HEALTHY)?.unwrap_or(2),
    };

    if health.interval < 5
        || health.timeout < 2
        || health.unhealthy_threshold < 2
        || health.healthy_threshold < 2
    {
        return Err(invalid(
            "the health check must have an interval of at least 5 s, a timeout of at least 2 s, and thresholds of at least 2",
        ));
    }

    Ok(health)
}

/// Returns what is checked if annotations do not change it.
fn default(service: &Service, listeners: &[Listener], config: &Config) -> Check {
    let annotations = Annotations(&service.annotations);
    let port_of = |listener: &Listener| listener.instance_port;
    let first = listeners.first().map(port_of).unwrap_or_default();
    let over_tls = listeners
        .iter()
        .find(|listener| matches!(listener.instance_protocol.as_str(), "https" | "ssl"))
        .map(port_of);

    if service.external_traffic_policy == TrafficPolicy::Local {
        let is_traffic_port = annotations.get(annotation::HEALTH_PORT) == Some(TRAFFIC_PORT);
        return Check {
            protocol: "HTTP".into(),
            port: if is_traffic_port {
                first
            } else {
                service.health_check_node_port
            },
            path: "/healthz".into(),
        };
    }

    if let Some(shared) = &config.shared_probe {
        return Check {
            protocol: "HTTP".into(),
            port: shared.port,
            path: shared.path.clone(),
        };
    }

    let asked = annotations.get(annotation::HEALTH_PROTOCOL);
    let speaks_tls = asked.is_none_or(|asked| {
        asked.eq_ignore_ascii_case("ssl") || asked.eq_ignore_ascii_case("https")
    });
    // Where the nodes do not use TLS, a check over TLS never succeeds.
    let tls_port = over_tls.filter(|_| speaks_tls);
    Check {
        protocol: if tls_port.is_some() { "SSL" } else { "TCP" }.into(),
        port: tls_port.unwrap_or(first),
        path: String::new(),
    }
}

/// Changes a check to what annotations request.
fn by_annotations(annotations: Annotations<'_>, mut check: Check) -> Result<Check> {
    if let Some(text) = annotations.get(annotation::HEALTH_PROTOCOL) {
        check.protocol = text.to_ascii_uppercase();
    }
    let port = annotations.get(annotation::HEALTH_PORT);
    if let Some(text) = port.filter(|text| *text != TRAFFIC_PORT) {
        check.port = text
            .parse()
            .map_err(|_| annotation::wrong(annotation::HEALTH_PORT, "a port, or traffic-port"))?;
    }

    check.path = match check.protocol.as_str() {
        "HTTP" | "HTTPS" => match annotations.text(annotation::HEALTH_PATH) {
            Some(text) => text.to_owned(),
            None if check.path.is_empty() => "/".to_owned(),
            None => check.path,
        },
        "TCP" | "SSL" => String::new(),
        _ => {
            return Err(annotation::wrong(
                annotation::HEALTH_PROTOCOL,
                "tcp, ssl, http or https",
            ));
        }
    };
    Ok(check)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(local: bool, shared: bool, pairs: &[(&str, &str)]) -> String {
        let mode = if shared {
            "ClusterServiceLoadBalancerHealthProbeMode = Shared"
        } else {
            ""
        };
        let config =
            Config::parse(&format!("[Global]\nRegion = eu-west-1\n{mode}\n"), &[]).unwrap();
        let service = Service {
            annotations: pairs
                .iter()
                .map(|(name, value)| (annotation::key(name), (*value).to_owned()))
                .collect(),
            external_traffic_policy: if local {
                TrafficPolicy::Local
            } else {
                TrafficPolicy::Cluster
            },
            health_check_node_port: 32000,
            ..Service::default()
        };
        let annotations = Annotations(&service.annotations);
        let behind = annotations.get(annotation::BACKEND_PROTOCOL);
        let listener = |port: u16, protocol: &str| Listener {
            instance_port: port,
            instance_protocol: protocol.into(),
            ..Listener::default()
        };
        // The first port has no certificate.
        let tls = behind.map(|behind| listener(30443, behind));
        let listeners: Vec<Listener> = [listener(30080, "tcp")].into_iter().chain(tls).collect();
        match of(&service, &listeners, &config) {
            Ok(HealthCheck {
                target,
                interval,
                timeout,
                unhealthy_threshold,
                healthy_threshold,
            }) => {
                format!("{target} {interval} {timeout} {unhealthy_threshold} {healthy_threshold}")
            }
            Err(_) => "rejected".into(),
        }
    }

    #[test]
    fn classic_health_checks_match_the_official_provider() {
        for (local, shared, pairs, expected) in [
            (false, false, &[][..], "TCP:30080 10 5 6 2"),
            (true, false, &[], "HTTP:32000/healthz 10 5 6 2"),
            (
                true,
                false,
                &[("healthcheck-port", "traffic-port")],
                "HTTP:30080/healthz 10 5 6 2",
            ),
            (false, true, &[], "HTTP:10256/healthz 10 5 6 2"),
            (
                false,
                false,
                &[("backend-protocol", "https")],
                "SSL:30443 10 5 6 2",
            ),
            (
                false,
                false,
                &[("backend-protocol", "http")],
                "TCP:30080 10 5 6 2",
            ),
            (
                false,
                false,
                &[("backend-protocol", "ssl"), ("healthcheck-protocol", "tcp")],
                "TCP:30080 10 5 6 2",
            ),
            (
                false,
                false,
                &[
                    ("backend-protocol", "ssl"),
                    ("healthcheck-protocol", "https"),
                ],
                "HTTPS:30443/ 10 5 6 2",
            ),
            (
                false,
                false,
                &[("healthcheck-protocol", "ssl")],
                "SSL:30080 10 5 6 2",
            ),
            (
                false,
                false,
                &[("healthcheck-protocol", "http")],
                "HTTP:30080/ 10 5 6 2",
            ),
            (
                false,
                false,
                &[
                    ("healthcheck-protocol", "HTTPS"),
                    ("healthcheck-path", "/x"),
                    ("healthcheck-port", "8443"),
                ],
                "HTTPS:8443/x 10 5 6 2",
            ),
            (
                true,
                false,
                &[("healthcheck-protocol", "tcp")],
                "TCP:32000 10 5 6 2",
            ),
            (false, false, &[("healthcheck-interval", "4")], "rejected"),
            (
                false,
                false,
                &[("healthcheck-healthy-threshold", "1")],
                "rejected",
            ),
            (false, false, &[("healthcheck-port", "x")], "rejected"),
            (false, false, &[("healthcheck-protocol", "udp")], "rejected"),
        ] {
            assert_eq!(
                shown(local, shared, pairs),
                expected,
                "{local} {shared} {pairs:?}"
            );
        }
    }
}
