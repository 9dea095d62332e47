use std::time::Duration;

use super::*;

const NOW: Fingerprint = Fingerprint::of(1);

/// All phases, with: a load balancer exists, a request is unfinished, what to do about other
/// nodes.
const PHASES: &[(LoadBalancerPhase, bool, bool, Follow)] = &[
    (LoadBalancerPhase::Absent, false, false, Follow::Nothing),
    (LoadBalancerPhase::Present, true, false, Follow::Update),
    (
        LoadBalancerPhase::Ensuring { exists: false },
        false,
        true,
        Follow::Retry,
    ),
    (
        LoadBalancerPhase::Ensuring { exists: true },
        true,
        true,
        Follow::Update,
    ),
    (
        LoadBalancerPhase::Rejected {
            exists: false,
            requested: false,
        },
        false,
        false,
        Follow::Update,
    ),
    (
        LoadBalancerPhase::Rejected {
            exists: false,
            requested: true,
        },
        false,
        true,
        Follow::Update,
    ),
    (
        LoadBalancerPhase::Rejected {
            exists: true,
            requested: false,
        },
        true,
        false,
        Follow::Update,
    ),
    (
        LoadBalancerPhase::Rejected {
            exists: true,
            requested: true,
        },
        true,
        true,
        Follow::Update,
    ),
    (LoadBalancerPhase::Deleting, false, true, Follow::Nothing),
    (
        LoadBalancerPhase::LeftToOthers,
        false,
        false,
        Follow::Nothing,
    ),
];

// Holds: S-46, S-48
#[test]
fn the_phase_decides_what_other_nodes_need() {
    let (now, second) = (Instant::now(), Duration::from_secs(1));
    for &(phase, _, _, follow) in PHASES {
        for (sent, expected) in [
            (SentNodes::Unknown, follow),
            (SentNodes::Failed, follow),
            (SentNodes::Nodes(Fingerprint::of(2)), follow),
            (SentNodes::Nodes(NOW), Follow::Nothing),
            (SentNodes::Postponed(now + second), Follow::Nothing),
            (SentNodes::Postponed(now), follow),
        ] {
            let state = State {
                phase,
                sent,
                ..State::new(false)
            };
            assert_eq!(state.follow(NOW, now), expected, "{state:?}");
        }
    }
}

#[test]
fn what_the_provider_looks_at_decides_which_nodes_are_others() {
    const LABELED: Fingerprint = Fingerprint::with(1, 2);
    const MOVED: Fingerprint = Fingerprint::with(2, 2);
    for (current, node_fields, expected) in [
        (NOW, NodeFields::All, Follow::Nothing),
        (LABELED, NodeFields::Target, Follow::Nothing),
        (LABELED, NodeFields::All, Follow::Update),
        (MOVED, NodeFields::Target, Follow::Update),
        (MOVED, NodeFields::All, Follow::Update),
    ] {
        let state = State {
            sent: SentNodes::Nodes(NOW),
            node_fields,
            ..State::new(true)
        };
        assert_eq!(state.follow(current, Instant::now()), expected, "{state:?}");
        let same = state.has_sent(SentNodes::Nodes(current));
        assert_eq!(same, expected == Follow::Nothing, "{state:?}");
    }
}

#[test]
fn each_phase_knows_what_the_cloud_has() {
    for &(phase, exists, requested, _) in PHASES {
        assert_eq!(
            (phase.exists(), phase.requested()),
            (exists, requested),
            "{phase:?}"
        );
        assert_eq!(
            phase.rejected(),
            LoadBalancerPhase::Rejected { exists, requested },
            "{phase:?}"
        );
        assert_eq!(
            phase.ensuring(),
            LoadBalancerPhase::Ensuring { exists },
            "{phase:?}"
        );
        let vanished = phase.vanished();
        assert_eq!(
            (vanished.exists(), vanished.requested()),
            (false, requested),
            "{phase:?}"
        );
        assert_eq!(vanished.is_rejected(), phase.is_rejected(), "{phase:?}");
    }
}

#[test]
fn a_new_plugin_checks_unfinished_and_rejected_services_first() {
    for &(phase, _, requested, _) in PHASES {
        let finished = !requested && !matches!(phase, LoadBalancerPhase::Rejected { .. });
        let expected = if finished {
            Priority::Recheck
        } else {
            Priority::Change
        };
        let state = State {
            phase,
            ..State::new(false)
        };
        assert_eq!(state.recheck(), expected, "{phase:?}");
        let failed = State {
            unfinished_sync: Some(UnfinishedSync::default()),
            ..state
        };
        assert_eq!(failed.recheck(), Priority::Change, "{phase:?}");
    }
}

#[test]
fn a_service_with_an_address_has_a_load_balancer() {
    assert_eq!(
        (State::new(true).phase, State::new(false).phase),
        (LoadBalancerPhase::Present, LoadBalancerPhase::Absent)
    );
}

#[test]
fn each_start_is_announced_once_per_work() {
    let mut state = State::new(false);
    let mut announce = |what| state.begin(Some(what));
    assert!(announce(Announced::Ensuring) && !announce(Announced::Ensuring));
    assert!(announce(Announced::Deleting) && announce(Announced::Ensuring));
    state.unfinished_sync = None;
    assert!(state.begin(Some(Announced::Ensuring)));
}

#[test]
fn a_failure_shows_until_an_attempt_succeeds() {
    let in_phase = |phase| State {
        phase,
        ..State::new(false)
    };
    let rejected = LoadBalancerPhase::Rejected {
        exists: true,
        requested: false,
    };
    for (phase, health, after_failure) in [
        (LoadBalancerPhase::Absent, Health::Pending, Health::Failing),
        (LoadBalancerPhase::Present, Health::Ready, Health::Failing),
        (
            LoadBalancerPhase::Ensuring { exists: true },
            Health::Pending,
            Health::Failing,
        ),
        (rejected, Health::Failing, Health::Failing),
        (
            LoadBalancerPhase::Deleting,
            Health::Deleting,
            Health::Failing,
        ),
    ] {
        let mut state = in_phase(phase);
        assert_eq!(state.health(), Some(health), "{phase:?}");
        state.sent = SentNodes::Failed;
        assert_eq!(state.health(), Some(after_failure), "{phase:?}");

        let mut state = in_phase(phase);
        state.unfinished_sync().failed = true;
        assert_eq!(state.health(), Some(after_failure), "{phase:?}");
        state.finished(false);
        assert_eq!(state.health(), Some(health), "{phase:?}");
    }
    assert_eq!(in_phase(LoadBalancerPhase::LeftToOthers).health(), None);
}
