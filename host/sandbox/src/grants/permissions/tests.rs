use super::*;

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|it| (*it).to_owned()).collect()
}

fn ranges(list: &[&str]) -> Vec<KeyRange> {
    list.iter().map(|it| it.parse().unwrap()).collect()
}

/// Returns true if a plugin with this name and default permissions gets these prefixes.
fn gets(name: &str, provider_ids: &[&str], annotations: &[&str]) -> bool {
    let permissions = Permissions::by_name(name);
    permissions
        .permit(&texts(provider_ids), &texts(annotations))
        .is_ok()
}

// Holds: SEC-06
#[test]
fn by_default_a_plugin_owns_what_bears_its_name() {
    for (name, provider_id, expected) in [
        ("metal", "metal://", true),
        ("metal", "metal://zone-1/", true),
        ("metal", "metal:", false),
        ("metal", "metals://", false),
        ("metal", "aws://", false),
        ("metal", "", false),
    ] {
        assert_eq!(gets(name, &[provider_id], &[]), expected, "{provider_id}");
    }
    for (name, annotation, expected) in [
        ("metal", "metal.example/", true),
        ("metal", "lb.metal.example/x-", true),
        ("metal", "metal.example.com/", false),
        ("metal", "example.metal/", false),
        ("metal", "notmetal.example/", false),
        ("metal", "metal/", false),
        ("openstack", "loadbalancer.openstack.org/", true),
        ("aws", "topology.k8s.aws/", true),
        ("aws", "karpenter.k8s.aws/", false),
        ("aws", "service.k8s.aws/x", false),
        ("aws", "service.beta.kubernetes.io/aws-load-balancer-", true),
        ("aws", "service.beta.kubernetes.io/aws", false),
        ("aws", "service.beta.kubernetes.io/azure-", false),
        ("load", "service.beta.kubernetes.io/load-balancer-", false),
        ("k8s", "node.k8s.io/", false),
        ("kubernetes", "kubectl.kubernetes.io/l", false),
        ("istio", "sidecar.istio.io/", false),
        ("azure", "kubernetes.azure.com/", false),
        ("azure", "azure.example/", false),
        ("azure", "service.beta.kubernetes.io/azure-", true),
        ("google", "cloud.google.com/", false),
        ("gke", "networking.gke.io/", false),
        ("karpenter", "karpenter.azure.com/", false),
        ("aws", "eks.k8s.aws/", false),
        ("amazonaws", "eks.amazonaws.com/", false),
        ("digitalocean", "kubernetes.digitalocean.com/", true),
        ("digitalocean", "doks.digitalocean.com/", false),
        ("linode", "lke.linode.com/", false),
    ] {
        assert_eq!(gets(name, &[], &[annotation]), expected, "{annotation}");
    }
}

// Holds: SEC-06
#[test]
fn domains_of_managed_platforms_need_a_permission() {
    let permissions = Permissions {
        keys: ranges(&["kubernetes.azure.com"]),
        ..Permissions::by_name("azure")
    };
    assert!(permissions.permits_label("kubernetes.azure.com/zone"));
    assert!(!permissions.permits_label("cloud.google.com/zone"));
}

#[test]
fn the_operators_list_replaces_the_default() {
    let permissions = Permissions {
        provider_ids: texts(&["aws:///eu-west-1a/"]),
        keys: ranges(&["metal.example", "service.beta.kubernetes.io/metal-"]),
        ..Permissions::default()
    };
    let gets = |provider_id: &str, annotation: &str| {
        permissions
            .permit(&texts(&[provider_id]), &texts(&[annotation]))
            .is_ok()
    };
    assert!(gets("aws:///eu-west-1a/", "metal.example/"));
    assert!(gets("aws:///eu-west-1a/i-", "a.metal.example/b"));
    assert!(gets(
        "aws:///eu-west-1a/",
        "service.beta.kubernetes.io/metal-x"
    ));

    for (provider_id, annotation) in [
        ("aws://", "metal.example/"),
        ("aws:///eu-west-1a/", "service.beta.kubernetes.io/meta"),
        ("aws:///eu-west-1a/", "example/"),
    ] {
        assert!(!gets(provider_id, annotation), "{provider_id} {annotation}");
    }
}

#[test]
fn an_error_shows_the_lines_that_permit_it() {
    let rejected = Permissions::by_name("static")
        .permit(
            &texts(&["static://", "metal://", "a,b://"]),
            &texts(&["lb.example/", "a.example/b-"]),
        )
        .unwrap_err()
        .to_string();
    assert_eq!(
        rejected,
        "it wants provider IDs `metal://`, `a,b://` and annotations `lb.example/`, `a.example/b-`, which it is not permitted; \
         to permit it, add to the plugin in the configuration file (--config): \
         permissions: {providerIDs: [static://, metal://, \"a,b://\"], \
         domains: [service.beta.kubernetes.io/static-, lb.example, a.example/b-]}"
    );
}

