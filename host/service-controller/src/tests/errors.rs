//! The consequences of each error of the cloud, for each kind of call.

use super::*;

/// The five kinds of calls.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Ensure,
    Get,
    Delete,
    Update,
    /// Deletion for a Service that has disappeared.
    Gone,
}

const WAYS: &[Way] = &[Way::Ensure, Way::Get, Way::Delete, Way::Update, Way::Gone];

/// Observed consequences.
#[derive(Debug, PartialEq)]
struct Seen {
    /// Milliseconds until the retry; `None` if there is none for longer than any back-off.
    again: Option<u128>,
    warned: bool,
    counted: bool,
}

/// Makes one call fail, and returns the consequences.
async fn seen(way: Way, error: &CloudError) -> Seen {
    let bench = bench_with(ServiceOptions {
        check_period: None,
        ..ServiceOptions::default()
    });
    if way == Way::Ensure {
        bench.has_node(plain_node("n1")).await;
    } else {
        bench.serves().await;
    }
    bench.cloud.times.lock().unwrap().clear();
    let error = error.clone();
    match way {
        Way::Ensure => bench.cloud.ensure.lock().unwrap().push_back(Err(error)),
        Way::Get => bench.cloud.get.lock().unwrap().push_back(Err(error)),
        Way::Delete | Way::Gone => bench.cloud.delete.lock().unwrap().push_back(Err(error)),
        Way::Update => bench.cloud.update.lock().unwrap().push_back(Err(error)),
    }
    match way {
        Way::Ensure => bench.has(service("web")).await,
        Way::Get | Way::Delete => bench.has(deleted("3")).await,
        Way::Update => bench.has_node(plain_node("n2")).await,
        Way::Gone => bench.controller.services.delete("ns/web"),
    }
    sleep(Duration::from_secs(310)).await;
    let times = std::mem::take(&mut *bench.cloud.times.lock().unwrap());
    let mut calls = bench.calls().into_iter().zip(times);
    let (failing, retried) = match way {
        Way::Ensure => ("ensure", "ensure"),
        Way::Get => ("get", "get"),
        Way::Delete | Way::Gone => ("delete", "delete"),
        Way::Update => ("update", "ensure"),
    };
    let (_, failed) = calls.find(|(call, _)| call.starts_with(failing)).unwrap();
    let next = calls.find(|(call, _)| call.starts_with(retried));
    let reason = match way {
        Way::Update => "UpdateLoadBalancerFailed",
        Way::Gone => "DeleteLoadBalancerFailed",
        _ => "SyncLoadBalancerFailed",
    };
    let failures: Vec<_> = bench
        .reasons()
        .into_iter()
        .filter(|reason| reason.ends_with("Failed"))
        .collect();
    assert!(
        failures.iter().all(|failure| failure == reason),
        "{way:?}: {failures:?}"
    );
    Seen {
        // Timers are only accurate to the millisecond.
        again: next.map(|(_, at)| (at - failed).as_millis() / 10 * 10),
        warned: !failures.is_empty(),
        counted: !bench.metric("skydock_controller_errors_total").is_empty(),
    }
}

// Holds: S-24, S-26, S-30, S-31, S-39, S-40, S-44, S-50, S-51
#[tokio::test(start_paused = true)]
async fn each_error_decides_on_retry_and_warning_for_each_call() {
    let text = || "why".to_owned();
    let never = [None; 5];
    let delay = [Some(42_000); 5];
    // A failed update of nodes is followed by `ensure` at once, which has the back-off.
    let back_off = [Some(5000), Some(5000), Some(5000), Some(0), Some(5000)];
    // Nothing else would delete the load balancer of a Service that has disappeared.
    let rejected = [None, None, None, None, Some(300_000)];
    let soon = [Some(100), Some(100), Some(100), Some(0), Some(100)];
    for (error, again, warned, counted) in [
        (CloudError::ImplementedElsewhere, never, false, false),
        (CloudError::Conflict(text()), soon, false, true),
        (CloudError::Throttled(retry_after(42)), delay, true, true),
        (CloudError::InProgress(retry_after(42)), delay, false, false),
        (CloudError::Denied(text()), back_off, true, true),
        (CloudError::Invalid(text()), rejected, true, true),
        (CloudError::Unavailable(text()), back_off, true, true),
        (CloudError::Internal(text()), back_off, true, true),
    ] {
        for (way, again) in WAYS.iter().copied().zip(again) {
            assert_eq!(
                seen(way, &error).await,
                Seen {
                    again,
                    warned,
                    counted
                },
                "{way:?}: {error}"
            );
        }
    }
    // A missing load balancer is recreated; but a deletion must report it as success.
    for (way, again, reported) in [
        (Way::Ensure, Some(5000), true),
        (Way::Get, None, false),
        (Way::Delete, Some(5000), true),
        (Way::Update, Some(0), false),
        (Way::Gone, Some(5000), true),
    ] {
        assert_eq!(
            seen(way, &CloudError::NotFound(text())).await,
            Seen {
                again,
                warned: reported,
                counted: reported
            },
            "{way:?}: not found"
        );
    }
}

