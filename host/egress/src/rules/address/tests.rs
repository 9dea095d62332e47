use super::*;

fn check(
    policy: &AddressPolicy,
    closed: &ClusterAddresses,
    address: &str,
) -> Result<String, Reason> {
    let address: IpAddr = address.parse().expect(address);
    let checked = policy.check(SocketAddr::new(address, 443), closed);
    checked
        .map(|it| it.ip().to_string())
        .map_err(|denied| denied.reason)
}

fn opened<const N: usize>(nets: [&str; N]) -> AddressPolicy {
    AddressPolicy {
        opened: nets.map(|net| net.parse().unwrap()).to_vec(),
        ..AddressPolicy::default()
    }
}

fn closed() -> ClusterAddresses {
    ClusterAddresses {
        api_server: vec![
            "10.96.0.1:443".parse().unwrap(),
            "127.0.0.1:6443".parse().unwrap(),
        ],
        cluster: vec![
            "10.96.0.0/12".parse().unwrap(),
            "fd00:10:96::/112".parse().unwrap(),
        ],
        own: ["127.0.0.1", "::1", "192.168.7.10", "8.8.4.4", "fe80::10"]
            .map(|it| it.parse().unwrap())
            .to_vec(),
        own_ports: vec![9999],
        nodes: Arc::new(
            ["10.0.0.7", "fd00:7::7"]
                .map(|it| it.parse().unwrap())
                .into(),
        ),
    }
}

#[test]
fn only_public_addresses_are_allowed_by_default() {
    let table = [
        ("1.1.1.1", None),
        ("2606:4700::1111", None),
        ("169.254.169.254", Some(Reason::Metadata)),
        ("::ffff:169.254.169.254", Some(Reason::Metadata)),
        ("::169.254.169.254", Some(Reason::Metadata)),
        ("64:ff9b::a9fe:a9fe", Some(Reason::Metadata)),
        ("169.254.42.42", Some(Reason::Metadata)),
        ("168.63.129.16", Some(Reason::Metadata)),
        ("100.100.100.200", Some(Reason::Metadata)),
        ("192.0.0.192", Some(Reason::Metadata)),
        ("fd00:ec2::254", Some(Reason::Metadata)),
        ("fd00:c1::a9fe:a9fe", Some(Reason::Metadata)),
        ("fd00:42::42", Some(Reason::Metadata)),
        ("fe80::a9fe:a9fe", Some(Reason::Metadata)),
        ("169.254.1.1", Some(Reason::LinkLocal)),
        ("fe80::1", Some(Reason::LinkLocal)),
        ("127.0.0.1", Some(Reason::Loopback)),
        ("127.9.9.9", Some(Reason::Loopback)),
        ("::1", Some(Reason::Loopback)),
        ("::ffff:127.0.0.1", Some(Reason::Loopback)),
        ("::127.0.0.1", Some(Reason::Loopback)),
        ("64:ff9b::7f00:1", Some(Reason::Loopback)),
        ("0.0.0.0", Some(Reason::Special)),
        ("::", Some(Reason::Special)),
        ("224.0.0.1", Some(Reason::Special)),
        ("255.255.255.255", Some(Reason::Special)),
        ("ff02::1", Some(Reason::Special)),
        ("2002:7f00:1::", Some(Reason::Special)),
        ("64:ff9b:1::1", Some(Reason::Special)),
        ("10.1.2.3", Some(Reason::Private)),
        ("172.31.255.255", Some(Reason::Private)),
        ("172.32.0.1", None),
        ("192.168.1.1", Some(Reason::Private)),
        ("100.64.0.1", Some(Reason::Private)),
        ("fd12::1", Some(Reason::Private)),
        ("::ffff:10.0.0.1", Some(Reason::Private)),
    ];
    for (address, reason) in table {
        assert_eq!(
            check(
                &AddressPolicy::default(),
                &ClusterAddresses::default(),
                address
            )
            .err(),
            reason,
            "{address}"
        );
    }
}

