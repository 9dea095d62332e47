//! Calls of a plugin that behaves well, fails, or gives false answers.

use std::{net::IpAddr, sync::Arc, time::Duration};

use futures::future::join_all;
use skydock_cloud::{
    AddressKind, Capability, CloudError, CloudProvider as _, Holder, NewRoute, Node, NodeAddress,
    NodeFields, NodeSet, Presence, Retry, Severity,
};

use crate::support::{Bench, FakeCluster, limits, node, node_that, service_that};

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_serves_all_its_capabilities() {
    let bench = Bench::good().await;
    let plugin = &bench.plugin;
    let info = plugin.info();
    assert_eq!(
        (info.name.as_str(), info.provider_id_prefixes.as_slice()),
        ("hostile", &["hostile://".to_owned()][..])
    );
    let exported = [
        Capability::Instances,
        Capability::LoadBalancers,
        Capability::Routes,
        Capability::Zones,
    ];
    assert_eq!(info.capabilities, exported.into());
    assert_eq!(info.driver, None, "it has no volumes");
    assert_eq!(info.max_batch, 100, "left to the host");

    let nodes = [node("a"), node("b")];
    assert_eq!(
        plugin.check(&nodes).await.unwrap(),
        [Ok(Presence::Running), Ok(Presence::Running)]
    );
    let described = plugin.describe(&nodes).await.unwrap();
    let b = described[1].as_ref().unwrap();
    assert_eq!(b.provider_id.as_deref(), Some("hostile://b"));
    assert_eq!(
        (b.addresses[0].kind, b.addresses[1].address.as_str()),
        (AddressKind::InternalIp, "b")
    );
    assert_eq!(b.labels["hostile.example/cluster"], "c1");
    assert_eq!(
        plugin.locate(&nodes).await.unwrap()[0]
            .as_ref()
            .unwrap()
            .region
            .as_deref(),
        Some("r1")
    );

    let (service, set) = (service_that("good", "web"), NodeSet::from(nodes));
    assert_eq!(plugin.get_load_balancer(&service).await, Ok(None));
    let status = plugin.ensure_load_balancer(&service, &set).await.unwrap();
    assert_eq!(plugin.get_load_balancer(&service).await, Ok(Some(status)));
    assert_eq!(plugin.update_load_balancer(&service, &set).await, Ok(()));
    assert_eq!(plugin.ensure_load_balancer_deleted(&service).await, Ok(()));
    assert!(matches!(
        plugin.update_load_balancer(&service, &set).await,
        Err(CloudError::NotFound(_))
    ));

    let new = NewRoute {
        name_hint: "uid-a".into(),
        target_node: "a".into(),
        target_provider_id: None,
        target_addresses: Vec::new(),
        destination_cidr: "10.0.1.0/24".into(),
    };
    assert_eq!(
        plugin
            .create_routes(std::slice::from_ref(&new))
            .await
            .unwrap(),
        [Ok(())]
    );
    let routes = plugin.list_routes().await.unwrap();
    assert_eq!(
        (routes.len(), routes[0].destination_cidr.as_str()),
        (1, "10.0.1.0/24")
    );
    assert_eq!(plugin.delete_routes(&routes).await.unwrap(), [Ok(())]);
    assert_eq!(plugin.list_routes().await, Ok(Vec::new()));

    assert_eq!(
        (bench.instances("idle"), bench.instances("busy")),
        (1.0, 0.0),
        "one instance served all"
    );
    assert!(bench.metric("skydock_plugin_memory_peak_bytes") > 65536.0);
    let ok = "skydock_plugin_calls_total{plugin=\"test\",interface=\"load-balancers\",function=\"get\",outcome=\"ok\"}";
    assert_eq!(bench.metric(ok), 2.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_cloud_error_keeps_its_case() {
    let bench = Bench::good().await;
    let text = || "n asked for it".to_owned();
    let retry = || Retry {
        after: Duration::from_millis(1500),
        message: text(),
    };
    let table = [
        ("not-found", CloudError::NotFound(text())),
        ("implemented-elsewhere", CloudError::ImplementedElsewhere),
        ("error-conflict", CloudError::Conflict(text())),
        ("error-throttled", CloudError::Throttled(retry())),
        ("error-in-progress", CloudError::InProgress(retry())),
        ("error-denied", CloudError::Denied(text())),
        ("error-invalid", CloudError::Invalid(text())),
        ("error-unavailable", CloudError::Unavailable(text())),
        ("error-internal", CloudError::Internal(text())),
    ];
    let nodes: Vec<_> = table
        .iter()
        .map(|(behavior, _)| node_that(behavior, "n"))
        .collect();
    let expected: Vec<_> = table.into_iter().map(|(_, error)| Err(error)).collect();
    assert_eq!(bench.plugin.check(&nodes).await.unwrap(), expected);
    assert_eq!(
        bench.instances("idle"),
        1.0,
        "an error of the cloud is not a fault of the plugin"
    );
}

// Holds: SEC-05
#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_answer_for_a_node_fails_only_that_node() {
    let bench = Bench::good().await;
    let lies = [
        "lie-prefix",
        "lie-address",
        "lie-label",
        "lie-count",
        "lie-huge",
    ];
    for lie in lies {
        let answers = bench
            .plugin
            .describe(&[node("a"), node_that(lie, "b"), node("c")])
            .await
            .unwrap();
        assert!(answers[0].is_ok() && answers[2].is_ok(), "{lie}");
        let Err(CloudError::Internal(sentence)) = &answers[1] else {
            panic!("{lie}: {:?}", answers[1])
        };
        let place =
            "plugin test (generation 1), instances.describe: its answer violates the contract: ";
        assert!(sentence.starts_with(place), "{sentence}");
        assert!(
            sentence.len() < 300,
            "{lie} is not repeated at length: {} bytes",
            sentence.len()
        );
    }
    assert_eq!(bench.metric("skydock_plugin_bad_answers_total"), 5.0);
    let zones = bench
        .plugin
        .locate(&[node_that("lie-label", "a"), node("b")])
        .await
        .unwrap();
    assert!(zones[0].is_err() && zones[1].is_ok());
}

// Holds: SEC-05
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_number_of_answers_fails_the_call() {
    let bench = Bench::good().await;
    for lie in ["lie-length", "lie-longer"] {
        let nodes = [node("a"), node_that(lie, "b")];
        for error in [
            bench.plugin.check(&nodes).await.unwrap_err(),
            bench.plugin.locate(&nodes).await.unwrap_err(),
        ] {
            let CloudError::Internal(sentence) = error else {
                panic!("{error:?}")
            };
            assert!(sentence.contains("the call has 2 elements"), "{sentence}");
        }
    }
    assert!(bench.plugin.check(&[node("a")]).await.is_ok());
}

// Holds: SEC-05
#[tokio::test(flavor = "multi_thread")]
async fn invalid_load_balancers_and_routes_are_rejected() {
    let bench = Bench::good().await;
    for lie in ["lie-address", "lie-label", "lie-count", "lie-huge"] {
        let answer = bench
            .plugin
            .ensure_load_balancer(&service_that(lie, "web"), &NodeSet::default())
            .await;
        assert!(
            matches!(answer, Err(CloudError::Internal(_))),
            "{lie}: {answer:?}"
        );
    }
    for lie in ["lie-address", "lie-count", "lie-huge"] {
        let bench = Bench::new(limits(), &format!("routes: {lie}")).await;
        let answer = bench.plugin.list_routes().await;
        assert!(
            matches!(answer, Err(CloudError::Internal(_))),
            "{lie}: {answer:?}"
        );
    }
}

// Holds: SEC-16, SEC-60
#[tokio::test(flavor = "multi_thread")]
async fn addresses_of_objects_of_the_cluster_are_rejected() {
    let bench = Bench::good().await;
    let (service, nodes) = (service_that("good", "web"), [node("a")]);
    let ensure = async || {
        let set = NodeSet::default();
        let status = bench.plugin.ensure_load_balancer(&service, &set).await?;
        Ok::<_, CloudError>(status.ingress[0].ip.clone().unwrap())
    };
    let describe = async || {
        let mut described = bench.plugin.describe(&nodes).await.unwrap();
        Ok::<_, CloudError>(described.remove(0)?.addresses.remove(0).address)
    };
    let (of_service, of_node) = (ensure().await.unwrap(), describe().await.unwrap());
    let holds = |address: &str, holder: Holder| {
        let address: IpAddr = address.parse().unwrap();
        bench.cluster.set(Arc::new(FakeCluster {
            held: Some((address, holder)),
            ..FakeCluster::default()
        }));
    };
    let hold = |address: &str| {
        let holder = Holder::ClusterIp {
            namespace: "kube-system".into(),
            name: "dns".into(),
        };
        holds(address, holder);
    };
    let is_rejected = |answer: Result<String, CloudError>| {
        let words = "is rejected: it is a cluster IP of Service kube-system/dns";
        matches!(answer, Err(CloudError::Internal(told)) if told.contains(words))
    };

    hold(&of_service);
    assert!(is_rejected(ensure().await) && describe().await.is_ok());
    hold(&of_node);
    assert!(is_rejected(describe().await) && ensure().await.is_ok());

    // A kubelet may write this into its Node.
    let everything = Holder::Pods {
        node: "thief".into(),
        cidr: "0.0.0.0/0".into(),
    };
    holds(&of_node, everything);
    assert_eq!(describe().await, Ok(of_node));
}

// Holds: SEC-04
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_exceeds_the_call_size_is_rejected() {
    let bench = Bench::new(
        skydock_sandbox::Limits {
            hostcall_buffer: 256 << 10,
            ..limits()
        },
        "",
    )
    .await;
    let error = bench
        .plugin
        .describe(&[node_that("lie-huge", "a")])
        .await
        .unwrap_err();
    let CloudError::Internal(sentence) = error else {
        panic!("{error:?}")
    };
    assert!(sentence.contains("cannot be decoded"), "{sentence}");
    assert!(bench.plugin.describe(&[node("a")]).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_only_published_for_objects_of_the_call() {
    let bench = Bench::good().await;
    let cluster = Arc::new(FakeCluster::default());
    bench.cluster.set(Arc::clone(&cluster) as _);
    let nodes = [
        node_that("publish-event", "a"),
        node_that("publish-event-on-other", "b"),
    ];
    assert_eq!(
        bench.plugin.check(&nodes).await.unwrap(),
        [Ok(Presence::Running), Ok(Presence::Running)]
    );
    let set = NodeSet::default();
    bench
        .plugin
        .ensure_load_balancer(&service_that("publish-event", "web"), &set)
        .await
        .unwrap();
    bench
        .plugin
        .ensure_load_balancer(&service_that("publish-event-on-other", "web"), &set)
        .await
        .unwrap();
    let events = cluster.events.lock().unwrap();
    let told: Vec<_> = events
        .iter()
        .map(|event| (event.object.to_string(), event.severity))
        .collect();
    assert_eq!(
        told,
        [
            ("a".to_owned(), Severity::Warning),
            ("default/web".to_owned(), Severity::Warning)
        ]
    );
    assert_eq!(events[0].object.uid, "uid-a");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_load_balancer_calls_get_their_own_nodes() {
    let bench = Bench::good().await;
    let b = Arc::new(Node {
        provider_id: Some("hostile://b".into()),
        labels: [("topology.kubernetes.io/zone".into(), "z2".into())].into(),
        addresses: vec![NodeAddress {
            kind: AddressKind::ExternalIp,
            address: "192.0.2.1".into(),
        }],
        ..(*node("b")).clone()
    });
    let calls = (0..20).map(|number| {
        let (plugin, service) = (&bench.plugin, service_that("nodes", "web"));
        let set = NodeSet::from([node("a"), Arc::clone(&b), node(&format!("n{number}"))]);
        async move {
            plugin
                .ensure_load_balancer(&service, &set)
                .await
                .unwrap()
                .ingress[0]
                .hostname
                .clone()
                .unwrap()
        }
    });
    let expected: Vec<_> = (0..20).map(|number| format!("a.b.n{number}")).collect();
    assert_eq!(join_all(calls).await, expected);
}

#[tokio::test]
async fn it_is_known_whether_a_plugin_reads_whole_nodes() {
    let bench = Bench::good().await;
    let set = NodeSet::from([node("a")]);
    for (behavior, expected) in [("good", NodeFields::Target), ("nodes", NodeFields::All)] {
        let service = service_that(behavior, behavior);
        let plugin = &bench.plugin;
        assert_eq!(plugin.node_fields_read(&service.uid), NodeFields::Target);
        plugin.ensure_load_balancer(&service, &set).await.unwrap();
        assert_eq!(plugin.node_fields_read(&service.uid), expected);
        plugin.ensure_load_balancer_deleted(&service).await.unwrap();
        assert_eq!(plugin.node_fields_read(&service.uid), NodeFields::Target);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_sees_its_own_and_unassigned_nodes() {
    let bench = Bench::good().await;
    let with_id = |name: &str, id: &str| {
        Arc::new(Node {
            provider_id: Some(id.into()),
            ..(*node(name)).clone()
        })
    };
    let nodes = vec![
        node("new"),
        with_id("mine", "hostile://mine"),
        with_id("theirs", "aws:///theirs"),
    ];
    let services = vec![Arc::new(service_that("good", "web"))];
    bench.cluster.set(Arc::new(FakeCluster {
        nodes,
        services,
        ..FakeCluster::default()
    }));
    let seen = |name: &'static str| {
        let plugin = Arc::clone(&bench.plugin);
        async move {
            let answers = plugin
                .describe(&[node_that("cluster", name)])
                .await
                .unwrap();
            let labels = answers.into_iter().next().unwrap().unwrap().labels;
            ["nodes", "services", "json"]
                .map(|key| labels[&format!("hostile.example/{key}")].clone())
        }
    };
    assert_eq!(seen("mine").await, ["2", "1", "true"]);
    assert_eq!(seen("theirs").await, ["2", "1", "false"]);
    bench.cluster.clear();
    assert_eq!(seen("mine").await, ["0", "0", "false"]);
}

// Holds: SEC-01
#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_sees_nothing_of_the_host_system() {
    let bench = Bench::good().await;
    assert_eq!(
        bench
            .plugin
            .check(&[node_that("look-around", "n")])
            .await
            .unwrap(),
        [Ok(Presence::Running)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_of_many_instances_gets_a_reservation() {
    let bench = Bench::good().await;
    // Each call computes for a while first, so that they overlap.
    let calls = (0..8).map(|index| {
        let plugin = Arc::clone(&bench.plugin);
        let nodes = [
            node_that("slow", "first"),
            node_that("reserve", &format!("n{index}")),
        ];
        tokio::spawn(async move { plugin.check(&nodes).await.unwrap().remove(1) })
    });
    let answers: Vec<_> = join_all(calls)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let held = answers.iter().filter(|answer| answer.is_ok()).count();
    let taken = answers
        .iter()
        .filter(|answer| matches!(answer, Err(CloudError::Conflict(_))))
        .count();
    assert_eq!((held, taken), (1, 7));
    assert!(bench.instances("idle") > 1.0, "several instances took part");
}
