//! The annotations of Services that configure load balancers, and how their values are read.
//!
//! An additional annotation is in at most four files, or five if it is for both kinds:
//!
//! 1. here: its name, in one of the lists below;
//! 2. the property of the load balancer that it sets: in `desired_load_balancer.rs` or `health.rs` of
//!    the kind, or in `nlb/desired_load_balancer/attributes.rs`; an attribute of target groups needs
//!    no annotation of its own, but a name in `group_attributes` in `nlb/desired_load_balancer.rs`;
//! 3. `applied.rs`, if the load balancer keeps the property when the annotation is removed: a field
//!    of `Applied`, which `DesiredLoadBalancer::applied` sets and `DesiredLoadBalancer::undo` reads;
//! 4. `README.md`: a row of the table.

use std::collections::BTreeMap;

use skydock_sdk::{
    Result,
    types::{CloudError, Service, Transport},
};

use crate::tags::{self, Tags};

/// The common prefix of all of them.
const PREFIX: &str = "service.beta.kubernetes.io/aws-load-balancer-";

pub(crate) const TYPE: &str = "type";
pub(crate) const INTERNAL: &str = "internal";
/// Of the AWS Load Balancer Controller. A load balancer that it makes internal must not be public.
pub(crate) const SCHEME: &str = "scheme";
pub(crate) const PROXY_PROTOCOL: &str = "proxy-protocol";
pub(crate) const ACCESS_LOG_INTERVAL: &str = "access-log-emit-interval";
pub(crate) const ACCESS_LOG_ENABLED: &str = "access-log-enabled";
pub(crate) const ACCESS_LOG_BUCKET: &str = "access-log-s3-bucket-name";
pub(crate) const ACCESS_LOG_PREFIX: &str = "access-log-s3-bucket-prefix";
pub(crate) const DRAINING_ENABLED: &str = "connection-draining-enabled";
pub(crate) const DRAINING_TIMEOUT: &str = "connection-draining-timeout";
pub(crate) const IDLE_TIMEOUT: &str = "connection-idle-timeout";
pub(crate) const CROSS_ZONE: &str = "cross-zone-load-balancing-enabled";
pub(crate) const EXTRA_SECURITY_GROUPS: &str = "extra-security-groups";
pub(crate) const SECURITY_GROUPS: &str = "security-groups";
pub(crate) const CERTIFICATE: &str = "ssl-cert";
pub(crate) const TLS_PORTS: &str = "ssl-ports";
pub(crate) const TLS_POLICY: &str = "ssl-negotiation-policy";
pub(crate) const BACKEND_PROTOCOL: &str = "backend-protocol";
pub(crate) const TAGS: &str = "additional-resource-tags";
pub(crate) const HEALTH_PROTOCOL: &str = "healthcheck-protocol";
pub(crate) const HEALTH_PORT: &str = "healthcheck-port";
pub(crate) const HEALTH_PATH: &str = "healthcheck-path";
pub(crate) const HEALTHY: &str = "healthcheck-healthy-threshold";
pub(crate) const UNHEALTHY: &str = "healthcheck-unhealthy-threshold";
pub(crate) const HEALTH_TIMEOUT: &str = "healthcheck-timeout";
pub(crate) const HEALTH_INTERVAL: &str = "healthcheck-interval";
pub(crate) const GROUP_ATTRIBUTES: &str = "target-group-attributes";
pub(crate) const ALLOCATIONS: &str = "eip-allocations";
pub(crate) const PRIVATE_ADDRESSES: &str = "private-ipv4-addresses";
pub(crate) const NODE_LABELS: &str = "target-node-labels";
pub(crate) const SUBNETS: &str = "subnets";
pub(crate) const IP_ADDRESS_TYPE: &str = "ip-address-type";

/// The policy for TLS that AWS uses by default.
pub(crate) const DEFAULT_POLICY: &str = "ELBSecurityPolicy-2016-08";

/// Of the AWS Load Balancer Controller: restricts clients.
const PREFIX_LISTS: &str = "security-group-prefix-lists";

/// Parts of the names of annotations that do not exist, with which users mean to restrict clients.
const RESTRICTIONS: [&str; 2] = ["source-range", "cidr"];

/// Maximum number of characters of the key of a tag.
const LONGEST_KEY: usize = 128;

/// Maximum number of characters of the value of a tag.
const LONGEST_VALUE: usize = 256;

/// The kind of a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Network,
    Classic,
}

