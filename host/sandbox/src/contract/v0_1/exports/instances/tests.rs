use skydock_cloud::Pairs;

use super::*;
use crate::{
    answers::Taken, contract::v0_1::bindings::skydock::provider::types as wit,
    grants::permissions::Permissions,
};

fn owner() -> Owned {
    Owned::with(
        &["metal://", "other:///zone/"],
        &["metal.example/", "service.beta.kubernetes.io/metal-"],
        Permissions::unrestricted(),
    )
}

/// Checks the instance of node `n1` in an empty cluster.
fn checked(it: instances::Instance) -> Checked<cloud::Instance> {
    let node = cloud::Node {
        name: "n1.default.svc".into(),
        addresses: vec![cloud::NodeAddress {
            kind: cloud::AddressKind::Hostname,
            address: "old.shop".into(),
        }],
        ..cloud::Node::default()
    };
    let rules = AddressRules::default();
    let judge = |stands_for: StandsFor<'_>| match stands_for {
        StandsFor::Address(address) => rules.node(address, &node, &Taken::default()),
        StandsFor::Name("n2" | "old.shop") => {
            Err(Rejected::Held(cloud::Holder::NodeName("n2".into())))
        }
        StandsFor::Name(_) => Ok(()),
        StandsFor::Service {
            namespace: "shop",
            name,
        } => Err(Rejected::ServiceName(format!("shop/{name}"))),
        StandsFor::Service { .. } => Ok(()),
    };
    instance(it, &owner(), &node, &judge)
}

fn machine() -> instances::Instance {
    instances::Instance {
        provider_id: Some("metal://one".into()),
        instance_type: Some("c1.small".into()),
        zone: Some("z-1".into()),
        region: Some("r-1".into()),
        addresses: vec![node_address(wit::AddressKind::InternalIp, "10.0.0.1")],
        labels: vec![("example.com/rack".into(), "r1".into())],
        annotations: vec![("metal.example/rack".into(), "a b".into())],
    }
}

fn node_address(kind: wit::AddressKind, text: &str) -> wit::NodeAddress {
    wit::NodeAddress {
        kind,
        address: text.into(),
    }
}

#[test]
fn a_provider_id_is_printable_and_has_an_owned_prefix() {
    let table = [
        ("metal://one", true),
        ("other:///zone/x", true),
        ("metal://", false),
        ("aws:///eu/i-1", false),
        ("xmetal://one", false),
        ("metal://o ne", false),
        ("metal://o\nne", false),
        ("metal://ö", false),
    ];
    for (id, expected) in table {
        assert_eq!(
            provider_id::check(id.into(), &owner()).is_ok(),
            expected,
            "{id}"
        );
    }
    let words =
        "provider ID `aws:///i-1` has none of the plugin's prefixes (`metal://, other:///zone/`)";

    assert_eq!(
        provider_id::check("aws:///i-1".into(), &owner())
            .unwrap_err()
            .to_string(),
        words
    );
    assert!(provider_id::check(format!("metal://{}", "x".repeat(504)), &owner()).is_ok());
    assert!(provider_id::check(format!("metal://{}", "x".repeat(505)), &owner()).is_err());
}

#[test]
fn an_instance_with_any_invalid_field_is_rejected() {
    let good = checked(machine()).unwrap();
    assert_eq!(good.provider_id.as_deref(), Some("metal://one"));
    assert_eq!(
        good.labels.get("example.com/rack").map(String::as_str),
        Some("r1")
    );

    let long = "x".repeat(64);
    let bad: [(&str, instances::Instance); 7] = [
        (
            "zone",
            instances::Instance {
                zone: Some("not a label".into()),
                ..machine()
            },
        ),
        (
            "region",
            instances::Instance {
                region: Some("-dash".into()),
                ..machine()
            },
        ),
        (
            "type",
            instances::Instance {
                instance_type: Some(long.clone()),
                ..machine()
            },
        ),
        (
            "labels",
            instances::Instance {
                labels: vec![(String::new(), String::new()); 65],
                ..machine()
            },
        ),
        (
            "label key",
            instances::Instance {
                labels: vec![("a/b/c".into(), String::new())],
                ..machine()
            },
        ),
        (
            "label value",
            instances::Instance {
                labels: vec![("a/b".into(), "?".into())],
                ..machine()
            },
        ),
        (
            "twice",
            instances::Instance {
                labels: vec![("a".into(), "1".into()), ("a".into(), "2".into())],
                ..machine()
            },
        ),
    ];
    for (what, it) in bad {
        assert!(checked(it).is_err(), "{what}");
    }
}

