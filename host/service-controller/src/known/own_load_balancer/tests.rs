use serde_json::json;
use skydock_controller_base::{
    objects::constants::{ANNOTATION_CLASS, FINALIZER},
    testing::{service, with},
};

use super::*;
use crate::{
    attempt::testing::{OLD, state, status},
    known::state::LoadBalancerPhase,
};

// Holds: S-24
#[test]
fn what_is_known_of_the_load_balancer_at_a_hand_over() {
    use OwnLoadBalancer::{Known, None, Possible};
    let finalizer = json!({"metadata": {"finalizers": [FINALIZER]}});
    let class = json!({"spec": {"loadBalancerClass": "a.io/x"}});
    let annotation = json!({"metadata": {"annotations": {ANNOTATION_CLASS: "a.io/x@uid-web"}}});
    let plain: Service = service("web");
    let with_finalizer = with(&with(&plain, &finalizer), &class);
    let live = with(&with_finalizer, &annotation);
    let removed = with(&live, &json!({"metadata": {"finalizers": null}}));
    for (what, service, expected) in [
        ("no finalizer", plain, [None; 4]),
        (
            "finalizer",
            with_finalizer,
            [Possible, Possible, Known, Known],
        ),
        ("live annotation", live, [Known, Possible, Known, Known]),
        ("removed", removed, [Known, None, Known, None]),
    ] {
        let all = [
            AddedBy::Unknown,
            AddedBy::MaybeOthers,
            AddedBy::ThisProcess,
            AddedBy::ThisProcessAfterOthers,
        ];
        for (added_by, expected) in all.into_iter().zip(expected) {
            let before = State {
                finalizer_added_by: added_by,
                ..state(LoadBalancerPhase::Present, OLD)
            };
            let own = OwnLoadBalancer::of(&service, &before);
            assert_eq!(own, expected, "{what} {added_by:?}");

            let written = State {
                written_status: Some(status("192.0.2.1")),
                ..before.clone()
            };
            let own = OwnLoadBalancer::of(&service, &written);
            assert_eq!(own, Known, "{what} {added_by:?}");

            let absent = State {
                phase: LoadBalancerPhase::Absent,
                ..written
            };
            let own = OwnLoadBalancer::of(&service, &absent);
            assert_eq!(own, None, "{what} {added_by:?}");
        }
    }
}
