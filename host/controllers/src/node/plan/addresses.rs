//! Determines the addresses of a node: the cloud's addresses in the cloud's order, adapted to the
//! flags of the kubelet.

use std::{collections::HashSet, net::IpAddr};

use skydock_cloud::{AddressKind, Node, NodeAddress};
use skydock_controller_base::objects::constants::ANNOTATION_PROVIDED_NODE_IP;

/// Why the annotation with the node's IP addresses cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProvidedIpError {
    /// The annotation is not a list of IP addresses.
    #[error(
        "annotation {ANNOTATION_PROVIDED_NODE_IP}: {0:?} is neither an IP address nor an IPv4 and an IPv6 address separated by a comma"
    )]
    Unreadable(String),
    /// The cloud does not report the address.
    #[error(
        "failed to get node address from cloud provider that matches ip: {0} (annotation {ANNOTATION_PROVIDED_NODE_IP})"
    )]
    Unknown(IpAddr),
}

/// Returns the addresses that the node should have, without duplicates, which the API server
/// rejects; `None` if it has them already, or if the cloud reports none.
///
/// # Errors
///
/// Returns an error if the annotation with the kubelet's `--node-ip` cannot be used.
pub fn wanted(
    node: &Node,
    cloud: &[NodeAddress],
) -> Result<Option<Vec<NodeAddress>>, ProvidedIpError> {
    if cloud.is_empty() {
        return Ok(None);
    }

    let mut wanted = cloud.to_vec();
    let is_hostname = |address: &&NodeAddress| address.kind == AddressKind::Hostname;
    // The kubelet's hostname stays unless the cloud reports one.
    if !wanted.iter().any(|address| is_hostname(&address)) {
        wanted.extend(node.addresses.iter().filter(is_hostname).cloned());
    }

    if let Some(annotation) = node.annotations.get(ANNOTATION_PROVIDED_NODE_IP) {
        wanted = provided_first(&provided_ips(annotation)?, &wanted)?;
    }

    let mut seen = HashSet::new();
    wanted.retain(|address| seen.insert((address.kind, address.address.clone())));

    Ok((wanted != node.addresses).then_some(wanted))
}

fn provided_ips(annotation: &str) -> Result<Vec<IpAddr>, ProvidedIpError> {
    let unreadable = || ProvidedIpError::Unreadable(annotation.to_owned());
    let ips: Vec<IpAddr> = annotation
        .split(',')
        .map(|ip| parse_ip(ip).ok_or_else(unreadable))
        .collect::<Result<_, _>>()?;

    match ips.as_slice() {
        [_] => Ok(ips),
        [a, b] if a.is_ipv4() != b.is_ipv4() && !a.is_unspecified() && !b.is_unspecified() => {
            Ok(ips)
        }
        _ => Err(unreadable()),
    }
}

/// Parses an address as Go did before 1.17: leading zeros in an IPv4 address are ignored.
fn parse_ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse().ok();
    }

    let digits = |part: &str| match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0".to_owned(),
        rest => rest.to_owned(),
    };

    text.split('.')
        .map(digits)
        .collect::<Vec<_>>()
        .join(".")
        .parse()
        .ok()
}

/// Returns the provided addresses first, in their order and of all kinds, and then the addresses of
/// kinds of which none was provided.
fn provided_first(
    ips: &[IpAddr],
    addresses: &[NodeAddress],
) -> Result<Vec<NodeAddress>, ProvidedIpError> {
    let mut ordered: Vec<NodeAddress> = Vec::new();

    for ip in ips {
        let before = ordered.len();
        ordered.extend(
            addresses
                .iter()
                .filter(|address| parse_ip(&address.address) == Some(*ip))
                .cloned(),
        );

        if ordered.len() == before {
            return Err(ProvidedIpError::Unknown(*ip));
        }
    }

    let matched: Vec<AddressKind> = ordered.iter().map(|address| address.kind).collect();
    ordered.extend(
        addresses
            .iter()
            .filter(|address| !matched.contains(&address.kind))
            .cloned(),
    );

    Ok(ordered)
}