#[test]
fn empty_strings_count_as_absent() {
    let empty = || Some(String::new());
    let it = instances::Instance {
        provider_id: empty(),
        zone: empty(),
        region: empty(),
        instance_type: empty(),
        ..machine()
    };
    let it = checked(it).unwrap();

    assert_eq!(
        (it.provider_id, it.zone, it.region, it.instance_type),
        (None, None, None, None)
    );
}

#[test]
fn an_instance_is_converted_completely() {
    let converted = checked(machine()).unwrap();
    let pairs = |key: &str, text: &str| Pairs::from([(key.to_owned(), text.to_owned())]);
    let expected = cloud::Instance {
        provider_id: Some("metal://one".into()),
        instance_type: Some("c1.small".into()),
        zone: Some("z-1".into()),
        region: Some("r-1".into()),
        addresses: vec![cloud::NodeAddress {
            kind: cloud::AddressKind::InternalIp,
            address: "10.0.0.1".into(),
        }],
        labels: pairs("example.com/rack", "r1"),
        annotations: pairs("metal.example/rack", "a b"),
    };
    assert_eq!(converted, expected);

    for (in_contract, in_host) in [
        (instances::Presence::Running, cloud::Presence::Running),
        (instances::Presence::Stopped, cloud::Presence::Stopped),
        (instances::Presence::Absent, cloud::Presence::Absent),
    ] {
        assert_eq!(presence(in_contract), in_host);
    }
}

// Holds: SEC-16
#[test]
fn an_instance_with_a_special_address_is_rejected() {
    use wit::AddressKind::{ExternalIp, Hostname};
    for (kind, text) in [
        (ExternalIp, "127.0.0.1"),
        (Hostname, "169.254.169.254"),
        (ExternalIp, "::ffff:10.0.0.1"),
    ] {
        let bad = instances::Instance {
            addresses: vec![node_address(kind, text)],
            ..machine()
        };
        let rejected = checked(bad).unwrap_err().to_string();
        assert!(
            rejected.starts_with(&format!("address {text} is rejected: it is ")),
            "{rejected}"
        );
    }
}

// Holds: SEC-60
#[test]
fn an_instance_with_a_name_of_the_cluster_is_rejected() {
    use wit::AddressKind::{ExternalDns, Hostname, InternalDns};
    let named = |kind, text| {
        checked(instances::Instance {
            addresses: vec![node_address(kind, text)],
            ..machine()
        })
    };
    for kind in [Hostname, InternalDns, ExternalDns] {
        let rejected = named(kind, "kubernetes.default.svc").unwrap_err();
        let words =
            "address `kubernetes.default.svc` is rejected: it is a name in the DNS of the cluster";
        assert_eq!(rejected.to_string(), words);
        assert!(named(kind, "n1.example").is_ok());
    }
    let rejected = named(InternalDns, "db.shop").unwrap_err().to_string();
    assert!(
        rejected.ends_with("it is the name of Service shop/db in the DNS of the cluster"),
        "{rejected}"
    );
    assert!(named(InternalDns, "db").is_ok() && named(InternalDns, "db.corp").is_ok());

    let rejected = named(Hostname, "n2").unwrap_err().to_string();
    assert_eq!(
        rejected,
        "address `n2` is rejected: it is the name of node n2"
    );
    // The name of the node itself, which its kubelet has chosen, and one that it already has.
    assert!(named(Hostname, "n1.default.svc").is_ok());
    assert!(named(Hostname, "old.shop").is_ok());
}

#[test]
fn instance_annotations_must_have_a_prefix_of_the_plugin() {
    assert_eq!(
        checked(machine()).unwrap().annotations["metal.example/rack"],
        "a b"
    );
    let others = instances::Instance {
        annotations: vec![("other.example/rack".into(), "a".into())],
        ..machine()
    };
    assert!(checked(others).is_err());
}
