//! The TLS container of a listener in Barbican, which must exist.

use std::time::Duration;

use skydock_sdk::{
    Result,
    http::{self, Method},
    types::CloudError,
};

use crate::{
    cloud::{Cloud, Kind},
    load_balancers::{annotation, desired_load_balancer::DesiredLoadBalancer},
};

/// How long the existence of a TLS container is cached.
const SEEN: Duration = Duration::from_secs(600);

/// Checks that the TLS container exists in Barbican, as upstream does, unless containers are
/// external.
pub(super) fn check(cloud: &Cloud<'_>, desired: &DesiredLoadBalancer) -> Result<()> {
    let reference = desired.listener.tls_container_ref.as_str();
    if reference.is_empty() || !cloud.config.load_balancer.barbican {
        return Ok(());
    }

    let key = format!("tls {reference}");
    if cloud.host.cached(&key).is_some() {
        return Ok(());
    }

    let invalid =
        |reason: &str| CloudError::invalid(format!("{}: {reason}", annotation::TLS_CONTAINER_REF));

    let mut parts = reference.rsplit('/');
    let id = parts.next().unwrap_or_default();
    let kind = parts.next().unwrap_or_default();

    if !matches!(kind, "containers" | "secrets") {
        return Err(invalid(
            "expected the URL of a container or secret of Barbican: https://HOST/v1/containers/ID",
        ));
    }

    if !cloud.has(Kind::KeyManager)? {
        return Err(CloudError::denied(format!(
            "{}: the cloud has no key manager: set `container-store=external` if the container is external",
            annotation::TLS_CONTAINER_REF
        )));
    }

    let path = format!("/{kind}/{}", http::segment(id)?);
    cloud
        .request(
            Method::Get,
            Kind::KeyManager,
            &path,
            "cannot read the TLS container",
        )?
        .send()?;
    cloud.host.cache(&key, &[1], SEEN);
    Ok(())
}
