//! Names of resources in the cloud, the same as upstream's, so that each provider finds the
//! resources of the other.

use skydock_sdk::types::Service;

/// The prefix of the names and tags of load balancers of Services.
pub const SERVICE_PREFIX: &str = "kube_service_";

/// A part of the descriptions of floating IPs that were created for Services.
pub const FLOATING_IP_MARK: &str = "Floating IP for Kubernetes external service";

/// The prefix of the descriptions of floating IPs that stay when their Service is deleted.
pub const KEPT_MARK: &str = "Kept: ";

/// Maximum length of a name in OpenStack, in bytes.
const MOST: usize = 255;

/// Returns the text, shortened to the maximum length.
fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MOST));
    text
}

/// Returns the name and tag of the load balancer of a Service.
#[must_use]
pub fn load_balancer(cluster: &str, service: &Service) -> String {
    cut(format!(
        "{SERVICE_PREFIX}{cluster}_{}_{}",
        service.namespace, service.name
    ))
}

/// Returns the name of a load balancer from before Kubernetes 1.14: `a` and the UID without dashes,
/// 32 characters in total.
#[must_use]
pub fn legacy(service: &Service) -> String {
    let mut name = format!("a{}", service.uid.replace('-', ""));
    name.truncate(name.floor_char_boundary(32));
    name
}

/// Returns true if a load balancer has one of the names that are given to those of this Service.
#[must_use]
pub fn is_of(name: &str, load_balancer: &str, service: &Service) -> bool {
    name == load_balancer || name == legacy(service)
}

/// Returns the description of a load balancer.
#[must_use]
pub fn description(cluster: &str, service: &Service) -> String {
    cut(format!(
        "Kubernetes external service {}/{} from cluster {cluster}",
        service.namespace, service.name
    ))
}

/// Returns the description of a floating IP.
#[must_use]
pub fn floating_ip(cluster: &str, service: &Service) -> String {
    cut(format!(
        "{FLOATING_IP_MARK} {}/{} from cluster {cluster}",
        service.namespace, service.name
    ))
}

/// Returns the description of a floating IP that is kept after its Service is deleted. Upstream
/// still recognizes it as created for a Service.
#[must_use]
pub fn kept_floating_ip(description: &str) -> String {
    cut(format!("{KEPT_MARK}{description}"))
}

/// Returns the description of a floating IP that is kept while this Service is internal.
#[must_use]
pub fn floating_ip_kept_by(cluster: &str, service: &Service) -> String {
    let description = floating_ip(cluster, service);
    kept_floating_ip(&format!("Service {}: {description}", service.uid))
}

/// Returns the name of the security group of a Service.
#[must_use]
pub fn security_group(service: &Service) -> String {
    cut(format!(
        "lb-sg-{}-{}-{}",
        service.uid, service.namespace, service.name
    ))
}

/// Returns the description of the security group of a Service.
#[must_use]
pub fn security_group_description(cluster: &str, service: &Service) -> String {
    cut(format!(
        "Security Group for {}/{} Service LoadBalancer in cluster {cluster}",
        service.namespace, service.name
    ))
}

/// Returns the name of the listener, pool or monitor of a Service's port.
#[must_use]
pub fn part(kind: &str, index: usize, load_balancer: &str) -> String {
    cut(format!("{kind}_{index}_{load_balancer}"))
}

/// Returns the name of the cluster in the name of a load balancer, if the load balancer is named
/// after this Service.
#[must_use]
pub fn cluster_of<'a>(name: &'a str, service: &Service) -> Option<&'a str> {
    let rest = name.strip_prefix(SERVICE_PREFIX)?;
    rest.strip_suffix(&format!("_{}_{}", service.namespace, service.name))
        .filter(|cluster| !cluster.is_empty())
}

/// Returns the name or tag with another cluster, or unchanged if it does not contain the old one.
/// Names of namespaces and Services have no underscores, so more than two belong to the name of
/// another cluster that starts with the old one.
#[must_use]
pub fn with_cluster(name: &str, old: &str, new: &str) -> String {
    let Some((before, after)) = name.split_once(SERVICE_PREFIX) else {
        return name.to_owned();
    };

    match after
        .strip_prefix(old)
        .filter(|rest| rest.starts_with('_') && rest.matches('_').count() <= 2)
    {
        Some(rest) => cut(format!("{before}{SERVICE_PREFIX}{new}{rest}")),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(namespace: &str, name: &str) -> Service {
        let uid = "0b9b2d4c-1234-5678-9abc-def012345678".to_owned();
        Service {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid,
            ..Service::default()
        }
    }

    #[test]
    fn names_match_upstream() {
        let service = service("shop", "web");
        assert_eq!(
            load_balancer("kubernetes", &service),
            "kube_service_kubernetes_shop_web"
        );
        assert_eq!(legacy(&service), "a0b9b2d4c123456789abcdef01234567");

        let is_own = |name: &str| is_of(name, &load_balancer("kubernetes", &service), &service);
        assert!(is_own("kube_service_kubernetes_shop_web"));
        assert!(is_own("a0b9b2d4c123456789abcdef01234567"));
        assert!(!is_own("a0b9b2d4c123456789abcdef01234568"));
        assert_eq!(
            part("listener", 0, &load_balancer("c", &service)),
            "listener_0_kube_service_c_shop_web"
        );
        assert_eq!(
            description("c", &service),
            "Kubernetes external service shop/web from cluster c"
        );
        assert_eq!(
            floating_ip("c", &service),
            "Floating IP for Kubernetes external service shop/web from cluster c"
        );
        assert_eq!(
            security_group(&service),
            "lb-sg-0b9b2d4c-1234-5678-9abc-def012345678-shop-web"
        );
        assert_eq!(
            security_group_description("c", &service),
            "Security Group for shop/web Service LoadBalancer in cluster c"
        );
    }

    #[test]
    fn long_names_are_truncated_to_255_characters() {
        assert_eq!(
            load_balancer(&"c".repeat(300), &service("a", "b")).len(),
            255
        );
    }

    #[test]
    fn a_kept_floating_ip_has_a_prefix_in_its_description() {
        let description = floating_ip("c", &service("shop", "web"));
        assert_eq!(
            kept_floating_ip(&description),
            format!("Kept: {description}")
        );
        assert_eq!(
            floating_ip_kept_by("c", &service("shop", "web")),
            format!("Kept: Service 0b9b2d4c-1234-5678-9abc-def012345678: {description}")
        );
    }

    #[test]
    fn the_cluster_name_can_be_parsed_and_replaced() {
        let service = service("shop", "web");
        assert_eq!(
            cluster_of("kube_service_my_old_shop_web", &service),
            Some("my_old")
        );
        assert_eq!(cluster_of("kube_service__shop_web", &service), None);
        assert_eq!(cluster_of("kube_service_c_shop_other", &service), None);
        assert_eq!(cluster_of("mine", &service), None);

        let renamed = with_cluster("pool_0_kube_service_old_shop_web", "old", "new");
        assert_eq!(renamed, "pool_0_kube_service_new_shop_web");

        for other in [
            "kube_service_older_shop_web",
            "kube_service_old_eu_shop_web",
        ] {
            assert_eq!(with_cluster(other, "old", "new"), other);
        }
        assert_eq!(with_cluster("mine", "old", "new"), "mine");
    }
}