#[cfg(test)]
mod tests {
    use AddressKind::{ExternalDns, ExternalIp, Hostname, InternalIp};

    use super::*;

    fn list(addresses: &[(AddressKind, &str)]) -> Vec<NodeAddress> {
        addresses
            .iter()
            .map(|&(kind, address)| NodeAddress {
                kind,
                address: address.to_owned(),
            })
            .collect()
    }

    fn node(annotation: Option<&str>, addresses: &[(AddressKind, &str)]) -> Node {
        let annotations =
            annotation.map(|ip| (ANNOTATION_PROVIDED_NODE_IP.to_owned(), ip.to_owned()));
        Node {
            annotations: annotations.into_iter().collect(),
            addresses: list(addresses),
            ..Node::default()
        }
    }

    // Holds: N-30
    #[test]
    fn an_empty_answer_keeps_the_addresses() {
        assert_eq!(
            wanted(&node(None, &[(InternalIp, "10.0.0.1")]), &[]),
            Ok(None)
        );
    }

    // Holds: N-31
    #[test]
    fn the_kubelets_hostname_stays_unless_the_cloud_has_one() {
        let has = node(None, &[(Hostname, "kubelet")]);
        let without = list(&[(InternalIp, "10.0.0.1"), (ExternalIp, "132.143.154.163")]);
        let mut expected = without.clone();
        expected.extend(list(&[(Hostname, "kubelet")]));
        assert_eq!(wanted(&has, &without), Ok(Some(expected)));
        let with = list(&[(Hostname, "cloud"), (InternalIp, "10.0.0.1")]);
        assert_eq!(wanted(&has, &with), Ok(Some(with.clone())));
    }

