use serde_json::{Value, json};
use skydock_cloud::{Ingress, LoadBalancerStatus};
use skydock_controller_base::{
    objects::constants::ANNOTATION_CLASS,
    testing::{service, with},
};
use skydock_kube::{informer::Entry, queue::Priority};

use super::{
    goal::{Goal, Need, goal, goal_if_gone, need},
    schedule::{Facts, Schedule, appeared, matters, needs_restore, schedule},
    *,
};

/// Returns what is known about a Service of which nothing is known.
fn unknown() -> Facts<'static> {
    Facts {
        written_by_skydock: &|_, _| false,
        is_ours: false,
        left_to_others: false,
        written_status: None,
    }
}

fn needs_update(old: &Service, new: &Service, classes: &Classes) -> bool {
    schedule::needs_update(old, new, classes, |_, _| false)
}

#[test]
fn annotations_written_for_the_provider_are_not_a_change() {
    let annotated =
        |value: Option<&str>| lb(&json!({"metadata": {"annotations": {"a": value, "other": "x"}}}));
    let written = |key: &str, value: Option<&str>| key == "a" && value == Some("1");
    let removed = |key: &str, value: Option<&str>| key == "a" && value.is_none();
    let classes = Classes::default();
    for (old, new, expected) in [
        (None, Some("1"), false),
        (Some("1"), Some("2"), true),
        (Some("1"), None, true),
    ] {
        let found = schedule::needs_update(&annotated(old), &annotated(new), &classes, written);
        assert_eq!(found, expected, "{old:?} {new:?}");
    }
    assert!(!schedule::needs_update(
        &annotated(Some("1")),
        &annotated(None),
        &classes,
        removed
    ));
}

fn lb(change: &Value) -> Service {
    with(&service("web"), change)
}

fn finalizer() -> Value {
    json!({"metadata": {"finalizers": ["other", FINALIZER]}})
}

fn gone() -> Value {
    json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
}

// Holds: S-06, S-07, S-08, S-13, S-36, S-37
#[test]
fn type_class_finalizer_and_deletion_decide_what_is_needed() {
    let both = with::<Value>(&finalizer(), &gone());
    let class = json!({"spec": {"loadBalancerClass": "x.io/y"}});
    let cluster_ip = json!({"spec": {"type": "ClusterIP"}});
    for (what, service, need_unknown, need_known) in [
        ("plain", lb(&json!({})), Need::Ensure, Need::Ensure),
        (
            "with finalizer",
            lb(&finalizer()),
            Need::Ensure,
            Need::Ensure,
        ),
        (
            "deleted with finalizer",
            lb(&both),
            Need::Cleanup,
            Need::Cleanup,
        ),
        (
            "deleted, kept by others",
            lb(&gone()),
            Need::Nothing,
            Need::Cleanup,
        ),
        ("of a class", lb(&class), Need::Nothing, Need::Cleanup),
        (
            "of a class, with finalizer",
            with(&lb(&finalizer()), &class),
            Need::Nothing,
            Need::Cleanup,
        ),
        (
            "of a class, deleted with finalizer",
            with(&lb(&both), &class),
            Need::Cleanup,
            Need::Cleanup,
        ),
        ("ClusterIP", lb(&cluster_ip), Need::Nothing, Need::Cleanup),
        (
            "ClusterIP with finalizer",
            with(&lb(&finalizer()), &cluster_ip),
            Need::Cleanup,
            Need::Cleanup,
        ),
    ] {
        assert_eq!(
            need(&service, &Classes::default(), false),
            need_unknown,
            "{what}"
        );
        assert_eq!(
            need(&service, &Classes::default(), true),
            need_known,
            "{what}, known"
        );
    }
}

// Holds: S-09, S-15, S-43
#[test]
fn a_service_that_is_gone_is_forgotten_before_its_successor() {
    let before = lb(&json!({}));
    let recreated = lb(&json!({"metadata": {"uid": "uid-new"}}));
    let changed = lb(&json!({"metadata": {"resourceVersion": "2"}}));
    for (present, goal) in [
        (None, Some(Goal::DeleteOrphan { recreated: false })),
        (
            Some(&recreated),
            Some(Goal::DeleteOrphan { recreated: true }),
        ),
        (Some(&changed), None),
    ] {
        assert_eq!(goal_if_gone(&before, present), goal, "{present:?}");
    }
}