#[test]
fn a_denial_names_the_address_and_what_opens_it() {
    let table = [
        (
            "169.254.169.254",
            " is a metadata service, which is always denied",
            None,
        ),
        ("10.96.0.1", " and port belong to the Kubernetes API ", None),
        ("0.0.0.0", " is reserved or not that of one machine, ", None),
        ("127.0.0.1", " is loopback: ", Some("127.0.0.1")),
        ("fe80::1", " is link-local: ", Some("fe80::1")),
        (
            "10.96.0.2",
            " belongs to the cluster or to this machine: ",
            Some("10.96.0.2"),
        ),
        (
            "8.8.4.4",
            " belongs to the cluster or to this machine: ",
            Some("8.8.4.4"),
        ),
        ("10.0.0.1", " is private: ", Some("10.0.0.1")),
        ("::ffff:10.0.0.1", " is private: ", Some("10.0.0.1")),
        ("64:ff9b::a00:1", " is private: ", Some("10.0.0.1")),
    ];
    for (address, reason, remedy) in table {
        let to = SocketAddr::new(address.parse().unwrap(), 443);
        let denied = AddressPolicy::default().check(to, &closed()).unwrap_err();
        let sentence = denied.to_string();
        assert!(
            sentence.starts_with(&format!("address {address}{reason}")),
            "{sentence}"
        );
        match remedy {
            None => assert!(sentence.ends_with("always denied"), "{sentence}"),
            Some(remedy) => {
                assert!(sentence.contains(&format!("add {remedy} ")), "{sentence}");
                let network = IpNet::from(remedy.parse::<IpAddr>().unwrap());
                let policy = AddressPolicy {
                    opened: vec![network],
                    ..AddressPolicy::default()
                };
                assert!(policy.check(to, &closed()).is_ok(), "{sentence}");
            }
        }
    }
}

// Holds: SEC-17
#[test]
fn a_wide_network_opens_private_addresses_only() {
    let policy = opened(["0.0.0.0/0", "::/0", "10.0.0.0/8"]);
    let table = [
        ("10.0.0.1", None),
        ("::ffff:10.0.0.1", None),
        ("fd12::1", None),
        ("10.96.0.1", Some(Reason::ApiServer)),
        ("::ffff:10.96.0.1", Some(Reason::ApiServer)),
        ("10.96.7.7", Some(Reason::Closed)),
        ("fd00:10:96::7", Some(Reason::Closed)),
        ("192.168.7.10", Some(Reason::Closed)),
        ("169.254.169.254", Some(Reason::Metadata)),
        ("fd00:ec2::254", Some(Reason::Metadata)),
        ("127.0.0.1", Some(Reason::Loopback)),
        ("fe80::1", Some(Reason::LinkLocal)),
        ("169.254.1.1", Some(Reason::LinkLocal)),
        ("0.0.0.0", Some(Reason::Special)),
    ];
    for (address, reason) in table {
        assert_eq!(
            check(&policy, &closed(), address).err(),
            reason,
            "{address}"
        );
    }
}

#[test]
fn local_addresses_need_a_network_of_their_own() {
    let policy = opened([
        "127.0.0.1/32",
        "::1/128",
        "169.254.1.0/24",
        "fe80::/10",
        "192.168.7.10/32",
        "10.100.0.0/16",
        "10.96.0.1/32",
        "169.254.169.254/32",
        "224.0.0.1/32",
    ]);

    let table = [
        ("127.0.0.1", None),
        ("127.0.0.2", Some(Reason::Loopback)),
        ("::1", None),
        ("169.254.1.9", None),
        ("169.254.2.9", Some(Reason::LinkLocal)),
        ("fe80::1", None),
        ("fe80::10", Some(Reason::Closed)),
        ("192.168.7.10", None),
        ("10.100.1.1", None),
        ("10.101.1.1", Some(Reason::Closed)),
        ("10.96.0.1", Some(Reason::ApiServer)),
        ("169.254.169.254", Some(Reason::Metadata)),
        ("224.0.0.1", Some(Reason::Special)),
    ];
    for (address, reason) in table {
        assert_eq!(
            check(&policy, &closed(), address).err(),
            reason,
            "{address}"
        );
    }
}