    // Holds: N-32
    #[test]
    fn an_unusable_provided_ip_annotation_is_an_error() {
        let cloud = list(&[(InternalIp, "10.0.0.1"), (InternalIp, "fd00::1")]);
        for bad in [
            "invalid-ip",
            "",
            "10.0.0.1,",
            "10.0.0.1,10.0.0.2",
            "10.0.0.1, fd00::1",
            "10.0.0.1,::",
            "10.0.0.1,fd00::1,fd00::2",
            "10..0.1",
        ] {
            let error = wanted(&node(Some(bad), &[]), &cloud).unwrap_err();
            assert_eq!(error, ProvidedIpError::Unreadable(bad.to_owned()));
        }
        let error = wanted(&node(Some("10.0.0.2"), &[]), &cloud)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(
                "failed to get node address from cloud provider that matches ip: 10.0.0.2"
            ),
            "{error}"
        );
    }

    // Holds: N-33
    #[test]
    fn provided_ips_come_first_and_replace_others_of_their_kind() {
        let cloud = list(&[
            (InternalIp, "10.0.0.1"),
            (InternalIp, "10.0.0.2"),
            (ExternalIp, "192.0.2.1"),
            (InternalIp, "fd00::2"),
            (InternalIp, "fd00::1"),
            (ExternalDns, "a.example"),
        ]);
        for (annotation, expected) in [
            (
                "10.0.0.2",
                vec![
                    (InternalIp, "10.0.0.2"),
                    (ExternalIp, "192.0.2.1"),
                    (ExternalDns, "a.example"),
                ],
            ),
            (
                "fd00::1,10.0.0.1",
                vec![
                    (InternalIp, "fd00::1"),
                    (InternalIp, "10.0.0.1"),
                    (ExternalIp, "192.0.2.1"),
                    (ExternalDns, "a.example"),
                ],
            ),
            (
                "192.0.2.1,fd00:0::1",
                vec![
                    (ExternalIp, "192.0.2.1"),
                    (InternalIp, "fd00::1"),
                    (ExternalDns, "a.example"),
                ],
            ),
            (
                "010.000.0.01",
                vec![
                    (InternalIp, "10.0.0.1"),
                    (ExternalIp, "192.0.2.1"),
                    (ExternalDns, "a.example"),
                ],
            ),
        ] {
            assert_eq!(
                wanted(&node(Some(annotation), &[]), &cloud),
                Ok(Some(list(&expected))),
                "{annotation}"
            );
        }
    }

    // Holds: N-33
    #[test]
    fn one_ip_that_is_internal_and_external_is_kept_as_both() {
        let cloud = list(&[
            (InternalIp, "10.0.0.1"),
            (ExternalIp, "10.0.0.1"),
            (InternalIp, "10.0.0.2"),
        ]);
        let expected = list(&[(InternalIp, "10.0.0.1"), (ExternalIp, "10.0.0.1")]);
        assert_eq!(
            wanted(&node(Some("10.0.0.1"), &[]), &cloud),
            Ok(Some(expected))
        );
    }

    /// Upstream's TestGetNodeAddressesFromNodeIP.
    // Holds: N-32, N-33
    #[test]
    fn upstreams_table_of_provided_addresses() {
        let ab = [(InternalIp, "10.0.0.1"), (InternalIp, "fd00::1")];
        let more = [
            (InternalIp, "10.0.0.1"),
            (InternalIp, "10.0.0.2"),
            (InternalIp, "fd00::1"),
            (InternalIp, "fd00::2"),
            (ExternalIp, "192.0.2.1"),
            (ExternalIp, "2001:db8::1"),
        ];
        type List<'a> = Vec<(AddressKind, &'a str)>;

        let cases: Vec<(&str, List<'_>, Option<List<'_>>)> = vec![
            (
                "10.0.0.1",
                vec![(InternalIp, "10.0.0.1")],
                Some(vec![(InternalIp, "10.0.0.1")]),
            ),
            (
                "192.0.2.1",
                vec![(InternalIp, "10.0.0.1"), (ExternalIp, "192.0.2.1")],
                Some(vec![(ExternalIp, "192.0.2.1"), (InternalIp, "10.0.0.1")]),
            ),
            (
                "10.0.0.1",
                vec![
                    (InternalIp, "10.0.0.1"),
                    (ExternalIp, "10.0.0.1"),
                    (InternalIp, "10.0.0.2"),
                    (ExternalIp, "192.0.2.1"),
                ],
                Some(vec![(InternalIp, "10.0.0.1"), (ExternalIp, "10.0.0.1")]),
            ),
            (
                "10.0.0.1",
                vec![
                    (Hostname, "h"),
                    (ExternalDns, "e.example"),
                    (InternalIp, "10.0.0.1"),
                ],
                Some(vec![
                    (InternalIp, "10.0.0.1"),
                    (Hostname, "h"),
                    (ExternalDns, "e.example"),
                ]),
            ),
            (
                "10.0.0.2",
                vec![
                    (InternalIp, "10.0.0.1"),
                    (InternalIp, "10.0.0.2"),
                    (ExternalIp, "192.0.2.1"),
                ],
                Some(vec![(InternalIp, "10.0.0.2"), (ExternalIp, "192.0.2.1")]),
            ),
            ("10.0.0.9", ab.to_vec(), None),
            (
                "fd00:0:0::1",
                vec![(InternalIp, "fd00:0::0001")],
                Some(vec![(InternalIp, "fd00:0::0001")]),
            ),
            ("10.0.0.1,fd00::1", vec![(InternalIp, "10.0.0.1")], None),
            ("10.0.0.1,fd00::1", ab.to_vec(), Some(ab.to_vec())),
            ("10.0.0.1,fd00::1", vec![ab[1], ab[0]], Some(ab.to_vec())),
            (
                "10.0.0.1,fd00::1",
                more[..4].to_vec(),
                Some(vec![(InternalIp, "10.0.0.1"), (InternalIp, "fd00::1")]),
            ),
            (
                "10.0.0.1,fd00::1",
                more.to_vec(),
                Some(vec![more[0], more[2], more[4], more[5]]),
            ),
            ("fd00::1,10.0.0.1", ab.to_vec(), Some(vec![ab[1], ab[0]])),
            (
                "192.0.2.1,fd00::1",
                more.to_vec(),
                Some(vec![more[4], more[2]]),
            ),
        ];
        assert_eq!(cases.len(), 14);

        for (annotation, cloud, expected) in cases {
            let ordered = provided_ips(annotation)
                .and_then(|ips| provided_first(&ips, &list(&cloud)))
                .ok();
            assert_eq!(
                ordered,
                expected.map(|expected| list(&expected)),
                "{annotation} of {cloud:?}"
            );
        }
    }

    // Holds: N-34
    #[test]
    fn without_annotation_order_is_kept_and_duplicates_removed() {
        let cloud = list(&[
            (ExternalIp, "192.0.2.1"),
            (InternalIp, "10.0.0.1"),
            (ExternalIp, "10.0.0.1"),
            (InternalIp, "10.0.0.1"),
            (ExternalIp, "192.0.2.1"),
            (InternalIp, "10.0.0.2"),
        ]);
        let once = list(&[
            (ExternalIp, "192.0.2.1"),
            (InternalIp, "10.0.0.1"),
            (ExternalIp, "10.0.0.1"),
            (InternalIp, "10.0.0.2"),
        ]);
        assert_eq!(wanted(&node(None, &[]), &cloud), Ok(Some(once.clone())));

        let has = Node {
            addresses: once,
            ..Node::default()
        };
        assert_eq!(
            wanted(&has, &cloud),
            Ok(None),
            "what is repeated is not a change"
        );

        let provided = Ok(Some(list(&[
            (InternalIp, "10.0.0.1"),
            (ExternalIp, "10.0.0.1"),
        ])));
        assert_eq!(wanted(&node(Some("10.0.0.1"), &[]), &cloud), provided);
    }

    /// Upstream's TestNodeAddressesChangeDetected.
    // Holds: N-36
    #[test]
    fn upstreams_table_of_address_changes() {
        let base = [(InternalIp, "10.0.0.1"), (ExternalIp, "192.0.2.1")];
        for (old, new, changed) in [
            (base.to_vec(), base.to_vec(), false),
            (
                base.to_vec(),
                vec![base[0], (ExternalIp, "192.0.2.2")],
                true,
            ),
            (base.to_vec(), base[..1].to_vec(), true),
            (base[..1].to_vec(), base.to_vec(), true),
            (
                base.to_vec(),
                vec![(ExternalIp, "10.0.0.1"), (InternalIp, "192.0.2.1")],
                true,
            ),
        ] {
            assert_eq!(
                wanted(&node(None, &old), &list(&new)).unwrap().is_some(),
                changed,
                "{old:?} {new:?}"
            );
        }
    }

    // Holds: N-36
    #[test]
    fn addresses_are_compared_in_order() {
        let dual = [(InternalIp, "10.0.0.1"), (InternalIp, "fd00::1")];
        let swapped = [(InternalIp, "fd00::1"), (InternalIp, "10.0.0.1")];
        assert_eq!(wanted(&node(None, &dual), &list(&dual)), Ok(None));
        assert_eq!(
            wanted(&node(None, &dual), &list(&swapped)),
            Ok(Some(list(&swapped)))
        );
        assert_eq!(
            wanted(&node(None, &dual), &list(&dual[..1])),
            Ok(Some(list(&dual[..1])))
        );
        assert_eq!(
            wanted(&node(None, &dual[..1]), &list(&dual)),
            Ok(Some(list(&dual)))
        );
    }
}
