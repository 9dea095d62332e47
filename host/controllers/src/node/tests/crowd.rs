//! Tests with many nodes at once: which nodes wait for others.

use std::collections::HashSet;

use super::*;

/// The deadline of a plugin's reading calls.
const DEADLINE: Duration = Duration::from_secs(30);

/// Creates the new nodes n0, n1, …, whose instances exist.
fn crowd(count: usize) -> Bench {
    let bench = bench();
    *bench.cloud.max_batch.lock().unwrap() = 100;
    for number in 0..count {
        bench.knows(&format!("n{number}"));
        bench
            .controller
            .context
            .nodes
            .apply(node(&format!("n{number}")));
    }
    bench
}

/// Returns the nodes whose taint was removed.
fn done(bench: &Bench) -> HashSet<String> {
    bench.controller.memory.initialized()
}

// Holds: N-18
#[tokio::test(start_paused = true)]
async fn a_thousand_conflicts_are_retried_within_seconds() {
    let bench = crowd(1000);
    for number in 0..1000 {
        // Without addresses, there is no first patch whose watch event would bring the node back at
        // once.
        let provider_id = Some(format!("fake://n{number}"));
        bench.says(
            &format!("n{number}"),
            Ok(Instance {
                provider_id,
                ..Instance::default()
            }),
        );
        bench.api.fail(
            "PATCH",
            &format!("/api/v1/nodes/n{number}"),
            409,
            "Conflict",
        );
    }
    bench.start();

    sleep(Duration::from_secs(2)).await;
    assert_eq!(done(&bench).len(), 1000);
    assert!(
        !bench
            .events()
            .iter()
            .any(|(reason, _)| reason == "FailedToInitialize")
    );
}

#[tokio::test(start_paused = true)]
async fn trapping_and_late_nodes_delay_no_other_new_node() {
    let bench = crowd(100);
    bench
        .cloud
        .breaks("n13", Duration::ZERO, CloudError::ImplementedElsewhere);
    bench.cloud.breaks(
        "n77",
        DEADLINE,
        CloudError::Unavailable("it gave no answer".into()),
    );
    bench.start();
    sleep(DEADLINE + Duration::from_secs(1)).await;
    let done = done(&bench);
    let left: Vec<_> = (0..100)
        .map(|number| format!("n{number}"))
        .filter(|name| !done.contains(name))
        .collect();
    assert_eq!(left, ["n13", "n77"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_breaks_every_zones_call_delays_no_other() {
    let bench = crowd(100);
    *bench.cloud.capabilities.lock().unwrap() =
        Some([Capability::Instances, Capability::Zones].into());
    *bench.cloud.locate_breaks.lock().unwrap() = vec!["n42".to_owned()];
    bench.start();
    sleep(Duration::from_secs(1)).await;
    let done = done(&bench);
    assert!(done.len() == 99 && !done.contains("n42"), "{}", done.len());
}

#[tokio::test(start_paused = true)]
async fn late_single_nodes_take_no_worker_from_new_nodes() {
    let bench = crowd(0);
    for number in 0..10 {
        let name = format!("late{number}");
        bench.cloud.breaks(
            &name,
            DEADLINE,
            CloudError::Unavailable("it gave no answer".into()),
        );
        bench.controller.context.nodes.apply(node(&name));
    }
    bench.start();
    sleep(Duration::from_secs(600)).await;
    for number in 0..20 {
        let name = format!("n{number}");
        bench.knows(&name);
        bench.controller.context.nodes.apply(node(&name));
        sleep(Duration::from_secs(1)).await;
        assert!(done(&bench).contains(&name), "{name} waits");
    }
}

#[tokio::test(start_paused = true)]
async fn new_nodes_neither_wait_for_rechecks_nor_share_their_calls() {
    let bench = crowd(0);
    *bench.cloud.look_up.lock().unwrap() = Duration::from_millis(200);
    for number in 0..1000 {
        let name = format!("old{number}");
        bench.says(&name, Ok(Instance::default()));
        bench.controller.context.nodes.apply(initialized(&name));
    }
    bench.start();
    sleep(Duration::from_secs(30)).await;
    for number in 0..10 {
        let name = format!("n{number}");
        bench.knows(&name);
        bench.controller.context.nodes.apply(node(&name));
        sleep(Duration::from_secs(1)).await;
        assert!(done(&bench).contains(&name), "{name} waits");
    }

    let calls = bench.cloud.calls();
    assert!(
        calls.len() < 30,
        "and re-checks go in full batches: {}",
        calls.len()
    );

    let has = |call: &str, what: &str| {
        call.split([' ', ','])
            .skip(1)
            .any(|name| name.starts_with(what))
    };
    assert!(
        !calls.iter().any(|call| has(call, "old") && has(call, "n")),
        "{calls:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn all_nodes_are_queried_soon_after_an_outage() {
    let bench = crowd(2000);
    *bench.cloud.whole.lock().unwrap() = Some(CloudError::Unavailable("away".into()));
    bench.start();
    sleep(Duration::from_secs(60)).await;
    assert!(done(&bench).is_empty());
    *bench.cloud.whole.lock().unwrap() = None;
    // By then, the back-off has grown to about 40 s, and ends at a different time for each node.
    sleep(Duration::from_secs(90)).await;
    assert_eq!(done(&bench).len(), 2000);
}