// Holds: S-33
#[tokio::test(start_paused = true)]
async fn only_implemented_elsewhere_removes_the_finalizer_on_error() {
    let text = || "why".to_owned();
    for (error, goes) in [
        (CloudError::ImplementedElsewhere, true),
        (CloudError::NotFound(text()), false),
        (CloudError::InProgress(retry_after(60)), false),
        (CloudError::Throttled(retry_after(60)), false),
        (CloudError::Conflict(text()), false),
        (CloudError::Denied(text()), false),
        (CloudError::Invalid(text()), false),
    ] {
        let bench = bench();
        bench
            .cloud
            .delete
            .lock()
            .unwrap()
            .push_back(Err(error.clone()));
        bench.controller.services.apply(deleted("3"));
        sleep(Duration::from_millis(50)).await;
        assert_eq!(bench.api.calls().len(), usize::from(goes), "{error}");
    }
}

// Holds: S-38
#[tokio::test(start_paused = true)]
async fn success_resets_the_backoff() {
    let bench = bench();
    for version in ["1", "2"] {
        bench.cloud.times.lock().unwrap().clear();
        for _ in 0..2 {
            bench
                .cloud
                .ensure
                .lock()
                .unwrap()
                .push_back(Err(CloudError::Internal("boom".into())));
        }
        bench.has(changed(&service("web"), version)).await;
        sleep(Duration::from_secs(60)).await;
        let times = bench.cloud.times.lock().unwrap().clone();
        let waits: Vec<_> = times
            .windows(2)
            .map(|pair| (pair[1] - pair[0]).as_secs())
            .collect();
        assert_eq!(waits, [5, 10], "version {version}");
    }
}

// Holds: S-29
#[tokio::test(start_paused = true)]
async fn a_recovery_after_a_failure_event_gets_one_event() {
    let bench = bench_where(
        ServiceOptions::default(),
        &[plain_node("n1")],
        &[served("5")],
    );
    bench
        .cloud
        .ensure
        .lock()
        .unwrap()
        .push_back(Err(CloudError::Denied("no key".into())));
    sleep(Duration::from_secs(10)).await;
    // It is not known which nodes an earlier process has sent, and whether the failed call has
    // updated them.
    assert_eq!(
        bench.calls(),
        ["ensure web n1", "update web n1", "ensure web n1"]
    );
    assert_eq!(
        bench.reasons(),
        ["SyncLoadBalancerFailed", "EnsuredLoadBalancer"]
    );
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(bench.reasons().len(), 2);
    assert_eq!(bench.api.calls(), Vec::<String>::new());
}

// Holds: S-15
#[tokio::test(start_paused = true)]
async fn an_undeletable_old_load_balancer_does_not_block_the_new_one() {
    let bench = bench();
    bench.serves().await;
    bench
        .cloud
        .delete
        .lock()
        .unwrap()
        .push_back(Err(CloudError::Invalid("no such region".into())));
    bench
        .has(with(
            &service("web"),
            &json!({"metadata": {"uid": "uid-new", "resourceVersion": "9"}}),
        ))
        .await;
    assert_eq!(bench.calls(), ["delete web uid-web", "ensure web n1"]);

    let events = bench.events();
    let failed = events
        .iter()
        .find(|(reason, _)| reason == "DeleteLoadBalancerFailed")
        .unwrap();
    assert_eq!(
        failed.1,
        "Error deleting load balancer: invalid: no such region"
    );

    // It is remembered, gets no nodes, and is retried when the cloud may have changed.
    bench.has_node(plain_node("n2")).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(bench.calls(), ["update web n1,n2"]);

    bench.controller.recheck();
    wait().await;
    let mut calls = bench.calls();
    calls.sort();
    assert_eq!(calls, ["delete web uid-web", "ensure web n1,n2"]);
    assert_eq!(bench.controller.known.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failed_deletion_of_a_vanished_service_is_rechecked() {
    // With the default period of checks, and without checks.
    for (period, wait) in [
        (ServiceOptions::default().check_period, 30 * 60),
        (None, 300),
    ] {
        let bench = bench_with(ServiceOptions {
            check_period: period,
            ..ServiceOptions::default()
        });
        bench.serves().await;
        bench
            .cloud
            .delete
            .lock()
            .unwrap()
            .push_back(Err(CloudError::Invalid("no such region".into())));
        bench.controller.services.delete("ns/web");
        sleep(Duration::from_secs(wait - 5)).await;
        assert_eq!(bench.calls(), ["delete web uid-web"]);
        sleep(Duration::from_secs(10)).await;
        assert_eq!(bench.calls(), ["delete web uid-web"]);
        assert_eq!(bench.controller.known.len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_set_aside_is_retried_without_a_check_period() {
    let bench = bench_with(ServiceOptions {
        check_period: None,
        ..ServiceOptions::default()
    });
    bench.serves().await;
    let invalid = || Err(CloudError::Invalid("no such region".into()));
    bench
        .cloud
        .delete
        .lock()
        .unwrap()
        .extend([invalid(), invalid()]);
    bench
        .has(with(
            &service("web"),
            &json!({"metadata": {"uid": "uid-new", "resourceVersion": "9"}}),
        ))
        .await;
    assert_eq!(bench.calls(), ["delete web uid-web", "ensure web n1"]);

    for _ in 0..2 {
        sleep(Duration::from_secs(301)).await;
        assert_eq!(bench.calls(), ["delete web uid-web"]);
    }
    sleep(Duration::from_secs(3600)).await;
    assert_eq!((bench.calls(), bench.controller.known.len()), (vec![], 1));
}