/// The annotations for both kinds.
const BOTH: &[&str] = &[
    TYPE,
    INTERNAL,
    SCHEME,
    ACCESS_LOG_ENABLED,
    ACCESS_LOG_BUCKET,
    ACCESS_LOG_PREFIX,
    CROSS_ZONE,
    SECURITY_GROUPS,
    CERTIFICATE,
    TLS_PORTS,
    TLS_POLICY,
    BACKEND_PROTOCOL,
    TAGS,
    HEALTH_PROTOCOL,
    HEALTH_PORT,
    HEALTH_PATH,
    HEALTHY,
    UNHEALTHY,
    HEALTH_TIMEOUT,
    HEALTH_INTERVAL,
    NODE_LABELS,
    SUBNETS,
];

/// The annotations for network load balancers only.
const NETWORK: &[&str] = &[
    GROUP_ATTRIBUTES,
    ALLOCATIONS,
    PRIVATE_ADDRESSES,
    IP_ADDRESS_TYPE,
];

/// The annotations for classic load balancers only.
const CLASSIC: &[&str] = &[
    PROXY_PROTOCOL,
    ACCESS_LOG_INTERVAL,
    DRAINING_ENABLED,
    DRAINING_TIMEOUT,
    IDLE_TIMEOUT,
    EXTRA_SECURITY_GROUPS,
];

/// The annotations of one Service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Annotations<'a>(pub(crate) &'a [(String, String)]);

