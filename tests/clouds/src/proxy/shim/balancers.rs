//! Load balancers as AWS describes them. Pure.

use crate::aws::{REGION, xml};

/// The names of network load balancers end in `.elb.REGION.amazonaws.com`; moto gives them the names of the other kinds, which end
/// in `.REGION.elb.amazonaws.com`.
pub(super) fn with_network_names(answer: &str) -> String {
    let wrong = format!(".{REGION}.elb.amazonaws.com</DNSName>");
    let right = format!(".elb.{REGION}.amazonaws.com</DNSName>");
    each(answer, "LoadBalancers", |one| {
        if xml::first(one, "Type") == Some("network") { one.replace(&wrong, &right) } else { one.to_owned() }
    })
}

/// A classic load balancer has had a health check from its beginning: of its first port, with AWS's defaults.
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
        one.replacen("<HealthCheck/>", "", 1).replacen("<DNSName>", &check, 1)
    })
}

/// The answer with every member of this list changed.
fn each(answer: &str, list: &str, change: impl Fn(&str) -> String) -> String {
    let mut mended = answer.to_owned();
    for one in xml::items(answer, list) {
        mended = mended.replace(one, &change(one));
    }
    mended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_network_load_balancers_are_named_like_them() {
        let one = |name: &str, kind: &str| {
            format!("<member><DNSName>{name}.us-east-1.elb.amazonaws.com</DNSName><Type>{kind}</Type></member>")
        };
        let answer =
            format!("<LoadBalancers>{}{}</LoadBalancers>", one("web-1", "application"), one("net-1", "network"));
        let names = ["web-1.us-east-1.elb.amazonaws.com", "net-1.elb.us-east-1.amazonaws.com"];
        assert_eq!(xml::all(&with_network_names(&answer), "DNSName"), names);
    }

    #[test]
    fn a_health_check_that_was_set_stays() {
        let one = |name: &str, check: &str| {
            format!("<member><InstancePort>3{name}</InstancePort>{check}<DNSName>{name}</DNSName></member>")
        };
        let set = "<HealthCheck><Target>HTTP:80/x</Target></HealthCheck>";
        let answer = [one("1", set), one("2", ""), one("3", "<HealthCheck/>")].concat();
        let mended = with_health_checks(&format!("<LoadBalancerDescriptions>{answer}</LoadBalancerDescriptions>"));
        assert_eq!(xml::all(&mended, "Target"), ["HTTP:80/x", "TCP:32", "TCP:33"]);
        assert!(!mended.contains("<HealthCheck/>"));
    }
}
