//! The health check of a network load balancer.

use skydock_sdk::{
    Result,
    types::{Service, TrafficPolicy},
};

use crate::{
    cloud::invalid,
    config::Config,
    load_balancing::common::annotation::{self, Annotations},
};

/// The value for the port that targets receive traffic on.
pub(crate) const TRAFFIC_PORT: &str = "traffic-port";

/// A health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Health {
    /// `TCP`, `HTTP` or `HTTPS`.
    pub(crate) protocol: &'static str,
    /// A port number as text, or [`TRAFFIC_PORT`].
    pub(crate) port: String,
    /// The path, or `None` for TCP.
    pub(crate) path: Option<String>,
    /// The seconds between checks.
    pub(crate) interval: u32,
    /// The timeout in seconds, or `None` to use the default of AWS, as the official provider always
    /// does.
    pub(crate) timeout: Option<u32>,
    /// The number of consecutive successful checks until a target is healthy.
    pub(crate) healthy: u32,
    /// The number of consecutive failed checks until a target is unhealthy.
    pub(crate) unhealthy: u32,
}

impl Health {
    /// Requests the default timeout of AWS, unless there is another one.
    pub(super) fn reset_timeout(&mut self) {
        // The defaults of AWS. A timeout cannot exceed the interval.
        let default = if self.protocol == "HTTP" { 6 } else { 10 };
        self.timeout.get_or_insert(default.min(self.interval));
    }
}

/// Returns the health check of a Service, which all of its ports share.
///
/// # Errors
/// Fails if an annotation is invalid.
pub(crate) fn of(service: &Service, config: &Config) -> Result<Health> {
    let annotations = Annotations(&service.annotations);
    let local = service.external_traffic_policy == TrafficPolicy::Local;

    // With `externalTrafficPolicy: Local`, kube-proxy tells which nodes have Pods of the Service.
    let (mut protocol, mut port, mut path, interval, threshold) = if local {
        (
            "HTTP",
            service.health_check_node_port.to_string(),
            "/healthz".to_owned(),
            10,
            2,
        )
    } else {
        ("TCP", TRAFFIC_PORT.to_owned(), "/".to_owned(), 30, 3)
    };

    if let Some(text) = annotations.get(annotation::HEALTH_PROTOCOL) {
        protocol = parse_protocol(text)?;
    }
    if let Some(text) = annotations.get(annotation::HEALTH_PATH) {
        text.clone_into(&mut path);
    }
    if let Some(text) = annotations.get(annotation::HEALTH_PORT) {
        text.clone_into(&mut port);
    }

    // All other Services share one check of kube-proxy, regardless of their annotations.
    if let (Some(shared), false) = (&config.shared_probe, local) {
        (protocol, port, path) = ("HTTP", shared.port.to_string(), shared.path.clone());
    }

    check_port(&port)?;

    Ok(Health {
        protocol,
        port,
        path: (protocol != "TCP").then_some(path),
        interval: annotations
            .number(annotation::HEALTH_INTERVAL)?
            .unwrap_or(interval),
        timeout: annotations.number(annotation::HEALTH_TIMEOUT)?,
        healthy: annotations
            .number(annotation::HEALTHY)?
            .unwrap_or(threshold),
        unhealthy: annotations
            .number(annotation::UNHEALTHY)?
            .unwrap_or(threshold),
    })
}

fn parse_protocol(text: &str) -> Result<&'static str> {
    match text.to_ascii_uppercase().as_str() {
        "TCP" => Ok("TCP"),
        "HTTP" => Ok("HTTP"),
        "HTTPS" => Ok("HTTPS"),
        _ => Err(annotation::wrong(
            annotation::HEALTH_PROTOCOL,
            "tcp, http or https",
        )),
    }
}

fn check_port(port: &str) -> Result<()> {
    if port != TRAFFIC_PORT && port.parse::<u16>().is_err() {
        return Err(annotation::wrong(
            annotation::HEALTH_PORT,
            "a port, or traffic-port",
        ));
    }
    if port == "0" {
        return Err(invalid("the Service has no healthCheckNodePort yet"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(shared: bool) -> Config {
        let mode = if shared {
            "ClusterServiceLoadBalancerHealthProbeMode = Shared"
        } else {
            ""
        };
        Config::parse(&format!("[Global]\nRegion = eu-west-1\n{mode}\n"), &[]).unwrap()
    }

    fn shown(local: bool, shared: bool, pairs: &[(&str, &str)]) -> String {
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
            health_check_node_port: if local { 32000 } else { 0 },
            ..Service::default()
        };
        match of(&service, &config(shared)) {
            Ok(Health {
                protocol,
                port,
                path,
                interval,
                timeout,
                healthy,
                unhealthy,
            }) => {
                let path = path.unwrap_or("-".into());
                format!("{protocol} {port} {path} {interval} {timeout:?} {healthy}/{unhealthy}")
            }
            Err(_) => "rejected".into(),
        }
    }

    #[test]
    fn nlb_health_checks_match_the_official_provider() {
        for (local, shared, pairs, expected) in [
            (false, false, &[][..], "TCP traffic-port - 30 None 3/3"),
            (true, false, &[], "HTTP 32000 /healthz 10 None 2/2"),
            (false, true, &[], "HTTP 10256 /healthz 30 None 3/3"),
            (true, true, &[], "HTTP 32000 /healthz 10 None 2/2"),
            (
                true,
                false,
                &[("healthcheck-protocol", "tcp"), ("healthcheck-port", "80")],
                "TCP 80 - 10 None 2/2",
            ),
            (
                false,
                false,
                &[("healthcheck-protocol", "https")],
                "HTTPS traffic-port / 30 None 3/3",
            ),
            (
                false,
                false,
                &[("healthcheck-path", "/x")],
                "TCP traffic-port - 30 None 3/3",
            ),
            (
                false,
                true,
                &[("healthcheck-port", "80"), ("healthcheck-protocol", "tcp")],
                "HTTP 10256 /healthz 30 None 3/3",
            ),
            (
                false,
                false,
                &[
                    ("healthcheck-protocol", "HTTP"),
                    ("healthcheck-path", "/x"),
                    ("healthcheck-interval", "10"),
                    ("healthcheck-timeout", "7"),
                    ("healthcheck-healthy-threshold", "4"),
                    ("healthcheck-unhealthy-threshold", "5"),
                ],
                "HTTP traffic-port /x 10 Some(7) 4/5",
            ),
            (false, false, &[("healthcheck-port", "https")], "rejected"),
            (false, false, &[("healthcheck-protocol", "UDP")], "rejected"),
            (false, false, &[("healthcheck-interval", "x")], "rejected"),
        ] {
            assert_eq!(
                shown(local, shared, pairs),
                expected,
                "{local} {shared} {pairs:?}"
            );
        }
    }

    #[test]
    fn the_default_timeout_fits_the_interval() {
        let reset = |pairs: &[(&str, &str)]| {
            let service = Service {
                annotations: pairs
                    .iter()
                    .map(|(name, value)| (annotation::key(name), (*value).to_owned()))
                    .collect(),
                ..Service::default()
            };
            let mut health = of(&service, &config(false)).unwrap();
            health.reset_timeout();
            health.timeout
        };

        assert_eq!(reset(&[]), Some(10));
        assert_eq!(reset(&[("healthcheck-protocol", "http")]), Some(6));
        assert_eq!(reset(&[("healthcheck-interval", "5")]), Some(5));
        assert_eq!(reset(&[("healthcheck-timeout", "7")]), Some(7));
    }
}
