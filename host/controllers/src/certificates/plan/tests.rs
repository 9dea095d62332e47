use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::{CertificateParams, DnType, KeyPair, SanType};
use skydock_cloud::{NodeAddress, Taint, TaintEffect};
use skydock_controller_base::{
    objects::constants::TAINT_UNINITIALIZED,
    testing::{info, pairs},
};

use super::{pkcs10::der_value as der, *};

const DNS: u8 = 0x82;
const IP: u8 = 0x87;

const COMMON_NAME: &[u8] = b"\x06\x03\x55\x04\x03";
const ORGANIZATION: &[u8] = b"\x06\x03\x55\x04\x0a";
const UNIT: &[u8] = b"\x06\x03\x55\x04\x0b";
const EXTENSION_REQUEST: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x09\x0e";
const CHALLENGE_PASSWORD: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x09\x07";
const ALTERNATIVE_NAMES: &[u8] = b"\x06\x03\x55\x1d\x11";
const BASIC_CONSTRAINTS: &[u8] = b"\x06\x03\x55\x1d\x13";
const ECDSA_WITH_SHA256: &[u8] = b"\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02";
const EC_PUBLIC_KEY: &[u8] = b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01";
const P256: &[u8] = b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07";

fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    der(0x30, &parts.concat())
}

fn set(parts: &[&[u8]]) -> Vec<u8> {
    der(0x31, &parts.concat())
}

/// A subject in the order of Go, with PrintableStrings.
fn subject(parts: &[(&[u8], &str)]) -> Vec<u8> {
    let part =
        |&(oid, text): &(&[u8], &str)| set(&[&sequence(&[oid, &der(0x13, text.as_bytes())])]);
    sequence(&[&parts.iter().map(part).collect::<Vec<_>>().concat()])
}

fn own_subject() -> Vec<u8> {
    subject(&[
        (ORGANIZATION, "system:nodes"),
        (COMMON_NAME, "system:node:n1"),
    ])
}

fn names(names: &[(u8, &[u8])]) -> Vec<u8> {
    let names: Vec<_> = names.iter().map(|(tag, name)| der(*tag, name)).collect();
    sequence(&[&names.concat()])
}

fn extension(oid: &[u8], value: &[u8]) -> Vec<u8> {
    sequence(&[oid, &der(0x04, value)])
}

fn attribute(extensions: &[u8]) -> Vec<u8> {
    sequence(&[EXTENSION_REQUEST, &set(&[&sequence(&[extensions])])])
}

fn asks(all: &[(u8, &[u8])]) -> Vec<u8> {
    attribute(&extension(ALTERNATIVE_NAMES, &names(all)))
}

fn signed(info: &[u8]) -> Vec<u8> {
    let algorithm = sequence(&[ECDSA_WITH_SHA256]);
    sequence(&[info, &algorithm, &der(0x03, &[0; 65])])
}

/// The part that is signed; `rest` is after what belongs there.
fn signed_part(subject: &[u8], attributes: &[u8], rest: &[u8]) -> Vec<u8> {
    let key = sequence(&[
        &sequence(&[EC_PUBLIC_KEY, P256]),
        &der(0x03, &[&[0_u8, 4][..], &[7; 64][..]].concat()),
    ]);
    sequence(&[b"\x02\x01\x00", subject, &key, &der(0xa0, attributes), rest])
}

fn pkcs10(subject: &[u8], attributes: &[u8]) -> Vec<u8> {
    signed(&signed_part(subject, attributes, &[]))
}

fn pem_of(kind: &str, der: &[u8]) -> Vec<u8> {
    let text = STANDARD.encode(der);
    let lines: Vec<_> = text
        .as_bytes()
        .chunks(64)
        .map(|line| std::str::from_utf8(line).unwrap())
        .collect();
    let body = lines.join("\n");
    format!("-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n").into_bytes()
}

fn pem(der: &[u8]) -> Vec<u8> {
    pem_of("CERTIFICATE REQUEST", der)
}

fn with_pem(pem: Vec<u8>) -> Request {
    let texts = |texts: &[&str]| texts.iter().map(|it| (*it).to_owned()).collect();
    Request {
        username: "system:node:n1".into(),
        groups: texts(&["system:nodes", "system:authenticated"]),
        usages: texts(&["digital signature", "server auth"]),
        pem: Some(pem),
    }
}

