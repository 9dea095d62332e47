//! Tests of checks after a start and periodically.

use super::*;

fn numbered(n: usize) -> Service {
    with(
        &served("5"),
        &json!({"metadata": {"name": format!("web-{n:04}"), "uid": format!("uid-{n:04}")}}),
    )
}

fn ensured(bench: &Bench) -> usize {
    bench
        .cloud
        .calls()
        .iter()
        .filter(|call| call.starts_with("ensure web-"))
        .count()
}

fn restarted(services: usize) -> Bench {
    let services: Vec<_> = (0..services).map(numbered).collect();
    bench_where(ServiceOptions::default(), &[plain_node("n1")], &services)
}

// Holds: S-14, S-29
#[tokio::test(start_paused = true)]
async fn after_a_restart_one_service_is_checked_per_second() {
    let bench = restarted(1000);
    bench.cloud.ensure_takes(Duration::from_millis(500));
    sleep(Duration::from_secs(300)).await;
    let first = ensured(&bench);
    assert!((290..=310).contains(&first), "{first} in five minutes");
    sleep(Duration::from_secs(710)).await;
    assert_eq!(ensured(&bench), 1000);
    assert_eq!(bench.api.requests().len(), 0, "neither patches nor events");
}

// Holds: S-14
#[tokio::test(start_paused = true)]
async fn checks_speed_up_to_fit_all_services_into_the_period() {
    let services: Vec<_> = (0..600).map(numbered).collect();
    let options = ServiceOptions {
        check_period: Some(Duration::from_secs(60)),
        ..ServiceOptions::default()
    };
    let bench = bench_where(options, &[plain_node("n1")], &services);
    sleep(Duration::from_secs(30)).await;
    let half = ensured(&bench);
    assert!((290..=310).contains(&half), "{half} in half of the period");
    sleep(Duration::from_secs(30)).await;
    assert!(ensured(&bench) >= 600);
}

#[tokio::test(start_paused = true)]
async fn changes_do_not_wait_for_checks_even_in_a_slow_cloud() {
    let bench = restarted(1000);
    bench.cloud.ensure_takes(Duration::from_secs(60));
    sleep(Duration::from_secs(20)).await;
    assert_eq!(ensured(&bench), 10, "half of the workers");
    bench.has(service("web")).await;
    bench.has(changed(&numbered(900), "6")).await;
    let calls: Vec<_> = bench
        .cloud
        .calls()
        .into_iter()
        .filter(|call| call.starts_with("ensure"))
        .collect();
    assert_eq!(calls[10..], ["ensure web n1", "ensure web-0900 n1"]);
}

