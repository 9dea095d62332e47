//! What the host provides to a plugin: annotations, reads, the current call, maintenance, pages,
//! and concurrent calls.

use std::{fs, sync::Arc, time::Duration};

use skydock_cloud::{
    AddressKind, Arguments, Capability, CloudError, CloudProvider, ForeignKind, ForeignObject,
    Function, NewRoute, Node, NodeAddress, NodeSet, Pairs, Service,
};
use skydock_sandbox::{ObjectGrant, Overlap, Permissions, PluginSource, Stage};

use crate::support::{Bench, FakeCluster, fixture, limits, node, service_that, source};

/// Returns the plugin that tries everything, with these options, in a cluster with a node and a
/// Service.
async fn probe(options: &[(&str, &str)]) -> (Bench, Arc<FakeCluster>) {
    probe_with(options, None).await
}

async fn probe_with(
    options: &[(&str, &str)],
    overlap: Option<Overlap>,
) -> (Bench, Arc<FakeCluster>) {
    let options: Pairs = options
        .iter()
        .map(|&(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let secret = |name: &str| ForeignObject {
        kind: ForeignKind::Secret,
        namespace: "ops".into(),
        name: name.into(),
    };
    let bench = Bench::probe(limits(), |source| {
        source.options = options;
        source.overlap = overlap;
        source.permissions.objects = vec![
            ObjectGrant::Exact(secret("granted")),
            ObjectGrant::Exact(secret("missing")),
            ObjectGrant::NamedBy {
                kind: ForeignKind::Secret,
                annotation: "probe.example/tls".into(),
            },
            ObjectGrant::NamedBy {
                kind: ForeignKind::Secret,
                annotation: "probe.example/own".into(),
            },
        ];
    })
    .await;
    let cluster = Arc::new(FakeCluster {
        nodes: vec![node("n1"), node("n2")],
        services: vec![Arc::new(service(&[]))],
        own_annotations: vec!["probe.example/own".into()],
        ..FakeCluster::default()
    });
    bench.cluster.set(cluster.clone());
    (bench, cluster)
}

fn service(annotations: &[(&str, &str)]) -> Service {
    let annotations = annotations
        .iter()
        .map(|(key, value)| (format!("probe.example/{key}"), (*value).to_owned()));
    Service {
        annotations: annotations.collect(),
        ..service_that("good", "web")
    }
}

fn event_messages(cluster: &FakeCluster, reason: &str) -> Vec<String> {
    let events = cluster.events.lock().unwrap();
    events
        .iter()
        .filter(|event| event.reason == reason)
        .map(|event| event.message.clone())
        .collect()
}

fn noted(cluster: &FakeCluster) -> Vec<String> {
    let notes = std::mem::take(&mut *cluster.annotations.lock().unwrap());
    let shown = |(key, value): (&String, &Option<String>)| {
        format!("{key}={}", value.as_deref().unwrap_or("-"))
    };
    notes
        .iter()
        .map(|note| {
            format!(
                "{} {}",
                note.object,
                note.annotations
                    .iter()
                    .map(shown)
                    .collect::<Vec<_>>()
                    .join(",")
            )
        })
        .collect()
}

#[tokio::test]
async fn annotations_are_applied_however_a_call_ends() {
    let (bench, cluster) = probe(&[]).await;
    let nodes = NodeSet::default();
    for end in ["well", "error", "trap", "retire"] {
        let ended = bench
            .plugin
            .ensure_load_balancer(&service(&[("end", end)]), &nodes)
            .await;
        assert_eq!(
            ended.is_ok(),
            ["well", "retire"].contains(&end),
            "{end}: {ended:?}"
        );
        let notes = noted(&cluster);
        let [note] = &notes[..] else {
            panic!("{end}: {notes:?}")
        };
        assert!(
            note.starts_with(
                "default/web probe.example/begun=1,probe.example/gone=-,probe.example/id=lb-"
            ),
            "{end}: {note}"
        );
    }
    let first = event_messages(&cluster, "Ensured").remove(0);
    let expected = "call=1 remaining=true memory=134217728 arguments=[\"test\"] uid=Some(\"cluster-1\") revision=Some(7) changes=unknown 1 1 0 0 0 0 0";
    assert_eq!(
        first, expected,
        "what is another's, no name, or too long is rejected"
    );
    bench.plugin.get_load_balancer(&service(&[])).await.unwrap();
    assert_eq!(
        (event_messages(&cluster, "Got"), noted(&cluster)),
        (vec!["annotate=false".to_owned()], vec![])
    );
    bench
        .plugin
        .ensure_load_balancer(&service(&[("end", "many")]), &nodes)
        .await
        .unwrap();
    assert_eq!(
        event_messages(&cluster, "Many"),
        ["13"],
        "three were there: sixteen in a call"
    );
}

// Holds: SEC-62
#[tokio::test]
async fn a_plugin_has_at_most_64_annotations_on_an_object() {
    let (bench, _) = probe(&[]).await;
    let keys: Vec<_> = (0..63).map(|it| format!("k{it}")).collect();
    let mut present: Vec<_> = keys.iter().map(|key| (key.as_str(), "x")).collect();
    // The Service has one of those that the plugin sets.
    present.push(("id", "x"));
    let cluster = Arc::new(FakeCluster {
        services: vec![Arc::new(service(&present))],
        ..FakeCluster::default()
    });
    bench.cluster.set(cluster.clone());
    let web = service(&[("end", "many")]);
    let ensured = bench
        .plugin
        .ensure_load_balancer(&web, &NodeSet::default())
        .await;
    assert!(ensured.is_ok(), "{ensured:?}");
    assert_eq!(event_messages(&cluster, "Many"), ["0"]);
    let notes = noted(&cluster);
    assert!(
        matches!(&notes[..], [note] if note.starts_with("default/web probe.example/gone=-,probe.example/id=lb-")),
        "what is there can be changed and removed: {notes:?}"
    );
}

#[tokio::test]
async fn annotations_of_a_dropped_call_are_applied() {
    let (bench, cluster) = probe(&[]).await;
    let read = service(&[("read", "v1/Secret ops granted")]);
    cluster.hold_reads();
    let nodes = NodeSet::default();
    let call = bench.plugin.ensure_load_balancer(&read, &nodes);
    assert!(
        tokio::time::timeout(Duration::from_millis(500), call)
            .await
            .is_err()
    );
    assert_eq!(noted(&cluster), ["default/web probe.example/begun=1"]);
}

#[tokio::test]
async fn objects_can_be_read_only_with_a_grant() {
    let (bench, cluster) = probe(&[]).await;
    for (annotations, answer, reads) in [
        (
            vec![("read", "v1/Secret ops granted")],
            "Ok(\"{\\\"name\\\":\\\"granted\\\"}\")",
            true,
        ),
        (
            vec![("read", "v1/Secret ops missing")],
            "Err(Refusal::NotThere)",
            true,
        ),
        (
            vec![("read", "v1/Secret ops other")],
            "Err(Refusal::NotGranted)",
            false,
        ),
        (
            vec![("read", "v1/ConfigMap ops granted")],
            "Err(Refusal::NotGranted)",
            false,
        ),
        (
            vec![("read", "v1/Pod ops granted")],
            "Err(Refusal::NotGranted)",
            false,
        ),
        (
            vec![("read", "v1/Secret default cert"), ("tls", "cert")],
            "Ok(\"{\\\"name\\\":\\\"cert\\\"}\")",
            true,
        ),
        (
            vec![("read", "v1/Secret default cert")],
            "Err(Refusal::NotGranted)",
            false,
        ),
        (
            vec![("read", "v1/Secret ops cert"), ("tls", "cert")],
            "Err(Refusal::NotGranted)",
            false,
        ),
        // The annotation was written for the plugin.
        (
            vec![("read", "v1/Secret default cert"), ("own", "cert")],
            "Err(Refusal::NotGranted)",
            false,
        ),
    ] {
        cluster.events.lock().unwrap().clear();
        bench
            .plugin
            .ensure_load_balancer(&service(&annotations), &NodeSet::default())
            .await
            .unwrap();
        let report = event_messages(&cluster, "Ensured").remove(0);
        assert!(
            report.contains(&format!("read={answer} ")),
            "{annotations:?}: {report}"
        );
        let read = std::mem::take(&mut *cluster.reads.lock().unwrap());
        assert_eq!(read.len(), usize::from(reads), "{annotations:?}");
        assert!(
            read.iter()
                .all(|(_, reader)| reader.as_ref().is_some_and(|it| it.name == "web")),
            "{read:?}"
        );
    }
}

// Holds: SEC-27
#[tokio::test]
async fn permissions_are_taken_away_while_a_replacement_is_loaded() {
    let (bench, cluster) = probe(&[]).await;
    let source = PluginSource {
        permissions: Permissions::by_name("other"),
        ..source(bench.dir.path())
    };
    bench.replace("good");
    let load = bench.plugin.reload();
    let change = bench.plugin.reconfigure(source, limits());
    tokio::pin!(load, change);
    assert!(futures::poll!(&mut load).is_pending());
    assert!(futures::poll!(&mut change).is_pending());
    let wanted = service(&[("read", "v1/Secret ops granted")]);
    let nodes = NodeSet::default();
    let ensured = bench.plugin.ensure_load_balancer(&wanted, &nodes).await;
    ensured.unwrap();
    let report = event_messages(&cluster, "Ensured").remove(0);
    assert!(
        report.contains("read=Err(Refusal::NotGranted) "),
        "{report}"
    );
}

// Holds: SEC-27
#[tokio::test]
async fn a_rejected_configuration_takes_permissions_away() {
    let (bench, cluster) = probe(&[]).await;
    let wanted = service(&[("read", "v1/Secret ops granted")]);
    let ensure = || async {
        cluster.events.lock().unwrap().clear();
        let nodes = NodeSet::default();
        let ensured = bench.plugin.ensure_load_balancer(&wanted, &nodes).await;
        ensured.unwrap();
        (
            event_messages(&cluster, "Ensured").remove(0),
            noted(&cluster),
        )
    };
    let (report, notes) = ensure().await;
    assert!(report.contains("read=Ok("), "{report}");
    assert_eq!(notes.len(), 1);

    // It wants annotations that it would not be permitted.
    let source = PluginSource {
        permissions: Permissions::by_name("other"),
        ..source(bench.dir.path())
    };
    let rejected = bench.plugin.reconfigure(source, limits()).await;
    assert_eq!(rejected.unwrap_err().stage, Stage::Permissions);
    let (report, notes) = ensure().await;
    assert!(
        report.contains("read=Err(Refusal::NotGranted) "),
        "{report}"
    );
    assert_eq!(notes, [""; 0]);
    assert_eq!(bench.plugin.info().annotation_prefixes, [""; 0]);
    assert_eq!(bench.plugin.generation().number, 1);
}

#[tokio::test]
async fn a_call_learns_which_nodes_were_added_and_removed() {
    let (bench, cluster) = probe(&[]).await;
    let set = |names: &[&str]| -> NodeSet { names.iter().map(|name| node(name)).collect() };
    let moved: NodeSet = [
        node("a"),
        Arc::new(Node {
            provider_id: Some("x".into()),
            ..(*node("b")).clone()
        }),
    ]
    .into();
    let web = service(&[]);
    bench
        .plugin
        .ensure_load_balancer(&web, &set(&["a", "b"]))
        .await
        .unwrap();
    bench
        .plugin
        .update_load_balancer(&web, &set(&["b", "c"]))
        .await
        .unwrap();
    bench
        .plugin
        .update_load_balancer(&web, &set(&["b", "c"]))
        .await
        .unwrap();
    bench
        .plugin
        .update_load_balancer(&web, &moved)
        .await
        .unwrap();
    assert_eq!(event_messages(&cluster, "Updated"), ["c/a", "/", "a+b/b+c"]);
    let failing = service(&[("end", "error")]);
    bench
        .plugin
        .ensure_load_balancer(&failing, &set(&["a"]))
        .await
        .unwrap_err();
    bench
        .plugin
        .update_load_balancer(&web, &set(&["a"]))
        .await
        .unwrap();
    assert_eq!(
        event_messages(&cluster, "Updated").pop().as_deref(),
        Some("unknown"),
        "a part may have been done"
    );
    bench
        .plugin
        .ensure_load_balancer_deleted(&web)
        .await
        .unwrap();
    bench
        .plugin
        .update_load_balancer(&web, &set(&["a"]))
        .await
        .unwrap();
    assert_eq!(
        event_messages(&cluster, "Updated").pop().as_deref(),
        Some("unknown"),
        "it is another load balancer"
    );
}

#[tokio::test]
async fn routes_are_listed_by_page_within_limits() {
    let names = |routes: Vec<skydock_cloud::Route>| {
        routes
            .into_iter()
            .map(|it| it.name)
            .collect::<Vec<_>>()
            .join(" ")
    };
    let (bench, cluster) = probe(&[("pages", "3")]).await;
    assert_eq!(
        names(bench.plugin.list_routes().await.unwrap()),
        "r0 r1 r2 r3 r4 r5"
    );
    let new = NewRoute {
        name_hint: "u".into(),
        target_node: "n1".into(),
        target_provider_id: None,
        target_addresses: Vec::new(),
        destination_cidr: "10.0.9.0/24".into(),
    };
    let stranger = NewRoute {
        target_node: "n9".into(),
        ..new.clone()
    };
    bench.plugin.create_routes(&[new, stranger]).await.unwrap();
    assert_eq!(
        event_messages(&cluster, "RouteMade"),
        ["10.0.9.0/24"],
        "events of routes are on nodes that are there"
    );
    let (wordy, _) = probe(&[("pages", "wordy")]).await;
    assert!(
        matches!(wordy.plugin.list_routes().await, Err(CloudError::Internal(why)) if why.contains("4096"))
    );
    let few = skydock_sandbox::Limits {
        routes: 5,
        ..limits()
    };
    let endless = Bench::probe(few.clone(), |source| {
        drop(source.options.insert("pages".into(), "endless".into()));
    })
    .await;
    assert!(
        matches!(endless.plugin.list_routes().await, Err(CloudError::Internal(why)) if why.contains("does not end"))
    );
    let many = Bench::probe(few, |source| {
        drop(source.options.insert("pages".into(), "3".into()));
    })
    .await;
    assert!(
        matches!(many.plugin.list_routes().await, Err(CloudError::Internal(why)) if why.contains("6 routes"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn each_function_of_the_contract_reaches_a_plugin() {
    let disks = Bench::volumes("none").await.unwrap();
    let benches = [Bench::good().await, probe(&[]).await.0, disks];
    let arguments = Arguments {
        nodes: vec![node("n1")],
        ..Arguments::default()
    };
    for function in Function::ALL {
        let capability = function.capability();
        let mut all = benches.iter();
        let bench = all
            .find(|it| it.plugin.info().can(capability))
            .unwrap_or_else(|| panic!("no fixture exports {capability}"));

        let calls = || bench.metric("skydock_plugin_calls_total");
        let before = calls();
        let _ = function.with(&arguments).make(&*bench.plugin).await;
        assert!(calls() > before, "{function}");
    }
}

#[tokio::test]
async fn unused_interfaces_count_as_not_exported() {
    let (whole, _) = probe(&[]).await;
    let mut expected = whole.plugin.info().capabilities.clone();
    assert!(expected.remove(&Capability::Routes));
    let (bench, _) = probe(&[("unused", "routes")]).await;
    assert_eq!(bench.plugin.info().capabilities, expected);
    assert_eq!(
        bench.plugin.list_routes().await,
        Err(CloudError::ImplementedElsewhere)
    );
    for (option, value, told) in [
        ("unused", "zones", "unused interface"),
        ("prefix", "kubernetes.io/", "annotation prefix"),
    ] {
        let rejected = Bench::try_probe(limits(), |source| {
            drop(source.options.insert(option.into(), value.into()));
        })
        .await;
        let error = rejected.err().unwrap().to_string();
        assert!(error.contains(told), "{error}");
    }
}

// Holds: SEC-61
#[tokio::test]
async fn maintenance_can_publish_events_for_all_visible_objects() {
    let (bench, cluster) = probe(&[]).await;
    assert_eq!(
        bench.plugin.maintain().await,
        Ok(Duration::from_secs(10)),
        "not sooner"
    );
    assert_eq!(
        event_messages(&cluster, "Maintained"),
        ["a node", "a service"]
    );
    let others = cluster.events.lock().unwrap().len() - 2;
    assert_eq!(others, 0, "reasons of Skydock and Kubernetes are reserved");
}

/// Returns how many calls each instance said it had handled, for four concurrent calls and one
/// more.
async fn numbers(options: &[(&str, &str)], overlap: Option<Overlap>) -> Vec<String> {
    let (bench, cluster) = probe_with(options, overlap).await;
    let (web, nodes) = (service(&[]), NodeSet::default());
    cluster.slow_reads(Duration::from_millis(300));
    let read = service(&[("read", "v1/Secret ops granted")]);
    let call = || bench.plugin.ensure_load_balancer(&read, &nodes);
    let (a, b, c, d) = tokio::join!(call(), call(), call(), call());
    assert!([a, b, c, d].iter().all(Result::is_ok));
    bench
        .plugin
        .ensure_load_balancer(&web, &nodes)
        .await
        .unwrap();
    let mut numbers: Vec<_> = event_messages(&cluster, "Ensured")
        .iter()
        .map(|it| it.split(' ').next().unwrap().to_owned())
        .collect();
    numbers.sort();
    numbers
}

#[tokio::test]
async fn calls_overlap_as_the_plugin_and_operator_allow() {
    assert_eq!(
        numbers(&[], None).await,
        ["call=1", "call=1", "call=1", "call=1", "call=2"]
    );
    let one = ["call=1", "call=2", "call=3", "call=4", "call=5"];
    assert_eq!(numbers(&[("overlap", "none")], None).await, one);
    assert_eq!(numbers(&[("overlap", "per-interface")], None).await, one);
    assert_eq!(
        numbers(&[], Some(Overlap::None)).await,
        one,
        "the operator's word"
    );
}

#[tokio::test]
async fn interfaces_overlap_unless_overlap_is_none() {
    for (overlap, together) in [("per-interface", true), ("none", false)] {
        let (bench, cluster) = probe(&[("overlap", overlap)]).await;
        cluster.hold_reads();
        let (read, nodes) = (
            service(&[("read", "v1/Secret ops granted")]),
            NodeSet::default(),
        );
        let slow = bench.plugin.ensure_load_balancer(&read, &nodes);
        let other = tokio::time::timeout(Duration::from_secs(1), bench.plugin.list_routes());
        tokio::select! {
            // The slow call is polled first.
            biased;
            _ = slow => panic!("it waits for a read"),
            listed = other => assert_eq!(listed.is_ok(), together, "{overlap}"),
        }
    }
}

#[tokio::test]
async fn a_retired_instance_is_replaced_without_a_failure() {
    let (bench, cluster) = probe(&[]).await;
    for _ in 0..7 {
        bench
            .plugin
            .ensure_load_balancer(&service(&[("end", "retire")]), &NodeSet::default())
            .await
            .unwrap();
    }
    assert!(
        event_messages(&cluster, "Ensured")
            .iter()
            .all(|report| report.starts_with("call=1 "))
    );
    assert!(bench.metric("skydock_plugin_traps_total").abs() < f64::EPSILON);
    assert!(bench.instances("idle").abs() < f64::EPSILON);
}

/// Returns nodes with all that a target can have, and without.
fn unusual_nodes() -> Vec<Node> {
    let kinds = [
        AddressKind::Hostname,
        AddressKind::InternalIp,
        AddressKind::ExternalIp,
        AddressKind::InternalDns,
        AddressKind::ExternalDns,
    ];
    let addresses = kinds.iter().map(|kind| NodeAddress {
        kind: *kind,
        address: format!("{kind:?}-ü"),
    });
    let full = Node {
        provider_id: Some("first:///größe/日本".into()),
        labels: [("topology.kubernetes.io/zone".into(), "zone-ä".into())].into(),
        addresses: addresses.collect(),
        ..(*node("full")).clone()
    };
    let empty = Node {
        provider_id: Some(String::new()),
        ..(*node("empty")).clone()
    };
    vec![full, empty, (*node("bare")).clone()]
}

#[tokio::test]
async fn plugins_of_each_version_see_the_nodes_of_each_call() {
    for (name, contract) in [("good", "0.1.1"), ("contract_0_1_0", "0.1.0")] {
        let component = fs::read(fixture(name)).unwrap();
        let bench = Bench::of(&component, limits()).await;
        bench.cluster.set(Arc::new(FakeCluster::default()));
        assert_eq!(bench.plugin.contract().as_deref(), Some(contract));

        let set = |nodes: &[Node]| nodes.iter().cloned().map(Arc::new).collect::<NodeSet>();
        let all = unusual_nodes();
        let mut other_zone = all.clone();
        other_zone[0].labels.clear();
        let mut ready = all.clone();
        ready[1].ready = true;
        let (first, second) = (set(&all), set(&all[1..]));
        for (nodes, names) in [
            (&first, "full.empty.bare"),
            (&first, "full.empty.bare"),
            (&second, "empty.bare"),
            (&set(&other_zone), "full.empty.bare"),
            (&first, "full.empty.bare"),
            (&set(&ready), "full.empty.bare"),
            (&set(&all[..1]), "full"),
            (&second, "empty.bare"),
        ] {
            let service = service_that("nodes", "web");
            let status = bench.plugin.ensure_load_balancer(&service, nodes).await;
            let status = status.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(status.ingress[0].hostname.as_deref(), Some(names), "{name}");
            let updated = bench.plugin.update_load_balancer(&service, nodes).await;
            assert_eq!(updated, Ok(()), "{name}");
        }
        assert_eq!(
            bench.instances("idle"),
            1.0,
            "one instance served all of them"
        );
    }
}
