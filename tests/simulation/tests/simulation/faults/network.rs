//! Pod CIDRs and routes while nodes are registered and deleted.

use std::{collections::BTreeMap, time::Duration};

use rand::{SeedableRng as _, rngs::StdRng};
use skydock_cloud::CloudError;
use skydock_devplane::{Fault, Faults, Rule, Verb};
use skydock_simulation::{ApiTrouble, Mishap, Step, Trouble, USER_AGENT};

use super::{cluster, settled};

const NODES: [&str; 4] = ["n0", "n1", "n2", "n3"];

/// Returns steps that replace all possible nodes one after the other, so that each Pod CIDR and its
/// route move to another node.
fn replacement() -> Vec<Step> {
    let mut steps = vec![
        Step::Register {
            node: "n2",
            with_id: false,
        },
        Step::Register {
            node: "n3",
            with_id: true,
        },
    ];
    for (index, node) in NODES.into_iter().enumerate() {
        steps.push(Step::DeleteNode(node));
        steps.push(Step::Wait(Duration::from_millis(400 * index as u64)));
    }
    steps.extend([
        Step::Vanish("n0"),
        Step::Register {
            node: "n0",
            with_id: false,
        },
        Step::LoseRoutes("n1"),
        Step::Blackhole("n2"),
        Step::StrayRoute {
            cidr: "10.244.0.0/23",
            node: None,
        },
        Step::Readdress("n3"),
        Step::Wait(Duration::from_secs(10)),
    ]);
    steps
}

#[tokio::test(start_paused = true)]
async fn pod_cidrs_and_routes_survive_any_api_server_trouble() {
    for trouble in ApiTrouble::ALL {
        let mut world = cluster().await;
        world.step(&Step::Api { trouble, seed: 5 }).await.unwrap();
        world.steps(&replacement()).await.unwrap();
        world
            .settle()
            .await
            .unwrap_or_else(|wrong| panic!("{trouble:?}: {wrong}"));
    }
}