fn with_subject(of: &[u8]) -> Request {
    with_pem(pem(&pkcs10(of, &asks(&[(DNS, b"n1")]))))
}

fn with_attributes(attributes: &[u8]) -> Request {
    with_pem(pem(&pkcs10(&own_subject(), attributes)))
}

fn with_names(all: &[(u8, &[u8])]) -> Request {
    with_attributes(&asks(all))
}

fn ordinary() -> Request {
    with_names(&[(DNS, b"n1"), (IP, &[10, 0, 0, 1])])
}

fn of_user(username: &str) -> Request {
    Request {
        username: username.into(),
        ..ordinary()
    }
}

fn of_groups(groups: &[&str]) -> Request {
    Request {
        groups: groups.iter().map(|it| (*it).to_owned()).collect(),
        ..ordinary()
    }
}

fn for_usages(usages: &[&str]) -> Request {
    Request {
        usages: usages.iter().map(|it| (*it).to_owned()).collect(),
        ..ordinary()
    }
}

fn node() -> Node {
    Node {
        name: "n1".into(),
        uid: "u".into(),
        provider_id: Some("fake://n1".into()),
        ..Node::default()
    }
}

fn instance() -> Instance {
    let addresses = [
        (AddressKind::InternalIp, "10.0.0.1"),
        (AddressKind::ExternalIp, "198.51.100.1"),
        (AddressKind::InternalIp, "fd00::1"),
        (AddressKind::InternalDns, "ip-10-0-0-1.Example.internal"),
        (AddressKind::ExternalDns, "n1.example.com"),
        (AddressKind::Hostname, "10.0.0.2"),
    ];
    let address = |(kind, address): (_, &str)| NodeAddress {
        kind,
        address: address.to_owned(),
    };
    Instance {
        provider_id: Some("fake://n1".into()),
        addresses: addresses.map(address).into(),
        ..Instance::default()
    }
}

/// The whole decision.
fn decide(request: &Request, node: &Node, shared: bool, instance: &Instance) -> Result<(), String> {
    let claim = claim(request).map_err(|flaw| flaw.to_string())?;
    ready(node, &info())
        .and_then(|()| confirm(&claim, node, shared, instance))
        .map_err(|wait| wait.to_string())
}

/// Returns the request that another implementation of PKCS #10 creates, with UTF8Strings.
fn of_rcgen(names: Vec<SanType>) -> Request {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    let parts = [
        (DnType::OrganizationName, "system:nodes"),
        (DnType::CommonName, "system:node:n1"),
    ];
    for (kind, text) in parts {
        params.distinguished_name.push(kind, text);
    }
    params.subject_alt_names = names;
    let request = params.serialize_request(&KeyPair::generate().unwrap());
    with_pem(pem(request.unwrap().der()))
}

// Holds: SEC-64
#[test]
fn requests_of_ordinary_kubelets_are_approved() {
    let critical = sequence(&[
        ALTERNATIVE_NAMES,
        b"\x01\x01\xff",
        &der(0x04, &names(&[(DNS, b"n1")])),
    ]);
    let v6 = "fd00::1".parse::<std::net::Ipv6Addr>().unwrap().octets();
    for (what, request) in [
        ("name and address", ordinary()),
        ("only a name", with_names(&[(DNS, b"n1")])),
        ("only an address", with_names(&[(IP, &[198, 51, 100, 1])])),
        ("IPv6", with_names(&[(IP, &v6)])),
        (
            "a host name that is an address",
            with_names(&[(IP, &[10, 0, 0, 2])]),
        ),
        (
            "another case",
            with_names(&[(DNS, b"IP-10-0-0-1.example.internal")]),
        ),
        (
            "everything",
            with_names(&[
                (DNS, b"ip-10-0-0-1.Example.internal"),
                (DNS, b"n1"),
                (DNS, b"n1.example.com"),
                (IP, &[10, 0, 0, 1]),
                (IP, &v6),
            ]),
        ),
        ("critical", with_attributes(&attribute(&critical))),
        (
            "an RSA key",
            for_usages(&["key encipherment", "digital signature", "server auth"]),
        ),
        ("no other group", of_groups(&["system:nodes"])),
        (
            "the other order",
            with_subject(&subject(&[
                (COMMON_NAME, "system:node:n1"),
                (ORGANIZATION, "system:nodes"),
            ])),
        ),
        (
            "another implementation",
            of_rcgen(vec![
                SanType::DnsName("n1".try_into().unwrap()),
                SanType::IpAddress([10, 0, 0, 1].into()),
            ]),
        ),
    ] {
        assert_eq!(
            decide(&request, &node(), false, &instance()),
            Ok(()),
            "{what}"
        );
    }
}