#[test]
fn nobody_gets_keys_that_steer_other_parts_of_the_cluster() {
    for key in [
        "flannel.alpha.coreos.com/public-ip-overwrite",
        "projectcalico.org/IPv4Address",
        "cluster-autoscaler.kubernetes.io/scale-down-disabled",
        "node.alpha.kubernetes.io/ttl",
        "kubectl.kubernetes.io/last-applied-configuration",
        "external-dns.alpha.kubernetes.io/hostname",
        "service.beta.kubernetes.io/load-balancer-source-ranges",
        "nvidia.com/gpu.present",
        "cluster.x-k8s.io/role",
        "service.skydock.dev/node-selector",
        "karpenter.sh/do-not-disrupt",
        "meta.helm.sh/release-name",
        "prometheus.io/scrape",
        "node.cilium.io/x",
    ] {
        let all = Permissions::unrestricted();
        assert!(is_reserved(key) && !all.permits_label(key), "{key}");
        assert!(all.permit(&[], &texts(&[key])).is_err(), "{key}");
        let (domain, _) = key.split_once('/').unwrap();
        let range = domain.parse::<KeyRange>();
        assert!(
            matches!(range, Err(KeyRangeError::Reserved(_))),
            "{domain}: {range:?}"
        );
    }
    // A permission for a domain does not include what is reserved below it.
    let wide = Permissions {
        keys: ranges(&["k8s.aws"]),
        ..Permissions::default()
    };

    assert!(wide.permits_label("topology.k8s.aws/zone-id"));
    assert!(!wide.permits_label("karpenter.k8s.aws/ec2nodeclass"));
}

#[test]
fn a_label_needs_a_permission() {
    let metal = Permissions {
        labels: texts(&["rack", "other.example/x", "nvidia.com/gpu.present"]),
        ..Permissions::by_name("metal")
    };
    for (key, expected) in [
        ("metal.example/rack", true),
        ("rack", true),
        ("other.example/x", true),
        ("other.example/xy", false),
        ("pool", false),
        ("nvidia.com/gpu.present", false),
    ] {
        assert_eq!(metal.permits_label(key), expected, "{key}");
        assert_eq!(
            Permissions::unrestricted().permits_label(key),
            !is_reserved(key),
            "{key}"
        );
    }
}

#[test]
fn an_annotation_that_names_a_granted_object_is_known() {
    let grant = |annotation: &str| ObjectGrant::NamedBy {
        kind: ForeignKind::Secret,
        annotation: annotation.to_owned(),
    };
    let permissions = Permissions {
        objects: vec![grant("metal.example/tls-secret")],
        ..Permissions::default()
    };
    assert!(permissions.grants_by("metal.example/tls-secret"));
    assert!(!permissions.grants_by("metal.example/tls"));
}

#[test]
fn a_range_is_a_domain_or_the_beginning_of_its_names() {
    for text in [
        "",
        "metal",
        "Metal.example",
        "metal.example/-",
        "metal.example/a/b",
        "*.metal.example",
        "https://metal.example",
    ] {
        let range = text.parse::<KeyRange>();
        assert!(
            matches!(range, Err(KeyRangeError::Form(_))),
            "{text}: {range:?}"
        );
    }
    for text in ["metal.example", "metal.example/a-", "metal.example/a"] {
        assert_eq!(text.parse::<KeyRange>().unwrap().to_string(), text);
    }

    assert!("service.beta.kubernetes.io".parse::<KeyRange>().is_err());
    assert!("service.beta.kubernetes.io/l".parse::<KeyRange>().is_err());
}

#[test]
fn permissions_without_effect_are_mistakes() {
    for (key, is_useful) in [
        ("rack", true),
        ("metal.example/Rack_1", true),
        ("*", false),
        ("a b", false),
        ("", false),
        ("kubernetes.io/hostname", false),
        ("node-role.kubernetes.io/control-plane", false),
        ("nvidia.com/gpu.present", false),
    ] {
        assert_eq!(check_label(key).is_ok(), is_useful, "{key}");
    }
    let exact = |namespace: &str, name: &str| {
        ObjectGrant::Exact(ForeignObject {
            kind: ForeignKind::Secret,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    };
    let named_by = |annotation: &str| ObjectGrant::NamedBy {
        kind: ForeignKind::Secret,
        annotation: annotation.to_owned(),
    };
    for (grant, is_useful) in [
        (exact("ops", "tls.example"), true),
        (exact("", "tls"), false),
        (exact("*", "tls"), false),
        (exact("ops.x", "tls"), false),
        (exact("ops", "*"), false),
        (exact("ops", "../x"), false),
        (exact("ops", ""), false),
        (named_by("metal.example/tls"), true),
        (named_by(""), false),
        (named_by("metal.example/*"), false),
    ] {
        assert_eq!(grant.check().is_ok(), is_useful, "{grant:?}");
    }
}
