//! A cloud that fails or gives wrong answers.

use std::time::Duration;

use skydock_cloud::{CloudError, Retry};
use skydock_simulation::{ApiTrouble, Mishap, Step, Trouble};

use super::{cluster, settled, work};

#[tokio::test(start_paused = true)]
async fn one_false_absent_answer_does_not_delete_a_node() {
    let mut world = cluster().await;
    world.cloud().trouble(Trouble::always("check", Mishap::Lie));
    world
        .steps(&[
            Step::Silence("n0"),
            Step::PowerOff("n1"),
            Step::Wait(Duration::from_secs(600)),
        ])
        .await
        .unwrap();
    assert!(world.cloud().met()["lie"] > 50, "{:?}", world.cloud().met());
    settled(&mut world).await;
}

#[tokio::test(start_paused = true)]
async fn no_cloud_error_deletes_a_node() {
    let text = || "no".to_owned();
    let retry = || Retry {
        after: Duration::from_secs(1),
        message: text(),
    };
    for (error, least) in [
        (CloudError::NotFound(text()), 10),
        (CloudError::ImplementedElsewhere, 1),
        (CloudError::Conflict(text()), 10),
        (CloudError::Throttled(retry()), 10),
        (CloudError::InProgress(retry()), 10),
        (CloudError::Denied(text()), 10),
        (CloudError::Invalid(text()), 1),
        (CloudError::Unavailable(text()), 10),
        (CloudError::Internal(text()), 10),
    ] {
        let mut world = cluster().await;
        world
            .cloud()
            .trouble(Trouble::always("check", Mishap::Rejected(error.clone())));
        world
            .steps(&[
                Step::Silence("n0"),
                Step::PowerOff("n1"),
                Step::Wait(Duration::from_secs(600)),
            ])
            .await
            .unwrap();
        let met = world.cloud().met().values().sum::<u64>();
        assert!(met >= least, "{error}: {met}");
        if least == 1 {
            // The host does not retry until the node changes, even if the cloud could answer.
            world.cloud().trouble(Trouble::default());
            let change = |node| Step::Exclude { node, out: true };
            world.steps(&[change("n0"), change("n1")]).await.unwrap();
        }
        world
            .settle()
            .await
            .unwrap_or_else(|wrong| panic!("{error}: {wrong}"));
    }
}

/// Tests every function of the cloud with one kind of failure.
async fn every_call(mishap: Mishap) {
    for call in [
        "ensure",
        "update",
        "delete",
        "get",
        "describe",
        "check",
        "locate",
        "list-routes",
        "create-routes",
        "delete-routes",
    ] {
        let mut world = cluster().await;
        world
            .cloud()
            .trouble(Trouble::always(call, mishap.clone()).times(3));
        world.steps(&work()).await.unwrap();
        let took = world
            .settle()
            .await
            .unwrap_or_else(|wrong| panic!("{call} {mishap:?}: {wrong}"));
        assert!(
            took < Duration::from_secs(1200),
            "{call} {mishap:?}: {took:?}"
        );
    }
}

macro_rules! every_call_can {
    ($($name:ident: $mishap:expr;)+) => {
        /// A separate test for each failure, so that they run in parallel.
        mod every_call_of_the_cloud_can_go_wrong_and_nothing_is_left_over {
            use super::*;

            $(#[tokio::test(start_paused = true)]
            async fn $name() {
                every_call($mishap).await;
            })+
        }
    };
}

fn no() -> String {
    "no".to_owned()
}

fn retry() -> Retry {
    Retry {
        after: Duration::from_secs(2),
        message: no(),
    }
}