/// A kubelet may write anything into its request.
// Holds: SEC-64
#[test]
fn forged_requests_are_never_approved() {
    let ordinary_der = pkcs10(&own_subject(), &asks(&[(DNS, b"n1")]));
    let text = String::from_utf8(pem(&ordinary_der)).unwrap();
    let own = extension(ALTERNATIVE_NAMES, &names(&[(DNS, b"n1")]));
    let other = extension(ALTERNATIVE_NAMES, &names(&[(DNS, b"n2")]));
    let authority = extension(BASIC_CONSTRAINTS, &sequence(&[b"\x01\x01\xff"]));
    let password = sequence(&[CHALLENGE_PASSWORD, &set(&[&der(0x13, b"secret")])]);
    let many: Vec<(u8, &[u8])> = vec![(DNS, &b"n1"[..]); MOST_NAMES + 1];
    let two_values = sequence(&[
        EXTENSION_REQUEST,
        &set(&[&sequence(&[&own]), &sequence(&[&other])]),
    ]);
    // The length of the names in two bytes instead of one.
    let long_form = attribute(&sequence(&[
        ALTERNATIVE_NAMES,
        &der(0x04, b"\x30\x81\x04\x82\x02n1"),
    ]));
    let after_names = [names(&[(DNS, b"n1")]), names(&[(DNS, b"n2")])].concat();
    let more_attributes = der(0xa0, &asks(&[(DNS, b"n2")]));
    let trailing = signed_part(&own_subject(), &asks(&[(DNS, b"n1")]), &more_attributes);
    let at_end = |text: &str| [ordinary_der.as_slice(), text.as_bytes()].concat();
    let named = |name: &str| with_names(&[(DNS, name.as_bytes())]);
    let has = |parts: &[(&[u8], &str)]| with_subject(&subject(parts));
    let (nodes, me) = ("system:nodes", "system:node:n1");

    let table = [
        (
            "its user is not a node of the group",
            vec![
                ("a user", of_user("n1")),
                (
                    "a service account",
                    of_user("system:serviceaccount:kube-system:default"),
                ),
                ("no node", of_user("system:node:")),
                ("another case of the prefix", of_user("System:node:n1")),
                ("no groups", of_groups(&[])),
                (
                    "other groups",
                    of_groups(&["system:masters", "system:authenticated"]),
                ),
            ],
        ),
        (
            "its usages are not those that a kubelet requests",
            vec![
                ("no usages", for_usages(&[])),
                ("server auth alone", for_usages(&["server auth"])),
                (
                    "digital signature alone",
                    for_usages(&["digital signature"]),
                ),
                (
                    "twice the same",
                    for_usages(&["server auth", "server auth"]),
                ),
                (
                    "also a client",
                    for_usages(&["digital signature", "server auth", "client auth"]),
                ),
                (
                    "any usage",
                    for_usages(&["digital signature", "server auth", "any"]),
                ),
                (
                    "an authority",
                    for_usages(&["digital signature", "server auth", "cert sign"]),
                ),
            ],
        ),
        (
            "it has more than",
            vec![(
                "too long",
                Request {
                    pem: None,
                    ..ordinary()
                },
            )],
        ),
        (
            "it is not a single PEM block",
            vec![
                ("nothing", with_pem(Vec::new())),
                ("DER", with_pem(ordinary_der.clone())),
                (
                    "a certificate",
                    with_pem(pem_of("CERTIFICATE", &ordinary_der)),
                ),
                (
                    "an old kind",
                    with_pem(pem_of("NEW CERTIFICATE REQUEST", &ordinary_der)),
                ),
                ("two blocks", with_pem(format!("{text}{text}").into_bytes())),
                (
                    "text before the block",
                    with_pem(format!("x\n{text}").into_bytes()),
                ),
                (
                    "text after the block",
                    with_pem(format!("{text}x").into_bytes()),
                ),
                (
                    "a header",
                    with_pem(
                        text.replacen("REQUEST-----\n", "REQUEST-----\nA: b\n\n", 1)
                            .into_bytes(),
                    ),
                ),
            ],
        ),
        (
            "it is not a valid PKCS #10 request",
            vec![
                ("no request", with_pem(pem(b"\x30\x00"))),
                (
                    "half a request",
                    with_pem(pem(&ordinary_der[..ordinary_der.len() / 2])),
                ),
                ("more after it", with_pem(pem(&at_end("\0")))),
                (
                    "two requests",
                    with_pem(pem(&[&ordinary_der[..], &ordinary_der[..]].concat())),
                ),
                (
                    "more after the attributes",
                    with_pem(pem(&signed(&trailing))),
                ),
            ],
        ),
        (
            "its subject is not the user and the group",
            vec![
                (
                    "another node",
                    has(&[(ORGANIZATION, nodes), (COMMON_NAME, "system:node:n2")]),
                ),
                (
                    "only its name",
                    has(&[(ORGANIZATION, nodes), (COMMON_NAME, "n1")]),
                ),
                (
                    "a name with NUL",
                    has(&[(ORGANIZATION, nodes), (COMMON_NAME, "system:node:n1\0")]),
                ),
                (
                    "masters",
                    has(&[(ORGANIZATION, "system:masters"), (COMMON_NAME, me)]),
                ),
            ],
        ),
        (
            "its subject has other parts",
            vec![
                (
                    "nodes and masters",
                    has(&[
                        (ORGANIZATION, nodes),
                        (ORGANIZATION, "system:masters"),
                        (COMMON_NAME, me),
                    ]),
                ),
                (
                    "two names",
                    has(&[
                        (ORGANIZATION, nodes),
                        (COMMON_NAME, me),
                        (COMMON_NAME, "system:node:n2"),
                    ]),
                ),
                ("no organization", has(&[(COMMON_NAME, me)])),
                ("no name", has(&[(ORGANIZATION, nodes)])),
                ("no subject", has(&[])),
                (
                    "a unit",
                    has(&[(ORGANIZATION, nodes), (UNIT, "x"), (COMMON_NAME, me)]),
                ),
            ],
        ),
        (
            "it requests something other than DNS names and IP addresses",
            vec![
                ("no extensions", with_attributes(&[])),
                (
                    "an e-mail address",
                    with_names(&[(DNS, b"n1"), (0x81, b"a@n1")]),
                ),
                (
                    "a URI",
                    with_names(&[(DNS, b"n1"), (0x86, b"spiffe://cluster/admin")]),
                ),
                (
                    "another kind of name",
                    with_names(&[(DNS, b"n1"), (0xa0, b"\x06\x01\x01\xa0\x02\x05\x00")]),
                ),
                (
                    "a directory name",
                    with_names(&[(DNS, b"n1"), (0xa4, &own_subject())]),
                ),
                (
                    "a registered ID",
                    with_names(&[(DNS, b"n1"), (0x88, b"\x2a")]),
                ),
                (
                    "a short address",
                    with_names(&[(DNS, b"n1"), (IP, &[10, 0, 0])]),
                ),
                (
                    "a network",
                    with_names(&[(DNS, b"n1"), (IP, &[10, 0, 0, 1, 255, 0, 0, 0])]),
                ),
                (
                    "two extensions",
                    with_attributes(&attribute(&[own.clone(), other.clone()].concat())),
                ),
                (
                    "an authority too",
                    with_attributes(&attribute(&[own.clone(), authority].concat())),
                ),
                (
                    "two attributes",
                    with_attributes(&[asks(&[(DNS, b"n1")]), asks(&[(DNS, b"n2")])].concat()),
                ),
                (
                    "a password",
                    with_attributes(&[asks(&[(DNS, b"n1")]), password].concat()),
                ),
            ],
        ),
        (
            "it is encoded ambiguously",
            vec![
                ("two values", with_attributes(&two_values)),
                ("a long form", with_attributes(&long_form)),
                (
                    "more after the names",
                    with_attributes(&attribute(&extension(ALTERNATIVE_NAMES, &after_names))),
                ),
            ],
        ),
        (
            "it has neither names nor addresses, or more than",
            vec![
                ("no names", with_names(&[])),
                ("too many names", with_names(&many)),
            ],
        ),
        (
            "it contains a DNS name that is not valid",
            vec![
                ("a wildcard", named("*.example.com")),
                ("only a wildcard", named("*")),
                ("an address as a name", named("10.0.0.1")),
                ("an empty name", named("")),
                ("a dot at the end", named("n1.")),
                ("a space", named("n1 ")),
                ("a long name", named(&"a.".repeat(200))),
            ],
        ),
        (
            "which is a name in the DNS of the cluster or of every machine",
            vec![
                ("the API server", named("kubernetes")),
                ("the API server's Service", named("kubernetes.default.svc")),
                ("a Service", named("db.shop.svc.cluster.local")),
                (
                    "a Service in another domain",
                    named("db.shop.svc.corp.example"),
                ),
                ("every machine", named("localhost")),
            ],
        ),
        (
            "the cloud does not say that these belong to the instance",
            vec![
                ("another node's name", named("n2")),
                ("a longer name", named("n1.evil.example")),
                ("a shorter name", named("example.com")),
                (
                    "another node's address",
                    with_names(&[(IP, &[10, 0, 0, 7])]),
                ),
                (
                    "the Service's address",
                    with_names(&[(DNS, b"n1"), (IP, &[10, 96, 0, 1])]),
                ),
                (
                    "loopback",
                    with_names(&[(DNS, b"n1"), (IP, &[127, 0, 0, 1])]),
                ),
                ("any address", with_names(&[(IP, &[0; 4])])),
                ("another IPv6 address", with_names(&[(IP, &[0xfd; 16])])),
            ],
        ),
    ];
    for (expected, requests) in table {
        for (what, request) in requests {
            let why = decide(&request, &node(), false, &instance()).expect_err(what);
            assert!(why.contains(expected), "{what}: {why}");
        }
    }
}

