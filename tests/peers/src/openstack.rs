//! The settings for the peer of OpenStack.

use skydock_clouds::Project;

/// Returns a `cloud.conf` for a cluster in this project: load balancers in its IPv4 subnet with
/// floating IPs, and routes in its router. `auth_url` can be that of a proxy.
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
