//! The addresses that no rule opens: those of the API server, of this machine, and of the nodes of
//! the cluster.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use ipnet::IpNet;
use parking_lot::{Mutex, RwLock};
use skydock_cloud::Cluster;
use skydock_egress::{ClusterAddresses, own_addresses};

use super::nodes::NodeAddresses;

/// Maximum number of remembered API server addresses, since some names resolve to different
/// addresses every minute.
const API_SERVERS: usize = 64;

/// How often the name of the API server is resolved.
const RESOLVE_PERIOD: Duration = Duration::from_secs(60);

/// How often the name is resolved until it is found for the first time.
const FIRST_RESOLVE_PERIOD: Duration = Duration::from_secs(1);

/// The addresses that are closed, which change while the process runs.
#[derive(Debug)]
pub(super) struct ClosedAddresses {
    /// The networks of the cluster that the operator has configured.
    cluster: Vec<IpNet>,
    api_server: RwLock<Vec<SocketAddr>>,
    /// This machine's addresses when they were determined last.
    own: Mutex<Vec<IpAddr>>,
    own_ports: RwLock<Vec<u16>>,
    nodes: NodeAddresses,
}

impl ClosedAddresses {
    pub(super) fn new(cluster: Vec<IpNet>) -> Self {
        Self {
            cluster,
            api_server: RwLock::default(),
            own: Mutex::new(own_addresses().unwrap_or_default()),
            own_ports: RwLock::default(),
            nodes: NodeAddresses::default(),
        }
    }

    /// Returns the addresses that are closed now.
    pub(super) fn now(&self) -> ClusterAddresses {
        let known = self.nodes.now();
        let mut cluster = self.cluster.clone();
        cluster.extend(known.pods);

        ClusterAddresses {
            api_server: self.api_server(),
            cluster,
            own: self.own(),
            own_ports: self.own_ports.read().clone(),
            nodes: known.nodes,
        }
    }

    fn api_server(&self) -> Vec<SocketAddr> {
        self.api_server.read().clone()
    }

    /// Returns this machine's addresses, or the last known ones if they cannot be determined.
    fn own(&self) -> Vec<IpAddr> {
        let mut known = self.own.lock();
        if let Ok(now) = own_addresses() {
            *known = now;
        }
        known.clone()
    }

    pub(super) fn close_port(&self, port: u16) {
        self.own_ports.write().push(port);
    }

    pub(super) fn close_nodes(&self, cluster: Arc<dyn Cluster>) {
        self.nodes.follow(cluster);
    }

    /// Returns true for an address of the API server, whatever the port.
    pub(super) fn is_api_server(&self, address: IpAddr) -> bool {
        self.api_server()
            .iter()
            .any(|known| known.ip().to_canonical() == address)
    }

    /// Keeps the addresses of the API server closed when its name resolves to other ones. Never
    /// ends.
    pub(super) async fn follow_api_server(&self, url: &http::Uri) {
        let default = match url.scheme_str() {
            Some("http") => 80,
            _ => 443,
        };
        let port = url.port_u16().unwrap_or(default);

        let host = url
            .host()
            .unwrap_or_default()
            // The host in a URL has brackets if it is an IPv6 address.
            .trim_matches(['[', ']']);

        loop {
            self.find_api_server(host, port).await;
            let period = if self.api_server().is_empty() {
                FIRST_RESOLVE_PERIOD
            } else {
                RESOLVE_PERIOD
            };
            tokio::time::sleep(period).await;
        }
    }

    /// Closes the addresses that the name of the API server resolves to.
    pub(super) async fn find_api_server(&self, host: &str, port: u16) {
        let mut found: Vec<SocketAddr> = match host.parse::<IpAddr>() {
            Ok(address) => vec![(address, port).into()],
            Err(_) => tokio::net::lookup_host((host, port))
                .await
                .map(Iterator::collect)
                .unwrap_or_default(),
        };
        // Pods reach the API server at this address, even if the kubeconfig has another one.
        found.extend(service_address(|name| std::env::var(name).ok()));

        let mut known = self.api_server.write();

        // The known addresses stay closed if the name temporarily cannot be resolved.
        let kept: Vec<_> = known
            .iter()
            .filter(|old| !found.contains(old))
            .copied()
            .collect();
        found.extend(kept);
        // Those that were found last come first, and stay.
        found.truncate(API_SERVERS);
        *known = found;
    }
}

/// Returns the address of the Service `kubernetes`, which the kubelet sets in the environment of
/// each container.
fn service_address(variable: impl Fn(&str) -> Option<String>) -> Option<SocketAddr> {
    let address: IpAddr = variable("KUBERNETES_SERVICE_HOST")?.parse().ok()?;
    let port = variable("KUBERNETES_SERVICE_PORT").and_then(|port| port.parse().ok());
    Some((address, port.unwrap_or(443)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Holds: SEC-16
    #[test]
    fn the_service_of_the_api_server_may_have_any_port() {
        for (host, port, expected) in [
            (Some("10.96.0.1"), Some("6443"), Some("10.96.0.1:6443")),
            (Some("10.96.0.1"), Some("443"), Some("10.96.0.1:443")),
            (Some("10.96.0.1"), None, Some("10.96.0.1:443")),
            (Some("fd00::1"), Some("6443"), Some("[fd00::1]:6443")),
            (Some("kubernetes"), Some("443"), None),
            (None, Some("443"), None),
        ] {
            let found = service_address(|name| {
                let value = match name {
                    "KUBERNETES_SERVICE_HOST" => host,
                    "KUBERNETES_SERVICE_PORT" => port,
                    _ => None,
                };
                value.map(str::to_owned)
            });
            let expected = expected.map(|text| text.parse().unwrap());
            assert_eq!(found, expected, "{host:?} {port:?}");
        }
    }
}