/// The name of a node needs no confirmation by the cloud.
// Holds: SEC-64
#[test]
fn names_of_the_cluster_are_rejected_and_those_of_companies_are_not() {
    for (name, is_of_cluster) in [
        ("kubernetes", true),
        ("kubernetes.default", true),
        ("kubernetes.default.svc", true),
        ("Kubernetes.Default.Svc.corp.example", true),
        ("kubernetes.default.corp.example", true),
        ("cluster.local", true),
        ("n1.cluster.local", true),
        ("n1.clusterset.local", true),
        ("db.shop.svc", true),
        ("db.shop.svc.corp.example", true),
        ("pod-0.db.shop.svc.corp.example", true),
        ("10-244-0-1.shop.pod", true),
        ("10-244-0-1.shop.pod.corp.example", true),
        ("fd00--1.shop.pod.corp.example", true),
        ("localhost", true),
        ("a.localhost", true),
        ("localhost4", true),
        ("localhost6.localdomain6", true),
        ("ip6-localhost", true),
        ("loopback", true),
        ("kubernetes.docker.internal", true),
        ("n1", false),
        ("n1.svc.corp.example", false),
        ("n1.rack.pod.corp.example", false),
        ("kubernetes.default-pool.example", false),
        ("kubernetes-1", false),
        ("localhost.example", false),
        ("localhost-7", false),
        ("n1.localdomain", false),
        ("mycluster.local", false),
        ("svc", false),
    ] {
        let claimed = claim(&with_names(&[(DNS, name.as_bytes())]));
        let rejected = matches!(claimed, Err(Flaw::ClusterName(_)));
        assert_eq!(
            (rejected, claimed.is_ok()),
            (is_of_cluster, !is_of_cluster),
            "{name}"
        );
    }
}