every_call_can! {
    lose_a_race: Mishap::Rejected(CloudError::Conflict(no()));
    be_throttled: Mishap::Rejected(CloudError::Throttled(retry()));
    be_denied: Mishap::Rejected(CloudError::Denied(no()));
    be_unavailable: Mishap::Rejected(CloudError::Unavailable(no()));
    fail_inside: Mishap::Rejected(CloudError::Internal(no()));
    lose_its_answer: Mishap::AnswerLost;
    be_half_done_and_fail: Mishap::HalfDone(CloudError::Unavailable(no()));
    be_half_done_and_go_on: Mishap::HalfDone(CloudError::InProgress(retry()));
    hang_before_it_is_done: Mishap::Hangs { done: false };
    hang_after_it_is_done: Mishap::Hangs { done: true };
    be_slow: Mishap::Slow(Duration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn a_host_killed_after_half_done_work_leaves_nothing_behind() {
    let half = || Mishap::HalfDone(CloudError::Unavailable("no".to_owned()));
    for (call, before, after) in [
        ("ensure", Step::Create("s1"), Step::Delete("s1")),
        (
            "ensure",
            Step::Create("s1"),
            Step::Type {
                service: "s1",
                balanced: false,
            },
        ),
        (
            "delete",
            Step::Type {
                service: "s0",
                balanced: false,
            },
            Step::Type {
                service: "s0",
                balanced: true,
            },
        ),
        (
            "delete",
            Step::Type {
                service: "s0",
                balanced: false,
            },
            Step::Delete("s0"),
        ),
        ("delete", Step::Delete("s0"), Step::Swap),
    ] {
        let mut world = cluster().await;
        world.cloud().trouble(Trouble::always(call, half()));
        let kill = Step::Kill {
            down: Duration::from_secs(3),
        };
        let wait = Step::Wait(Duration::from_secs(1));
        world
            .steps(&[before.clone(), wait, kill, after.clone()])
            .await
            .unwrap();
        world
            .settle()
            .await
            .unwrap_or_else(|wrong| panic!("{before:?}, {after:?}: {wrong}"));
        assert!(world.cloud().met()["half done"] > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_recreated_node_is_not_deleted_for_its_old_instance() {
    // The answer about the old instance is on its way while the new one registers.
    for moment in (0..12_000).step_by(500) {
        let mut world = cluster().await;
        world.cloud().trouble(Trouble::always(
            "check",
            Mishap::Slow(Duration::from_secs(2)),
        ));
        let steps = [
            Step::Vanish("n0"),
            Step::Wait(Duration::from_millis(moment)),
            Step::Register {
                node: "n0",
                with_id: true,
            },
            Step::Silence("n0"),
            Step::Wait(Duration::from_secs(20)),
        ];
        world.steps(&steps).await.unwrap();
        settled(&mut world).await;
    }
}

/// The kubelets stop reporting one after the other.
#[tokio::test(start_paused = true)]
async fn a_full_outage_does_not_exceed_the_node_deletion_limit() {
    for trouble in ApiTrouble::ALL {
        let mut world = cluster().await;
        let more = [
            Step::Register {
                node: "n2",
                with_id: true,
            },
            Step::Register {
                node: "n3",
                with_id: true,
            },
        ];
        world.steps(&more).await.unwrap();
        settled(&mut world).await;
        world.step(&Step::Api { trouble, seed: 3 }).await.unwrap();
        world
            .steps(&[Step::Outage(Duration::from_secs(300))])
            .await
            .unwrap();
        world
            .settle()
            .await
            .unwrap_or_else(|wrong| panic!("{trouble:?}: {wrong}"));
    }
}

#[tokio::test(start_paused = true)]
async fn too_many_absent_nodes_stay_until_an_operator_acts() {
    let mut world = cluster().await;
    world
        .steps(&[
            Step::Register {
                node: "n2",
                with_id: true,
            },
            Step::Wait(Duration::from_secs(5)),
        ])
        .await
        .unwrap();
    world
        .steps(&[Step::Vanish("n0"), Step::Vanish("n1")])
        .await
        .unwrap();
    // The operator of this world acts after half an hour.
    let took = settled(&mut world).await;
    assert!(took > Duration::from_secs(1800), "{took:?}");
}

// Holds: S-16, S-46
#[tokio::test(start_paused = true)]
async fn a_service_whose_ensure_fails_still_gets_its_nodes() {
    let text = || "no certificate".to_owned();
    let retry = || Retry {
        after: Duration::from_secs(30),
        message: text(),
    };
    for error in [
        CloudError::NotFound(text()),
        CloudError::Conflict(text()),
        CloudError::Throttled(retry()),
        CloudError::InProgress(retry()),
        CloudError::Denied(text()),
        CloudError::Invalid(text()),
        CloudError::Unavailable(text()),
        CloudError::Internal(text()),
    ] {
        let mut world = cluster().await;
        world
            .cloud()
            .trouble(Trouble::always("ensure", Mishap::Rejected(error.clone())));
        world
            .steps(&[
                Step::Port {
                    service: "s0",
                    port: 81,
                },
                Step::Wait(Duration::from_secs(300)),
            ])
            .await
            .unwrap();
        let behind = |world: &skydock_simulation::World| -> Vec<String> {
            let (_, balancer) = world.cloud().balancers().into_iter().next().unwrap();
            balancer.nodes.into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(behind(&world), ["n0", "n1"], "{error}");
        world
            .steps(&[
                Step::Register {
                    node: "n2",
                    with_id: true,
                },
                Step::Wait(Duration::from_secs(2)),
            ])
            .await
            .unwrap();
        assert_eq!(behind(&world), ["n0", "n1", "n2"], "{error}");
        world
            .steps(&[
                Step::Exclude {
                    node: "n0",
                    out: true,
                },
                Step::Wait(Duration::from_secs(2)),
            ])
            .await
            .unwrap();
        assert_eq!(behind(&world), ["n1", "n2"], "{error}");
    }
}
