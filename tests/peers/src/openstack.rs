//! What the peer of OpenStack is told of its cloud.

use skydock_clouds::Project;

/// A `cloud.conf` for a cluster in this project: load balancers on its IPv4 subnet with floating IPs, and routes on its
/// router. `auth_url` may be a proxy's.
#[must_use]
pub fn cloud_conf(project: &Project, auth_url: &str) -> String {
    format!(
        "{}[LoadBalancer]\nsubnet-id={}\nfloating-network-id={}\n[Route]\nrouter-id={}\n",
        project.cloud_conf(auth_url),
        project.subnet_id,
        project.external_network_id,
        project.router_id,
    )
}