/// What a kubelet sends is read when its request enters the cache: a panic would come back with each
/// leader.
// Holds: SEC-64
#[test]
fn a_request_with_any_changed_bit_is_read_without_a_panic() {
    let names: [(u8, &[u8]); 2] = [(DNS, b"n1"), (IP, &[10, 0, 0, 1])];
    let der = pkcs10(&own_subject(), &asks(&names));
    for place in 0..der.len() {
        for bit in 0..8 {
            let mut changed = der.clone();
            changed[place] ^= 1 << bit;
            if let Ok(claim) = claim(&with_pem(pem(&changed))) {
                assert_eq!(claim.dns_names.len() + claim.addresses.len(), 2);
            }
        }
        let cut = claim(&with_pem(pem(&der[..place])));
        assert!(cut.is_err(), "{place} bytes");
    }
}

/// A kubelet requests only what it reads from its Node.
// Holds: SEC-64
#[test]
fn a_request_is_not_older_than_its_node() {
    for (created, node_created, expected) in [
        (1_000, 0, true),
        (1_000, 900, true),
        (1_000, 1_000, true),
        (1_000, 1_010, true),
        (1_000, 1_011, false),
        (0, 1_000, false),
        (u64::MAX, 1_000, true),
    ] {
        let node = Node {
            creation_timestamp: node_created,
            ..node()
        };
        let checked = not_older(created, &node);
        assert_eq!(checked.is_ok(), expected, "{created} {node_created}");
    }
}