// Holds: SEC-37
#[test]
fn control_plane_ports_stay_closed_on_every_node() {
    let policy = opened(["127.0.0.1/32", "192.168.7.10/32", "10.0.0.0/8"]);
    let table = [
        ("127.0.0.1:8774", None),
        ("127.0.0.1:6443", Some(Reason::ApiServer)),
        ("192.168.7.10:6443", Some(Reason::ApiServer)),
        ("192.168.7.10:10250", Some(Reason::ApiServer)),
        ("127.0.0.1:2379", Some(Reason::ApiServer)),
        ("[::ffff:127.0.0.1]:2379", Some(Reason::ApiServer)),
        ("192.168.7.10:443", None),
        ("192.168.7.10:8443", None),
        ("10.0.0.1:2379", None),
        ("127.0.0.1:9999", Some(Reason::ApiServer)),
        ("10.0.0.7:9999", None),
        ("127.0.0.1:6444", Some(Reason::ApiServer)),
        ("127.0.0.1:16443", Some(Reason::ApiServer)),
        ("192.168.7.10:9345", Some(Reason::ApiServer)),
        ("127.0.0.1:8133", Some(Reason::ApiServer)),
        ("127.0.0.1:50000", Some(Reason::ApiServer)),
        ("10.0.0.7:10250", Some(Reason::ApiServer)),
        ("10.0.0.7:2379", Some(Reason::ApiServer)),
        ("10.0.0.7:6443", Some(Reason::ApiServer)),
        ("[::ffff:10.0.0.7]:10250", Some(Reason::ApiServer)),
        ("[64:ff9b::10.0.0.7]:10250", Some(Reason::ApiServer)),
        ("[fd00:7::7]:10250", Some(Reason::ApiServer)),
        ("10.0.0.7:443", None),
        ("10.0.0.7:8774", None),
        ("10.96.0.1:8080", Some(Reason::ApiServer)),
    ];
    for (to, reason) in table {
        let checked = policy.check(to.parse().expect(to), &closed());
        assert_eq!(checked.err().map(|denied| denied.reason), reason, "{to}");
    }
}

#[test]
fn nat64_addresses_are_checked_by_the_embedded_address() {
    let named = [
        "2001:db8::/32",
        "2a00:1::/40",
        "2a00:2::/48",
        "2a00:3::/56",
        "2a00:4::/64",
        "2a00:5::/96",
    ];

    let nat64 = named.map(|net| net.parse().unwrap()).to_vec();
    let policy = AddressPolicy {
        nat64,
        ..AddressPolicy::default()
    };

    let table = [
        // RFC 6052, 2.4: 192.0.2.33 in each length; here 169.254.169.254 and 1.1.1.1.
        ("2001:db8:a9fe:a9fe::", Some(Reason::Metadata)),
        ("2a00:1:a9:fea9:fe::", Some(Reason::Metadata)),
        ("2a00:2:0:a9fe:a9:fe00::", Some(Reason::Metadata)),
        ("2a00:3:0:a9:fe:a9fe::", Some(Reason::Metadata)),
        ("2a00:4::a9:fea9:fe00:0", Some(Reason::Metadata)),
        ("2a00:5::a9fe:a9fe", Some(Reason::Metadata)),
        ("2a00:5::101:101", None),
        ("2a00:5::7f00:1", Some(Reason::Loopback)),
        ("64:ff9b::101:101", None),
    ];
    for (address, reason) in table {
        assert_eq!(
            check(&policy, &ClusterAddresses::default(), address).err(),
            reason,
            "{address}"
        );
    }

    // The connection goes to the translator's IPv6 address, not to the embedded IPv4 address.
    assert_eq!(
        check(&policy, &ClusterAddresses::default(), "64:ff9b::101:101").unwrap(),
        "64:ff9b::101:101"
    );
    assert_eq!(
        check(&policy, &ClusterAddresses::default(), "::ffff:1.1.1.1").unwrap(),
        "1.1.1.1"
    );
}