#[tokio::test(start_paused = true)]
async fn node_changes_reach_load_balancers_not_checked_yet() {
    let bench = restarted(40);
    sleep(Duration::from_secs(2)).await;
    let checked = ensured(&bench);
    bench.calls();
    bench.has_node(plain_node("n2")).await;

    let calls = bench.calls();
    let updates = calls
        .iter()
        .filter(|call| call.starts_with("update web-"))
        .count();
    assert!(
        calls.iter().all(|call| call.ends_with(" n1,n2")),
        "{calls:?}"
    );
    // A check that ran in the meantime has sent the new node too.
    assert!(
        updates >= 39 && calls.len() == 40,
        "{checked} were checked before: {calls:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_service_deleted_before_its_check_loses_its_load_balancer() {
    let bench = restarted(40);
    wait().await;
    bench.calls();
    bench.controller.services.apply(with(
        &numbered(39),
        &json!({"metadata": {"resourceVersion": "6", "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    ));
    bench.controller.services.delete("ns/web-0038");
    wait().await;

    let mut calls = bench.calls();
    calls.sort();
    assert_eq!(
        calls,
        [
            "delete web-0038 uid-0038",
            "delete web-0039 uid-0039",
            "get web-0039"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_check_is_retried_as_a_check() {
    let bench = restarted(1);
    bench
        .cloud
        .ensure
        .lock()
        .unwrap()
        .push_back(Err(CloudError::Unavailable("down".into())));
    sleep(Duration::from_secs(4)).await;
    assert_eq!(ensured(&bench), 1);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(ensured(&bench), 2);
    assert!(
        !bench.reasons().contains(&"EnsuringLoadBalancer".to_owned()),
        "it is still a check"
    );
}

// Holds: S-05, S-12
#[tokio::test(start_paused = true)]
async fn drift_in_the_cloud_is_fixed_by_the_next_check() {
    let bench = bench();
    bench.serves().await;
    let before = bench.api.requests().len();
    sleep(Duration::from_secs(29 * 60)).await;
    assert_eq!(bench.calls(), Vec::<String>::new());
    sleep(Duration::from_secs(60)).await;
    assert_eq!(bench.calls(), ["ensure web n1"]);
    assert_eq!(
        bench.api.requests().len(),
        before,
        "nothing to do: no write and no event"
    );

    let moved = LoadBalancerStatus {
        ingress: vec![Ingress {
            ip: Some("192.0.2.9".into()),
            ..Ingress::default()
        }],
    };
    bench.cloud.ensure.lock().unwrap().push_back(Ok(moved));
    sleep(Duration::from_secs(30 * 60)).await;
    let written = &bench.api.requests()[before..];
    assert_eq!(
        written[0].body["status"],
        json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.9"}]}})
    );
    assert_eq!(bench.reasons().last().unwrap(), "EnsuredLoadBalancer");
}

// Holds: S-05
#[tokio::test(start_paused = true)]
async fn without_a_period_there_is_no_check() {
    let bench = bench_with(ServiceOptions {
        check_period: None,
        ..ServiceOptions::default()
    });
    bench.serves().await;
    sleep(Duration::from_secs(3 * 3600)).await;
    assert_eq!(bench.calls(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_new_plugin_checks_failed_services_first() {
    let bench = restarted(100);
    sleep(Duration::from_secs(120)).await;
    bench
        .cloud
        .ensure
        .lock()
        .unwrap()
        .push_back(Err(CloudError::Invalid("no UDP".into())));
    bench.has(service("web")).await;
    bench.calls();
    bench.controller.recheck();
    wait().await;
    let calls = bench.calls();
    assert!(calls.contains(&"ensure web n1".to_owned()), "{calls:?}");
    assert!(calls.len() <= 6, "{calls:?}");
}

// Holds: S-39
#[tokio::test(start_paused = true)]
async fn a_failed_check_is_retried_on_time_before_other_checks() {
    for error in [
        CloudError::InProgress(retry_after(10)),
        CloudError::Throttled(retry_after(10)),
    ] {
        let bench = restarted(1000);
        bench
            .cloud
            .ensure
            .lock()
            .unwrap()
            .push_back(Err(error.clone()));
        sleep(Duration::from_millis(9900)).await;
        let first = bench
            .cloud
            .calls()
            .into_iter()
            .find(|call| call.starts_with("ensure"))
            .unwrap();
        let tries = || {
            bench
                .cloud
                .calls()
                .iter()
                .filter(|call| **call == first)
                .count()
        };
        assert_eq!(tries(), 1, "{error}");
        sleep(Duration::from_millis(200)).await;
        assert_eq!(tries(), 2, "{error}");
    }
}

// Holds: S-21, S-29
#[tokio::test(start_paused = true)]
async fn missing_nodes_get_one_event_per_change() {
    let bench = bench();
    bench
        .cloud
        .ensure
        .lock()
        .unwrap()
        .push_back(Err(CloudError::InProgress(retry_after(10))));
    bench
        .cloud
        .ensure
        .lock()
        .unwrap()
        .push_back(Err(CloudError::Denied("no key".into())));
    bench.has(service("web")).await;
    sleep(Duration::from_secs(60)).await;
    bench.has(served("2")).await;
    sleep(Duration::from_secs(6 * 3600)).await;
    assert!(ensured_web(&bench) > 10, "it is checked each half hour");
    let once = [
        "EnsuringLoadBalancer",
        "UnAvailableLoadBalancer",
        "SyncLoadBalancerFailed",
        "EnsuredLoadBalancer",
    ];
    assert_eq!(bench.reasons(), once);
}

fn ensured_web(bench: &Bench) -> usize {
    bench
        .cloud
        .calls()
        .iter()
        .filter(|call| call.starts_with("ensure web"))
        .count()
}

#[tokio::test(start_paused = true)]
async fn a_long_operation_gets_events_and_is_counted() {
    let bench = bench();
    bench.has_node(plain_node("n1")).await;
    let at_it = || Err(CloudError::InProgress(retry_after(30)));
    (0..100).for_each(|_| bench.cloud.ensure.lock().unwrap().push_back(at_it()));
    bench.has(service("web")).await;
    sleep(Duration::from_secs(9 * 60 + 50)).await;
    assert_eq!(bench.reasons(), ["EnsuringLoadBalancer"]);
    sleep(Duration::from_secs(20)).await;
    let (reason, message) = bench.events().pop().unwrap();
    assert_eq!(reason, "StillInProgress");
    assert!(
        message.starts_with("An operation on the load balancer has not finished after 10 minutes"),
        "{message}"
    );
    let long = || bench.metric("skydock_long_in_progress{controller=\"service\"}");
    assert_eq!(
        long(),
        ["skydock_long_in_progress{controller=\"service\"} 1"]
    );
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(
        long(),
        ["skydock_long_in_progress{controller=\"service\"} 0"]
    );
    assert_eq!(
        bench
            .reasons()
            .iter()
            .filter(|reason| *reason == "StillInProgress")
            .count(),
        2,
        "after 40 minutes too"
    );
    assert_eq!(bench.reasons().last().unwrap(), "EnsuredLoadBalancer");
}
