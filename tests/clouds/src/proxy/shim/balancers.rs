//! Corrects descriptions of load balancers. Pure.

use crate::aws::{REGION, xml};

/// Corrects the DNS names of network load balancers, which end with `.elb.REGION.amazonaws.com`.
/// moto uses the suffix of the other kinds, `.REGION.elb.amazonaws.com`.
pub(super) fn with_network_names(answer: &str) -> String {
    let wrong = format!(".{REGION}.elb.amazonaws.com</DNSName>");
    let right = format!(".elb.{REGION}.amazonaws.com</DNSName>");
    each(answer, "LoadBalancers", |one| {
        if xml::first(one, "Type") == Some("network") {
            one.replace(&wrong, &right)
        } else {
            one.to_owned()
        }
    })
}

/// Adds the default health check of AWS for the first port, which every classic load balancer has
/// after its creation.
pub(super) fn with_health_checks(answer: &str) -> String {
    each(answer, "LoadBalancerDescriptions", |one| {
        if xml::first(one, "HealthCheck").is_some() {
            return one.to_owned();
        }
        let check = format!(
            "<HealthCheck><Target>TCP:{}</Target><Interval>30</Interval><Timeout>5</Timeout>\
             <UnhealthyThreshold>2</UnhealthyThreshold><HealthyThreshold>10</HealthyThreshold></HealthCheck><DNSName>",
            xml::first(one, "InstancePort").unwrap_or_default(),
        );
        one.replacen("<HealthCheck/>", "", 1)
            .replacen("<DNSName>", &check, 1)
    })
}

/// Returns the answer with a changed version of each member of this list.
fn each(answer: &str, list: &str, change: impl Fn(&str) -> String) -> String {
    let mut repaired = answer.to_owned();
    for one in xml::items(answer, list) {
        repaired = repaired.replace(one, &change(one));
    }
    repaired
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_network_load_balancers_get_network_dns_names() {
        let one = |name: &str, kind: &str| {
            format!(
                "<member><DNSName>{name}.us-east-1.elb.amazonaws.com</DNSName><Type>{kind}</Type></member>"
            )
        };
        let answer = format!(
            "<LoadBalancers>{}{}</LoadBalancers>",
            one("web-1", "application"),
            one("net-1", "network")
        );
        let names = [
            "web-1.us-east-1.elb.amazonaws.com",
            "net-1.elb.us-east-1.amazonaws.com",
        ];
        assert_eq!(xml::all(&with_network_names(&answer), "DNSName"), names);
    }

    #[test]
    fn a_configured_health_check_is_kept() {
        let one = |name: &str, check: &str| {
            format!(
                "<member><InstancePort>3{name}</InstancePort>{check}<DNSName>{name}</DNSName></member>"
            )
        };
        let set = "<HealthCheck><Target>HTTP:80/x</Target></HealthCheck>";
        let answer = [one("1", set), one("2", ""), one("3", "<HealthCheck/>")].concat();
        let repaired = with_health_checks(&format!(
            "<LoadBalancerDescriptions>{answer}</LoadBalancerDescriptions>"
        ));
        assert_eq!(
            xml::all(&repaired, "Target"),
            ["HTTP:80/x", "TCP:32", "TCP:33"]
        );
        assert!(!repaired.contains("<HealthCheck/>"));
    }
}