impl<'a> Annotations<'a> {
    /// Returns the value, which can be empty.
    pub(crate) fn get(self, name: &str) -> Option<&'a str> {
        let named = |key: &str| key.strip_prefix(PREFIX) == Some(name);
        self.0
            .iter()
            .find(|(key, _)| named(key))
            .map(|(_, value)| value.as_str())
    }

    /// Returns the value if it is not empty.
    pub(crate) fn text(self, name: &str) -> Option<&'a str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// Returns a boolean, with the values that Go's `strconv.ParseBool` accepts.
    ///
    /// # Errors
    /// Fails if the value is not a boolean.
    pub(crate) fn flag(self, name: &str) -> Result<Option<bool>> {
        match self.text(name) {
            None => Ok(None),
            Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(Some(true)),
            Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(Some(false)),
            Some(_) => Err(wrong(name, "true or false")),
        }
    }

    /// Returns a number.
    ///
    /// # Errors
    /// Fails if the value is not a number.
    pub(crate) fn number(self, name: &str) -> Result<Option<u32>> {
        self.get(name)
            .map(|text| text.trim().parse().map_err(|_| wrong(name, "a number")))
            .transpose()
    }

    /// Returns a list separated by commas, without empty parts.
    pub(crate) fn list(self, name: &str) -> Vec<String> {
        let parts = self.get(name).unwrap_or_default().split(',');
        parts
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// Returns the pairs of `Key1=Val1,Key2=,Key3`. A value can contain `=`.
    pub(crate) fn pairs(self, name: &str) -> BTreeMap<String, String> {
        let parts = self.get(name).unwrap_or_default().split(',');
        parts
            .filter_map(|part| {
                let part = part.trim();
                let (key, value) = part.split_once('=').unwrap_or((part, ""));
                (!key.is_empty()).then(|| (key.to_owned(), value.to_owned()))
            })
            .collect()
    }

    /// Returns the additional tags, without those that AWS rejects, and without those that tell
    /// the cluster and the Service. The second value has the keys of those.
    pub(crate) fn tags(self) -> (Tags, Vec<String>) {
        let (valid, others): (Tags, Tags) = self
            .pairs(TAGS)
            .into_iter()
            .partition(|(key, value)| is_tag(key, value));
        (valid, others.into_keys().collect())
    }

    /// Returns true if the load balancer is internal: with any value of `internal` except `false`,
    /// or with the scheme `internal`. If they contradict each other, it is not public.
    ///
    /// # Errors
    /// Fails if the scheme is not valid.
    pub(crate) fn internal(self) -> Result<bool> {
        let by_scheme = match self.text(SCHEME).map(str::trim) {
            None | Some("internet-facing") => false,
            Some("internal") => true,
            Some(_) => return Err(wrong(SCHEME, "internal or internet-facing")),
        };
        Ok(by_scheme || self.text(INTERNAL).is_some_and(|value| value != "false"))
    }

    /// Rejects annotations that restrict clients in a way that is not supported, if ignoring them
    /// would open the load balancer to more clients.
    ///
    /// # Errors
    /// Fails if there is such an annotation.
    pub(crate) fn check_clients(self, service: &Service) -> Result<()> {
        let opens = |name: &str, value: &str| {
            let mut ranges = value.split(',').map(str::trim);
            let is_narrow = ranges.any(|range| !range.is_empty() && !range.ends_with("/0"));
            let is_restriction = RESTRICTIONS.iter().any(|part| name.contains(part));
            (name == PREFIX_LISTS && !value.is_empty())
                || (is_restriction && is_narrow && service.source_ranges.is_empty())
        };

        let mut annotations = self.0.iter();
        match annotations.find(|(key, value)| {
            key.strip_prefix(PREFIX)
                .is_some_and(|name| opens(name, value))
        }) {
            None => Ok(()),
            Some((key, _)) => Err(CloudError::invalid(format!(
                "annotation {key} is not supported, and without it the load balancer would have more clients; remove it, and \
                 set spec.loadBalancerSourceRanges"
            ))),
        }
    }

    /// Returns sentences about annotations and values of a Service without the effect that they may
    /// seem to have.
    pub(crate) fn ignored(self, kind: Kind, service: &Service) -> Vec<String> {
        let (own, name) = match kind {
            Kind::Network => (NETWORK, "a network load balancer of this provider"),
            Kind::Classic => (CLASSIC, "a classic load balancer"),
        };

        let unknown = self.0.iter().filter(|(key, value)| {
            let known = |name: &str| BOTH.contains(&name) || own.contains(&name);
            // The default of the AWS Load Balancer Controller is what this provider does.
            let is_default = |name: &str| name == "nlb-target-type" && value == "instance";
            key.strip_prefix(PREFIX)
                .is_some_and(|name| !known(name) && !is_default(name))
        });
        let unknown: Vec<&str> = unknown.map(|(key, _)| key.as_str()).collect();

        let mut sentences = Vec::new();
        if !unknown.is_empty() {
            sentences.push(format!("{name} has no use for {}", unknown.join(", ")));
        }
        if kind == Kind::Classic
            && let Some(other) = self.text(TYPE)
            && !matches!(other, "classic" | "clb" | "elb")
        {
            sentences.push(format!(
                "annotation {}: {other} is not nlb, so the load balancer is a classic one",
                key(TYPE)
            ));
        }

        sentences.extend(self.without_tls(service));
        let (_, tags) = self.tags();
        if !tags.is_empty() {
            sentences.push(format!(
                "annotation {}: the load balancer does not get the tags {}, because AWS does not allow them, or because they would \
                 contradict the tags of the cluster",
                key(TAGS),
                tags.join(", ")
            ));
        }

        match self.text(INTERNAL) {
            Some("false") if self.text(SCHEME).map(str::trim) == Some("internal") => {
                sentences.push(format!(
                    "the load balancer is internal, as {} requests, despite {}: false",
                    key(SCHEME),
                    key(INTERNAL)
                ));
            }
            // Early versions of Kubernetes documented `0.0.0.0/0` as the value.
            None | Some("true" | "false" | "0.0.0.0/0") => {}
            Some(odd) => sentences.push(format!(
                "annotation {}: {odd} makes the load balancer internal, like any value except false",
                key(INTERNAL)
            )),
        }

        sentences
    }

    /// Returns a sentence about settings of TLS without effect, which leave a port without
    /// encryption.
    fn without_tls(self, service: &Service) -> Option<String> {
        let ports = service.ports.iter();
        // A word that is not a number has the number 0.
        let has_tls = |number: u16, name: &str| {
            let mut tcp = ports
                .clone()
                .filter(|port| port.transport == Transport::Tcp);
            tcp.any(|port| {
                port.port == number || (number == 0 && port.name.eq_ignore_ascii_case(name))
            })
        };

        if self.text(CERTIFICATE).is_none() {
            let set: Vec<String> = [TLS_PORTS, TLS_POLICY]
                .into_iter()
                .filter(|name| self.text(name).is_some())
                .map(key)
                .collect();
            return (!set.is_empty()).then(|| {
                format!(
                    "no port uses TLS despite {}, without {}",
                    set.join(", "),
                    key(CERTIFICATE)
                )
            });
        }

        let named = self.list(TLS_PORTS);
        let unknown: Vec<&str> = named
            .iter()
            .map(String::as_str)
            .filter(|word| *word != "*" && !has_tls(word.parse().unwrap_or_default(), word))
            .collect();

        (!unknown.is_empty()).then(|| {
            format!(
                "annotation {}: the Service has no TCP port {}, so no port uses TLS because of it",
                key(TLS_PORTS),
                unknown.join(", ")
            )
        })
    }

    /// Returns true if TLS is requested for this port.
    pub(crate) fn is_tls_port(self, port: u16, name: &str) -> bool {
        match self.text(TLS_PORTS) {
            None | Some("*") => true,
            Some(list) => list
                .split(',')
                .map(str::trim)
                .any(|item| match item.parse::<u16>() {
                    Ok(number) => number == port,
                    Err(_) => !item.is_empty() && item.eq_ignore_ascii_case(name),
                }),
        }
    }
}