// Holds: S-13, S-14
#[test]
fn a_service_with_its_load_balancer_can_wait() {
    let classes = Classes::default();
    let served = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
    let both = with::<Value>(&finalizer(), &served);
    for (service, priority, goal) in [
        (lb(&json!({})), Some(Priority::Change), Some(Goal::Ensure)),
        (lb(&finalizer()), Some(Priority::Change), Some(Goal::Ensure)),
        (lb(&served), Some(Priority::Change), Some(Goal::Ensure)),
        (lb(&both), Some(Priority::Recheck), Some(Goal::Ensure)),
        (
            with(&lb(&both), &gone()),
            Some(Priority::Change),
            Some(Goal::CleanUp),
        ),
        (with(&lb(&served), &gone()), None, None),
    ] {
        assert_eq!(
            (
                appeared(&service, &classes),
                self::goal(&service, &classes, false)
            ),
            (priority, goal)
        );
    }
}

/// Returns a Service that had a class and is not of type LoadBalancer, as the API server stores it.
fn dropped(created_with: &str) -> Service {
    with(
        &with(&lb(&finalizer()), &class_annotation(created_with)),
        &json!({"spec": {"type": "ClusterIP"}}),
    )
}

fn class_annotation(created_with: &str) -> Value {
    let uid = lb(&json!({})).metadata.uid.unwrap();
    json!({"metadata": {"annotations": {ANNOTATION_CLASS: format!("{created_with}@{uid}")}}})
}

// Holds: S-36, S-37
#[test]
fn each_host_cleans_up_services_of_its_own_classes() {
    let classes = |named: &[&str], unnamed| Classes {
        named: named.iter().map(|name| (*name).into()).collect(),
        unnamed,
    };
    let (x, y, unnamed) = (
        classes(&["a.io/x"], false),
        classes(&["a.io/y"], false),
        Classes::default(),
    );
    let gone = |service: &Service| with(service, &gone());
    let of = |class: &str, created_with: &str| {
        with(
            &with(&lb(&finalizer()), &class_annotation(created_with)),
            &json!({"spec": {"loadBalancerClass": class}}),
        )
    };

    let plain = with(&lb(&finalizer()), &json!({"spec": {"type": "ClusterIP"}}));
    for (what, service, cleaned) in [
        ("type changed", dropped("a.io/x"), [true, false, false]),
        (
            "type changed, then deleted",
            gone(&dropped("a.io/x")),
            [true, false, false],
        ),
        (
            "deleted",
            gone(&of("a.io/x", "a.io/x")),
            [true, false, false],
        ),
        ("served", of("a.io/x", "a.io/x"), [false, false, false]),
        (
            "moved to another host",
            of("a.io/y", "a.io/x"),
            [true, false, false],
        ),
        ("created without a class", plain, [false, false, true]),
    ] {
        let needs =
            [&x, &y, &unnamed].map(|classes| need(&service, classes, false) == Need::Cleanup);
        assert_eq!(needs, cleaned, "{what}");
    }
    assert_eq!(
        need(&of("a.io/y", "a.io/x"), &y, false),
        Need::Ensure,
        "it need not wait for the other host"
    );
    assert_eq!(
        class_annotation::live_to_write(&of("a.io/y", "a.io/x")),
        None
    );

    let bare = lb(&json!({"spec": {"loadBalancerClass": "a.io/y"}}));
    assert_eq!(
        class_annotation::live_to_write(&bare),
        Some(format!("a.io/y@{}", bare.metadata.uid.as_deref().unwrap()))
    );
    assert_eq!(class_annotation::live_to_write(&lb(&json!({}))), None);
}