#[tokio::test(start_paused = true)]
async fn pod_cidrs_and_routes_survive_cut_and_expired_watches() {
    for step in [Step::CutWatches, Step::Compact] {
        let mut world = cluster().await;
        for change in replacement() {
            world.steps(&[change, step.clone()]).await.unwrap();
        }
        settled(&mut world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_killed_at_any_moment_leaves_one_cidr_and_route_each() {
    // Pod CIDR, 100 ms in which changes are batched, list, create, condition: about 300 ms.
    for moment in (0..500).step_by(20) {
        for change in [
            Step::Register {
                node: "n2",
                with_id: true,
            },
            Step::DeleteNode("n1"),
            Step::DeleteNode("n0"),
        ] {
            let mut world = cluster().await;
            world.step(&change).await.unwrap();
            world
                .step(&Step::Wait(Duration::from_millis(moment)))
                .await
                .unwrap();
            world
                .step(&Step::Kill {
                    down: Duration::from_secs(3),
                })
                .await
                .unwrap();
            world
                .settle()
                .await
                .unwrap_or_else(|wrong| panic!("{change:?}, killed after {moment} ms: {wrong}"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_killed_after_half_of_the_routes_completes_them() {
    for call in ["create-routes", "delete-routes"] {
        for mishap in [
            Mishap::HalfDone(CloudError::Unavailable("no".to_owned())),
            Mishap::AnswerLost,
        ] {
            let mut world = cluster().await;
            world.cloud().trouble(Trouble::always(call, mishap.clone()));
            let kill = Step::Kill {
                down: Duration::from_secs(3),
            };
            world
                .steps(&[
                    Step::DeleteNode("n0"),
                    Step::Wait(Duration::from_millis(600)),
                    kill,
                ])
                .await
                .unwrap();
            assert!(
                world.cloud().met()[mishap.name()] > 0,
                "{call}: {:?}",
                world.cloud().met()
            );
            world
                .settle()
                .await
                .unwrap_or_else(|wrong| panic!("{call} {mishap:?}: {wrong}"));
        }
    }
}

/// There are as many Pod CIDRs as nodes, so that a lost one is noticed.
#[tokio::test(start_paused = true)]
async fn no_pod_cidr_is_lost_when_nodes_are_replaced_unseen() {
    let mut world = cluster().await;
    for seed in 0..10 {
        world
            .step(&Step::Api {
                trouble: ApiTrouble::LostAnswers,
                seed,
            })
            .await
            .unwrap();
        world.steps(&replacement()).await.unwrap();
        world
            .step(&Step::Api {
                trouble: ApiTrouble::Rejected,
                seed,
            })
            .await
            .unwrap();
        world
            .steps(&[
                Step::Compact,
                Step::DeleteNode("n1"),
                Step::DeleteNode("n2"),
                Step::DeleteNode("n1"),
            ])
            .await
            .unwrap();
        world.step(&Step::ApiWell).await.unwrap();
        world
            .steps(&[Step::Wait(Duration::from_secs(30))])
            .await
            .unwrap();
    }
    settled(&mut world).await;
}

#[tokio::test(start_paused = true)]
async fn external_route_changes_are_fixed_by_the_next_check() {
    for change in [
        Step::LoseRoutes("n0"),
        Step::Blackhole("n1"),
        Step::Readdress("n0"),
        Step::StrayRoute {
            cidr: "10.244.3.0/24",
            node: Some("n0"),
        },
        Step::StrayRoute {
            cidr: "fd00:10:244::/62",
            node: None,
        },
    ] {
        let mut world = cluster().await;
        world.step(&change).await.unwrap();
        let took = world
            .settle()
            .await
            .unwrap_or_else(|wrong| panic!("{change:?}: {wrong}"));
        assert!(
            took > Duration::ZERO && took < Duration::from_secs(320),
            "{change:?}: {took:?}"
        );
        assert_eq!(world.cloud().met(), BTreeMap::new(), "{change:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_route_is_created_until_the_old_one_is_deleted() {
    let mut world = cluster().await;
    let unavailable = Mishap::Rejected(CloudError::Unavailable("no".to_owned()));
    world
        .cloud()
        .trouble(Trouble::always("delete-routes", unavailable));
    world
        .steps(&[Step::Blackhole("n0"), Step::Wait(Duration::from_secs(600))])
        .await
        .unwrap();
    settled(&mut world).await;
    let met = world.cloud().met();
    assert!(met["unavailable"] > 5 && met.len() == 1, "{met:?}");
}

#[tokio::test(start_paused = true)]
async fn temporary_errors_are_retried_before_the_next_route_check() {
    let new_node = [
        Step::Register {
            node: "n2",
            with_id: true,
        },
        Step::Wait(Duration::from_secs(15)),
    ];
    for call in ["list-routes", "create-routes"] {
        let mut world = cluster().await;
        let unavailable = Mishap::Rejected(CloudError::Unavailable("no".to_owned()));
        world
            .cloud()
            .trouble(Trouble::always(call, unavailable).times(2));
        world.steps(&new_node).await.unwrap();
        let took = settled(&mut world).await;
        assert_eq!(world.cloud().met(), BTreeMap::from([("unavailable", 2)]));
        assert!(took < Duration::from_secs(30), "{call}: {took:?}");
    }
    // The patches of the Pod CIDR (none is spare), of the node's labels and taints, and of the
    // condition.
    for fault in [Fault::Conflict, Fault::InternalError] {
        let mut world = cluster().await;
        let failing = Rule::new(fault.clone())
            .verbs(&[Verb::Patch])
            .resource("nodes")
            .chance(0.7);
        let faults = Faults {
            rules: vec![failing],
            user_agent: USER_AGENT.to_owned(),
        };
        world.plane().faults().set(faults, StdRng::seed_from_u64(1));
        world
            .steps(&[Step::Register {
                node: "n3",
                with_id: true,
            }])
            .await
            .unwrap();
        world.steps(&new_node).await.unwrap();
        let took = settled(&mut world).await;
        assert!(
            world.plane().faults().met()[fault.name()] >= 4,
            "{:?}",
            world.plane().faults().met()
        );
        assert!(took < Duration::from_secs(60), "{fault:?}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_freed_pod_cidr_is_assigned_at_once() {
    let mut world = cluster().await;
    for node in ["n2", "n3", "n4"] {
        world
            .steps(&[Step::Register {
                node,
                with_id: true,
            }])
            .await
            .unwrap();
    }
    // At this time, the host would retry on its own only every few minutes.
    world
        .steps(&[
            Step::Wait(Duration::from_secs(900)),
            Step::PowerOff("n0"),
            Step::DeleteNode("n0"),
        ])
        .await
        .unwrap();
    let took = settled(&mut world).await;
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_false_empty_route_list_changes_no_routes() {
    let mut world = cluster().await;
    let routes = world.cloud().routes();
    world
        .cloud()
        .trouble(Trouble::always("list-routes", Mishap::Lie));
    world
        .steps(&[Step::Wait(Duration::from_secs(1000))])
        .await
        .unwrap();
    assert!(world.cloud().met()["lie"] >= 3);
    assert_eq!(world.cloud().routes(), routes);
    settled(&mut world).await;
}