/// Returns true if a load balancer can have this tag, and if it does not tell the cluster or the
/// Service, whose tags show to whom the load balancer belongs.
fn is_tag(key: &str, value: &str) -> bool {
    let is_reserved = key.to_ascii_lowercase().starts_with("aws:")
        || key.starts_with(tags::CLUSTER_PREFIX)
        || [tags::LEGACY_CLUSTER, tags::SERVICE].contains(&key);
    let fits = key.chars().count() <= LONGEST_KEY && value.chars().count() <= LONGEST_VALUE;
    fits && !is_reserved
}

/// Returns the full key of an annotation.
pub(crate) fn key(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// Returns the error for an annotation with an invalid value.
pub(crate) fn wrong(name: &str, expected: &str) -> CloudError {
    CloudError::invalid(format!(
        "annotation {} is not valid; expected {expected}",
        key(name)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::service;

    fn of(name: &str, value: &str) -> Vec<(String, String)> {
        vec![("other".into(), "x".into()), (key(name), value.into())]
    }

    #[test]
    fn values_are_read_as_the_official_provider_reads_them() {
        let pairs = |text: &str| {
            let pairs = Annotations(&of(TAGS, text)).pairs(TAGS);
            pairs
                .iter()
                .map(|(key, value)| format!("{key}:{value}"))
                .collect::<Vec<_>>()
                .join(" ")
        };

        assert_eq!(
            pairs("Key1=Val1, Key2=,Key3,,=x,Key4=a=b,Key5=YWJj=="),
            "Key1:Val1 Key2: Key3: Key4:a=b Key5:YWJj=="
        );
        assert_eq!(
            Annotations(&of(SUBNETS, " a,,b ,")).list(SUBNETS),
            ["a", "b"]
        );
        for (text, internal) in [
            ("true", true),
            ("0.0.0.0/0", true),
            ("false", false),
            ("", false),
        ] {
            assert_eq!(
                Annotations(&of(INTERNAL, text)).internal(),
                Ok(internal),
                "{text}"
            );
        }
        assert_eq!(
            Annotations(&of(CROSS_ZONE, "True")).flag(CROSS_ZONE),
            Ok(Some(true))
        );
        assert_eq!(Annotations(&of(CROSS_ZONE, "")).flag(CROSS_ZONE), Ok(None));
        assert!(
            Annotations(&of(CROSS_ZONE, "yes"))
                .flag(CROSS_ZONE)
                .is_err()
        );
        assert_eq!(Annotations(&of(HEALTHY, "4")).number(HEALTHY), Ok(Some(4)));
        assert!(Annotations(&of(HEALTHY, "-4")).number(HEALTHY).is_err());
    }

    #[test]
    fn a_load_balancer_is_public_only_if_nothing_says_otherwise() {
        for (pairs, expected) in [
            (&[][..], Some(false)),
            (&[("scheme", "internet-facing")], Some(false)),
            (&[("scheme", "internal")], Some(true)),
            (&[("scheme", " internal ")], Some(true)),
            (&[("scheme", "internal"), ("internal", "false")], Some(true)),
            (
                &[("scheme", "internet-facing"), ("internal", "true")],
                Some(true),
            ),
            (&[("scheme", "Internal")], None),
            (&[("scheme", "private")], None),
            (&[("internal", "no")], Some(true)),
        ] {
            let pairs: Vec<_> = pairs
                .iter()
                .map(|(name, value)| (key(name), (*value).to_owned()))
                .collect();
            assert_eq!(Annotations(&pairs).internal().ok(), expected, "{pairs:?}");
        }
    }

    #[test]
    fn clients_are_restricted_or_the_service_is_rejected() {
        let (none, some) = (&[][..], &["192.0.2.0/24"][..]);
        for (name, value, ranges, expected) in [
            (PREFIX_LISTS, "pl-1", none, false),
            (PREFIX_LISTS, "pl-1", some, false),
            (PREFIX_LISTS, "", none, true),
            ("source-ranges", "10.0.0.0/8", none, false),
            ("source-ranges", "0.0.0.0/0, 10.0.0.0/8", none, false),
            ("source-ranges", "10.0.0.0/8", some, true),
            ("source-ranges", "0.0.0.0/0, ::/0", none, true),
            ("source-ranges", "", none, true),
            ("inbound-cidrs", "10.0.0.0/8", none, false),
            (SUBNETS, "subnet-1", none, true),
        ] {
            let service = Service {
                source_ranges: ranges.iter().map(|range| (*range).to_owned()).collect(),
                ..Service::default()
            };
            let checked = Annotations(&of(name, value)).check_clients(&service);
            assert_eq!(checked.is_ok(), expected, "{name}: {value} {ranges:?}");
        }
    }

    #[test]
    fn annotations_without_effect_are_named() {
        let web = service(&[
            ("web", Transport::Tcp, 80, 30080),
            ("dns", Transport::Udp, 53, 30053),
        ]);
        let ignored = |kind: Kind, pairs: &[(&str, &str)]| {
            let pairs: Vec<_> = pairs
                .iter()
                .map(|(name, value)| (key(name), (*value).to_owned()))
                .chain([("other/x".to_owned(), "y".to_owned())])
                .collect();
            Annotations(&pairs).ignored(kind, &web).join("; ")
        };
        // Without a certificate, these two have no effect.
        let of_tls = |name: &&&str| [TLS_PORTS, TLS_POLICY].contains(*name);

        for name in BOTH.iter().chain(NETWORK).filter(|name| !of_tls(name)) {
            assert_eq!(ignored(Kind::Network, &[(name, "false")]), "", "{name}");
        }

        let classic = BOTH.iter().chain(CLASSIC).filter(|name| !of_tls(name));
        for name in classic.filter(|name| **name != TYPE) {
            assert_eq!(ignored(Kind::Classic, &[(name, "false")]), "", "{name}");
        }
        for (kind, name, value, part) in [
            (Kind::Network, "attributes", "a=b", "-attributes"),
            (Kind::Network, "nlb-target-type", "ip", "-nlb-target-type"),
            (Kind::Network, PROXY_PROTOCOL, "*", "-proxy-protocol"),
            (Kind::Classic, ALLOCATIONS, "e", "-eip-allocations"),
            (Kind::Classic, TYPE, "NLB", "is not nlb"),
            (Kind::Network, INTERNAL, "False", "any value except false"),
        ] {
            let text = ignored(kind, &[(name, value)]);
            assert!(text.contains(part), "{name}: {text}");
        }
        assert_eq!(
            ignored(Kind::Network, &[("nlb-target-type", "instance")]),
            ""
        );

        let certificate = (CERTIFICATE, "arn");
        for (pairs, part) in [
            (vec![(TLS_PORTS, "443")], "no port uses TLS despite"),
            (vec![(TLS_POLICY, "p")], "no port uses TLS despite"),
            (vec![certificate], ""),
            (vec![certificate, (TLS_PORTS, "*")], ""),
            (vec![certificate, (TLS_PORTS, "80")], ""),
            (
                vec![certificate, (TLS_PORTS, "WEB,443")],
                "no TCP port 443,",
            ),
            (
                vec![certificate, (TLS_PORTS, "dns, htps")],
                "port dns, htps,",
            ),
            (vec![(TAGS, "AWS:x=1,a=b")], "the tags AWS:x,"),
            (
                vec![(TAGS, "kubernetes.io/cluster/other=owned")],
                "the cluster",
            ),
            (vec![(TAGS, "a=b==,c=x@y/z:+-_.")], ""),
        ] {
            let text = ignored(Kind::Classic, &pairs);
            assert!(
                text.contains(part) && text.is_empty() == part.is_empty(),
                "{pairs:?}: {text}"
            );
        }

        let both = [(SCHEME, "internal"), (INTERNAL, "false")];
        assert!(ignored(Kind::Network, &both).contains("is internal"));
    }

    #[test]
    fn tls_ports_are_selected_by_number_or_name() {
        for (text, port, name, expected) in [
            ("*", 80, "", true),
            ("", 80, "", true),
            ("443,8443", 8443, "", true),
            ("443,8443", 80, "", false),
            ("https", 1, "https", true),
            ("https", 1, "HTTPS", true),
            ("https", 443, "", false),
        ] {
            assert_eq!(
                Annotations(&of(TLS_PORTS, text)).is_tls_port(port, name),
                expected,
                "{text} {port} {name}"
            );
        }
    }
}