/// A kubelet may write most of its Node, too.
// Holds: SEC-64
#[test]
fn a_forged_node_does_not_help() {
    let forged = with_names(&[(DNS, b"n2"), (IP, &[10, 0, 0, 7])]);
    let taints = vec![Taint {
        key: TAINT_UNINITIALIZED.into(),
        value: String::new(),
        effect: TaintEffect::NoSchedule,
    }];
    let addresses = vec![
        NodeAddress {
            kind: AddressKind::InternalIp,
            address: "10.0.0.7".into(),
        },
        NodeAddress {
            kind: AddressKind::Hostname,
            address: "n2".into(),
        },
    ];
    let of_n2 = Some("fake://n2".to_owned());
    let table = [
        (
            &forged,
            Node {
                addresses: addresses.clone(),
                ..node()
            },
            "the cloud does not say that these belong to the instance: n2, 10.0.0.7",
        ),
        (
            &forged,
            Node {
                provider_id: of_n2.clone(),
                addresses,
                annotations: pairs(&[("alpha.kubernetes.io/provided-node-ip", "10.0.0.7")]),
                ..node()
            },
            "another provider ID than the node",
        ),
        (
            &ordinary(),
            Node {
                provider_id: of_n2,
                ..node()
            },
            "another provider ID than the node",
        ),
        (
            &ordinary(),
            Node {
                provider_id: None,
                ..node()
            },
            "no provider ID",
        ),
        (
            &ordinary(),
            Node {
                provider_id: Some("aws:///i-1".into()),
                ..node()
            },
            "no provider ID",
        ),
        (&ordinary(), Node { taints, ..node() }, "not initialized"),
    ];
    for (request, node, expected) in table {
        let why = decide(request, &node, false, &instance()).unwrap_err();
        assert!(why.contains(expected), "{why}");
    }
    let why = decide(&ordinary(), &node(), true, &instance()).unwrap_err();
    assert!(why.contains("another node has the same"), "{why}");
}

// Holds: SEC-64
#[test]
fn the_cloud_must_name_the_same_instance_and_its_addresses() {
    for other in [
        Instance {
            provider_id: None,
            ..instance()
        },
        Instance {
            provider_id: Some("fake://n10".into()),
            ..instance()
        },
        Instance {
            addresses: Vec::new(),
            ..instance()
        },
    ] {
        assert!(
            decide(&ordinary(), &node(), false, &other).is_err(),
            "{other:?}"
        );
    }
    let anonymous = Node {
        provider_id: None,
        ..node()
    };
    let nobody = Instance {
        provider_id: None,
        ..instance()
    };
    let claim = claim(&ordinary()).unwrap();
    assert!(confirm(&claim, &anonymous, false, &nobody).is_err());
}

// Holds: SEC-64
#[test]
fn the_cloud_is_asked_with_nothing_that_a_kubelet_writes() {
    let written = Node {
        labels: pairs(&[("topology.kubernetes.io/zone", "z")]),
        annotations: pairs(&[("a", "b")]),
        addresses: instance().addresses,
        system_uuid: "of n2".into(),
        machine_id: "of n2".into(),
        ..node()
    };
    let expected = Node {
        name: "n1".into(),
        uid: "u".into(),
        ..Node::default()
    };
    assert_eq!(question(&written), expected);
}

#[test]
fn a_message_quotes_only_some_names() {
    let names: Vec<String> = (1..6).map(|number| format!("n{number}")).collect();
    assert_eq!(quote(&names[..1]), "n1");
    assert_eq!(quote(&names[..3]), "n1, n2, n3");
    assert_eq!(quote(&names), "n1, n2, n3 and 2 more");
}
