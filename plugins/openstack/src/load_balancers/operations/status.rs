//! The status of a Service.

use skydock_sdk::{
    Result,
    types::{Ingress, IpMode, LoadBalancerStatus, Service},
};

use crate::{
    cloud::Cloud,
    config::Config,
    load_balancers::{
        Context, annotation,
        desired_load_balancer::DesiredLoadBalancer,
        floating_ip, had_address, names,
        observed_load_balancer::{cluster_check, find::find},
        requested, security_group,
    },
};

/// Returns the status of a Service whose load balancer has this address.
#[must_use]
pub(crate) fn of(
    config: &Config,
    service: &Service,
    desired: &DesiredLoadBalancer,
    address: &str,
) -> LoadBalancerStatus {
    let name = |hostname: String| Ingress {
        hostname: Some(hostname),
        ..Ingress::default()
    };

    let hostname = annotation::text(service, annotation::HOSTNAME, "");
    let lb = &config.load_balancer;
    let ingress = if !hostname.is_empty() {
        name(hostname.to_owned())
    } else if desired.speaks_proxy() && lb.enable_ingress_hostname {
        // A host name instead of the address, because kube-proxy would bypass the load balancer for
        // an address.
        name(format!("{address}.{}", lb.ingress_hostname_suffix))
    } else {
        let mode = if desired.speaks_proxy() {
            IpMode::Proxy
        } else {
            IpMode::Vip
        };
        Ingress {
            ip: Some(address.to_owned()),
            ip_mode: Some(mode),
            ..Ingress::default()
        }
    };

    LoadBalancerStatus {
        ingress: vec![ingress],
    }
}

/// Returns the current load balancer of this Service in the cloud.
///
/// # Errors
/// Fails if a request to the cloud fails.
pub fn get(cloud: &Cloud<'_>, service: &Service) -> Result<Option<LoadBalancerStatus>> {
    let id = annotation::text(service, annotation::LOAD_BALANCER_ID, "");
    let name = names::load_balancer(cloud.cluster, service);
    let Some(found) = find(cloud, id, &name, service)? else {
        return leftovers(cloud, service);
    };

    if service.deleting {
        // All that matters is that it exists: its floating IP would need a request for each deleted
        // Service.
        return Ok(Some(LoadBalancerStatus::default()));
    }

    let named = DesiredLoadBalancer {
        name,
        id: id.to_owned(),
        ..DesiredLoadBalancer::default()
    };
    let context = Context {
        cloud,
        service,
        desired: &named,
    };
    if cluster_check::is_foreign(context, &found, None)? {
        return leftovers(cloud, service);
    }

    let vip = found.load_balancer.vip_address.clone().unwrap_or_default();
    let floating = floating_ip::attached(cloud, &found.load_balancer)?
        .map(|floating| floating.floating_ip_address);
    let address = floating.unwrap_or(vip);

    if address.is_empty() {
        return Ok(Some(LoadBalancerStatus::default()));
    }

    Ok(Some(of(
        cloud.config,
        service,
        &requested(cloud, service).unwrap_or_default(),
        &address,
    )))
}

/// Returns an empty status if there is no load balancer but resources that were created with it, so
/// that the host deletes them.
fn leftovers(cloud: &Cloud<'_>, service: &Service) -> Result<Option<LoadBalancerStatus>> {
    let keep = annotation::keeps_floating_ip(service);
    let remains = had_address(service)
        && (security_group::exists(cloud, service)?
            || (!keep && !floating_ip::unattached(cloud, service)?.is_empty()));
    Ok(remains.then(LoadBalancerStatus::default))
}

#[cfg(test)]
mod tests {
    use skydock_sdk::types::{ServicePort, Transport};

    use super::*;
    use crate::cloud::Features;

    fn ingress(config: &str, annotations: &[(&str, &str)]) -> Ingress {
        let config = Config::parse(&format!("[Global]\nauth-url=http://k\n{config}"), &[]).unwrap();
        let port = ServicePort {
            name: String::new(),
            transport: Transport::Tcp,
            app_protocol: None,
            port: 80,
            target_port: "80".to_owned(),
            node_port: 30080,
        };
        let service = Service {
            annotations: annotations
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            ports: vec![port],
            ..Service::default()
        };
        let desired = DesiredLoadBalancer::of(&config, "c", Features::default(), &service).unwrap();
        of(&config, &service, &desired, "203.0.113.7")
            .ingress
            .remove(0)
    }

    fn at(ip_mode: IpMode) -> Ingress {
        Ingress {
            ip: Some("203.0.113.7".to_owned()),
            ip_mode: Some(ip_mode),
            ..Ingress::default()
        }
    }

    #[test]
    fn the_status_has_the_ip_unless_a_hostname_is_set() {
        assert_eq!(ingress("", &[]), at(IpMode::Vip));
        let named = ingress(
            "",
            &[
                (annotation::HOSTNAME, "web.example"),
                (annotation::PROXY_PROTOCOL, "true"),
            ],
        );
        assert_eq!(
            (named.hostname.as_deref(), named.ip),
            (Some("web.example"), None)
        );
    }

    #[test]
    fn proxy_protocol_sets_ip_mode_proxy_or_a_hostname() {
        let proxy = [(annotation::PROXY_PROTOCOL, "v2")];
        assert_eq!(ingress("", &proxy), at(IpMode::Proxy));
        let named =
            "[LoadBalancer]\nenable-ingress-hostname=true\ningress-hostname-suffix=lb.example";
        assert_eq!(
            ingress(named, &proxy).hostname.as_deref(),
            Some("203.0.113.7.lb.example")
        );
        assert_eq!(ingress(named, &[]), at(IpMode::Vip));
    }
}