#[test]
fn a_class_annotation_copied_from_another_service_is_ignored() {
    let copied = |change: Value| {
        let service = with(
            &with(&lb(&finalizer()), &class_annotation("a.io/x")),
            &json!({"metadata": {"uid": "a-copy"}}),
        );
        with(&service, &change)
    };
    let classes = Classes::default();
    assert_eq!(need(&copied(gone()), &classes, false), Need::Cleanup);
    assert_eq!(
        need(
            &copied(json!({"spec": {"type": "ClusterIP"}})),
            &classes,
            false
        ),
        Need::Cleanup
    );
    assert_eq!(need(&copied(json!({})), &classes, false), Need::Ensure);

    let of_class = copied(json!({"spec": {"loadBalancerClass": "a.io/x"}}));
    assert_eq!(
        class_annotation::live_to_write(&of_class).as_deref(),
        Some("a.io/x@a-copy")
    );
}

#[test]
fn a_class_annotation_is_not_a_change_but_is_restored_if_lost() {
    let classes = Classes {
        named: ["a.io/x".to_owned()].into(),
        unnamed: false,
    };
    let bare = lb(&json!({"spec": {"loadBalancerClass": "a.io/x"}}));
    let annotated = with(&bare, &class_annotation("a.io/x"));
    assert!(
        !needs_update(&bare, &annotated, &classes) && !needs_update(&annotated, &bare, &classes)
    );
    assert!(
        needs_restore(&annotated, &bare, &classes) && !needs_restore(&bare, &annotated, &classes)
    );
}

// Holds: S-10, S-11
#[test]
fn relevant_changes_need_an_update() {
    for change in [
        json!({"spec": {"type": "ClusterIP"}}),
        json!({"spec": {"loadBalancerSourceRanges": ["10.0.0.0/8"]}}),
        json!({"spec": {"ports": [{"port": 81, "protocol": "TCP", "nodePort": 30080}]}}),
        json!({"spec": {"ports": [{"port": 80, "protocol": "UDP", "nodePort": 30080}]}}),
        json!({"spec": {"ports": [{"port": 80, "protocol": "TCP", "nodePort": 30081}]}}),
        json!({"spec": {"ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080, "name": "a"}]}}),
        json!({"spec": {"ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080, "targetPort": 8080}]}}),
        json!({"spec": {"ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080, "targetPort": "web"}]}}),
        json!({"spec": {"ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080, "appProtocol": "http"}]}}),
        json!({"spec": {"sessionAffinity": "ClientIP"}}),
        json!({"spec": {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 9}}}}),
        json!({"spec": {"loadBalancerIP": "192.0.2.7"}}),
        json!({"spec": {"externalIPs": ["192.0.2.8"]}}),
        json!({"spec": {"externalTrafficPolicy": "Local"}}),
        json!({"spec": {"healthCheckNodePort": 31000}}),
        json!({"spec": {"ipFamilies": ["IPv4", "IPv6"]}}),
        json!({"metadata": {"annotations": {"a": "b"}}}),
        json!({"metadata": {"uid": "another"}}),
    ] {
        assert!(
            needs_update(&lb(&json!({})), &lb(&change), &Classes::default()),
            "{change}"
        );
        assert!(
            needs_update(&lb(&change), &lb(&json!({})), &Classes::default()),
            "back from {change}"
        );
    }
}

// Holds: S-11
#[test]
fn upstreams_cases_of_an_update() {
    let port = |change: Value| {
        let plain = json!({"port": 80, "protocol": "TCP", "nodePort": 30080});
        json!({"spec": {"ports": [with::<Value>(&plain, &change)]}})
    };
    let external = |ips: &[&str]| json!({"spec": {"externalIPs": ips}});
    let families = |families: &[&str]| json!({"spec": {"ipFamilies": families}});
    let app = |protocol: &str| port(json!({"appProtocol": protocol}));
    let plain = json!({});
    for (what, old, new, expected) in [
        (
            "type",
            json!({"spec": {"type": "ClusterIP"}}),
            plain.clone(),
            true,
        ),
        (
            "ports",
            port(json!({})),
            json!({"spec": {"ports": [{"port": 8080}]}}),
            true,
        ),
        (
            "number of external IPs",
            external(&["1.1.1.1"]),
            external(&["1.1.1.1", "2.2.2.2"]),
            true,
        ),
        (
            "external IPs",
            external(&["1.1.1.1"]),
            external(&["2.2.2.2"]),
            true,
        ),
        (
            "uid",
            plain.clone(),
            json!({"metadata": {"uid": "another"}}),
            true,
        ),
        (
            "traffic policy",
            plain.clone(),
            json!({"spec": {"externalTrafficPolicy": "Local"}}),
            true,
        ),
        (
            "health check",
            plain.clone(),
            json!({"spec": {"healthCheckNodePort": 31000}}),
            true,
        ),
        (
            "target port",
            port(json!({"targetPort": 20})),
            port(json!({"targetPort": 21})),
            true,
        ),
        (
            "target port's name",
            port(json!({"targetPort": "a"})),
            port(json!({"targetPort": "b"})),
            true,
        ),
        (
            "a second family",
            families(&["IPv4"]),
            families(&["IPv4", "IPv6"]),
            true,
        ),
        (
            "one family less",
            families(&["IPv4", "IPv6"]),
            families(&["IPv4"]),
            true,
        ),
        ("an app protocol", port(json!({})), app("http"), true),
        ("another app protocol", app("http"), app("tcp"), true),
        ("the same ports", app("http"), app("http"), false),
        (
            "the same families",
            families(&["IPv6"]),
            families(&["IPv6"]),
            false,
        ),
    ] {
        assert_eq!(
            needs_update(&lb(&old), &lb(&new), &Classes::default()),
            expected,
            "{what}"
        );
    }
}

// Holds: S-10, S-12
#[test]
fn irrelevant_changes_need_no_update() {
    for change in [
        json!({"metadata": {"labels": {"a": "b"}}}),
        json!({"metadata": {"annotations": {}}}),
        json!({"metadata": {"resourceVersion": "2", "finalizers": ["x"]}}),
        json!({"spec": {"selector": {"a": "b"}, "internalTrafficPolicy": "Local"}}),
        json!({"spec": {"allocateLoadBalancerNodePorts": false, "clusterIPs": ["10.96.0.9"]}}),
        json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}),
    ] {
        assert!(
            !needs_update(&lb(&json!({})), &lb(&change), &Classes::default()),
            "{change}"
        );
    }
    let families = |families: &[&str]| lb(&json!({"spec": {"ipFamilies": families}}));
    assert!(!needs_update(
        &families(&["IPv4"]),
        &families(&["IPv6"]),
        &Classes::default()
    ));
    let class = json!({"spec": {"loadBalancerClass": "x"}});
    let other = with(&lb(&class), &json!({"spec": {"ports": []}}));
    assert!(!needs_update(&lb(&class), &other, &Classes::default()));
}

// Holds: S-37
#[test]
fn a_finalizer_that_was_left_is_removed_by_the_host_that_has_added_it() {
    let classes = |named: &[&str], unnamed| Classes {
        named: named.iter().map(|name| (*name).into()).collect(),
        unnamed,
    };
    let (x, both, other) = (
        classes(&["a.io/x"], false),
        classes(&["a.io/x"], true),
        classes(&["a.io/z"], false),
    );
    let moved = |created_with: &str, class: &str| {
        let service = with(&lb(&finalizer()), &class_annotation(created_with));
        with(&service, &json!({"spec": {"loadBalancerClass": class}}))
    };
    for (created_with, left) in [("a.io/x", "left:a.io/x"), ("", "left:")] {
        let annotated = moved(created_with, "b.io/y");
        let before = if created_with.is_empty() {
            lb(&finalizer())
        } else {
            annotated
        };
        assert_eq!(
            class_annotation::left_to_write(&before, &both),
            format!("{left}@uid-web")
        );
        let after = moved(left, "b.io/y");
        let needs = |service: &Service, classes| need(service, classes, false);
        assert_eq!(needs(&after, &both), Need::Nothing, "{left}");
        assert!(
            class_annotation::exists(&after) && !class_annotation::is_live(&after),
            "{left}"
        );
        let cluster_ip = json!({"spec": {"type": "ClusterIP", "loadBalancerClass": null}});
        let changed = with(&after, &cluster_ip);
        assert_eq!(needs(&changed, &both), Need::Nothing, "{left}");
        let deleted_after = with(&changed, &gone());
        assert_eq!(needs(&deleted_after, &both), Need::Cleanup, "{left}");
        let deleted = with(&after, &gone());
        assert_eq!(needs(&deleted, &both), Need::Cleanup, "{left}");
        assert_eq!(needs(&deleted, &other), Need::Nothing, "{left}");
        let is_x = !created_with.is_empty();
        assert_eq!(needs(&deleted, &x) == Need::Cleanup, is_x, "{left}");
    }

    let back = moved("left:a.io/x", "a.io/x");
    assert_eq!(need(&back, &x, false), Need::Ensure);
    assert_eq!(
        class_annotation::live_to_write(&back).as_deref(),
        Some("a.io/x@uid-web")
    );
}

#[test]
fn a_service_that_comes_back_without_a_class_is_cleaned_up_again() {
    let classes = Classes::default();
    let back = with(&lb(&finalizer()), &class_annotation("left:"));
    assert_eq!(need(&back, &classes, false), Need::Ensure);
    assert_eq!(
        class_annotation::live_to_write(&back).as_deref(),
        Some("@uid-web")
    );

    let annotated = with(&back, &class_annotation(""));
    assert_eq!(class_annotation::live_to_write(&annotated), None);
    let cluster_ip = json!({"spec": {"type": "ClusterIP"}});
    let moved = json!({"spec": {"loadBalancerClass": "b.io/y"}});
    for change in [cluster_ip, moved, gone()] {
        let changed = with(&annotated, &change);
        assert_eq!(need(&changed, &classes, false), Need::Cleanup, "{change}");
    }
}

#[test]
fn a_type_left_to_another_implementation_matters_only_if_it_changes() {
    let cluster_ip = json!({"spec": {"type": "ClusterIP"}});
    let (old, labeled) = (
        with(&lb(&finalizer()), &cluster_ip),
        json!({"metadata": {"labels": {"a": "b"}}}),
    );
    let is = |change: &Value, left_to_others: bool| {
        let facts = Facts {
            left_to_others,
            ..unknown()
        };
        matters(&old, &with(&old, change), &Classes::default(), &facts)
    };
    assert!(is(&labeled, false) && !is(&labeled, true));
    assert!(is(&gone(), true));
    assert!(is(&json!({"spec": {"type": "LoadBalancer"}}), true));
}

#[test]
fn a_change_decides_how_soon_a_service_is_processed() {
    let classes = Classes::default();
    let with_status = |ip: &str| {
        let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": ip}]}}});
        with(&lb(&finalizer()), &status)
    };
    let served = with_status("192.0.2.1");
    let bare = with(&served, &json!({"metadata": {"finalizers": null}}));
    let ports = json!({"spec": {"ports": []}});
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let taken = with_status("192.0.2.66");
    let written = Some(LoadBalancerStatus {
        ingress: vec![Ingress {
            ip: Some("192.0.2.66".to_owned()),
            ..Ingress::default()
        }],
    });
    // The new version, and when it is processed if it is not ours, and if it is.
    for (what, new, foreign, ours) in [
        ("another label", with(&served, &label), None, None),
        (
            "a change",
            with(&served, &ports),
            Some(Schedule::Now),
            Some(Schedule::Now),
        ),
        (
            "a change without the finalizer",
            with(&bare, &ports),
            Some(Schedule::Now),
            Some(Schedule::Now),
        ),
        (
            "deleted without the finalizer",
            with(&bare, &gone()),
            None,
            Some(Schedule::Now),
        ),
        ("without the finalizer", bare, None, Some(Schedule::Restore)),
        (
            "without a status",
            with(&served, &json!({"status": {"loadBalancer": null}})),
            None,
            Some(Schedule::Restore),
        ),
        (
            "with another status",
            taken.clone(),
            None,
            Some(Schedule::ReplaceStatus),
        ),
    ] {
        let (old, new) = (Entry::new(served.clone()), Entry::new(new));
        for (is_ours, expected) in [(false, foreign), (true, ours)] {
            let facts = Facts {
                is_ours,
                ..unknown()
            };
            let found = schedule(&old, &new, &classes, &facts);
            assert_eq!(found, expected, "{what}, ours: {is_ours}");
        }
    }

    let facts = Facts {
        is_ours: true,
        written_status: written,
        ..unknown()
    };
    let (old, new) = (Entry::new(served), Entry::new(taken));
    let found = schedule(&old, &new, &classes, &facts);
    assert_eq!(found, None, "this process has written it");
}
