//! Decides what to do about a node: what it needs before the cloud is asked (`need`), and what is
//! written then (`initialize`, `repair`), and what metrics count (`states`). All functions are pure.
//!
//! A question to the cloud begins in `need`. What is written of the answer is a field of the result
//! of `initialize`, for a node that waits, or of `repair`, for one that is initialized; `addresses`
//! and `labels` have the rules that both use. `node/initialize.rs` and `node/keep.rs` write it.

pub mod addresses;
pub mod initialize;
pub mod labels;
pub mod need;
pub mod repair;
pub mod states;

use skydock_cloud::{Node, ProviderInfo};
use skydock_controller_base::objects::constants::TAINT_UNINITIALIZED;

/// Returns true if a node waits for initialization.
#[must_use]
pub fn uninitialized(node: &Node) -> bool {
    node.taints
        .iter()
        .any(|taint| taint.key == TAINT_UNINITIALIZED)
}

/// Returns true if a node is kept up to date: it is initialized and owned by this provider.
#[must_use]
pub fn is_reconciled(node: &Node, info: &ProviderInfo) -> bool {
    !uninitialized(node) && node.provider_id.as_ref().is_some_and(|id| info.owns(id))
}

#[cfg(test)]
mod tests {
    use skydock_cloud::{AddressKind, Instance, NodeAddress, Taint, TaintEffect};
    use skydock_controller_base::{
        objects::constants::{
            LABEL_INSTANCE_TYPE, LABEL_REGION, LABEL_REGION_BETA, LABEL_ZONE, LABEL_ZONE_BETA,
        },
        testing::{info, pairs},
    };

    use super::{
        addresses::ProvidedIpError,
        initialize::{Initialization, Rejection, initialize},
        need::{Need, need},
        repair::{Repair, SyncedFields, repair},
        states::{NodeStates, count},
        *,
    };

    fn tainted(effect: TaintEffect, provider_id: Option<&str>) -> Node {
        Node {
            name: "node0".into(),
            provider_id: provider_id.map(str::to_owned),
            taints: vec![Taint {
                key: TAINT_UNINITIALIZED.into(),
                value: "whatever".into(),
                effect,
            }],
            ..Node::default()
        }
    }

    #[test]
    fn nodes_are_counted_by_their_state() {
        let effect = TaintEffect::NoSchedule;
        let created = |creation_timestamp, node: Node| Node {
            creation_timestamp,
            ..node
        };
        let initialized = |id: &str| Node {
            provider_id: Some(id.to_owned()),
            ..Node::default()
        };
        let nodes = [
            created(300, tainted(effect, None)),
            created(200, tainted(effect, Some("fake://a"))),
            created(100, tainted(effect, Some("other://b"))),
            created(100, initialized("fake://c")),
            initialized("other://d"),
            Node::default(),
        ];
        let expected = NodeStates {
            uninitialized: 2,
            initialized: 2,
            foreign: 2,
            waits_since: Some(200),
        };
        assert_eq!(count(&nodes, &info()), expected);
        assert_eq!(count([], &info()), NodeStates::default());
    }

    fn fresh() -> Node {
        tainted(TaintEffect::NoSchedule, None)
    }

    fn known() -> Instance {
        Instance {
            provider_id: Some("fake://12345".into()),
            ..Instance::default()
        }
    }

    // Holds: N-07
    #[test]
    fn the_taint_key_alone_marks_a_node_as_uninitialized() {
        for effect in [
            TaintEffect::NoSchedule,
            TaintEffect::NoExecute,
            TaintEffect::PreferNoSchedule,
        ] {
            assert_eq!(
                need(&tainted(effect, None), &info(), false),
                Need::Initialization
            );
        }
        assert_eq!(need(&Node::default(), &info(), false), Need::Nothing);
    }

    // Holds: L-13, N-25, SEC-06
    #[test]
    fn a_node_of_another_provider_is_not_changed() {
        let foreign = tainted(TaintEffect::NoSchedule, Some("aws:///i-1"));
        assert_eq!(
            need(&foreign, &info(), true),
            Need::Foreign("aws:///i-1".into())
        );
        let labels = pairs(&[(LABEL_ZONE_BETA, "z")]);
        let initialized = Node {
            provider_id: Some("aws:///i-1".into()),
            labels,
            ..Node::default()
        };
        assert_eq!(need(&initialized, &info(), true), Need::Nothing);
    }

    // Holds: N-10
    #[test]
    fn a_node_without_provider_id_keeps_its_taint() {
        let error = initialize(&fresh(), &Instance::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cloud provider does not set node provider ID for node node0"
        );
    }

    // Holds: N-10, N-13
    #[test]
    fn an_existing_provider_id_is_kept() {
        let preset = tainted(TaintEffect::NoSchedule, Some("fake://preset"));
        assert_eq!(initialize(&preset, &known()).unwrap().provider_id, None);
        assert_eq!(
            initialize(&preset, &Instance::default()).unwrap(),
            Initialization::default()
        );
        assert_eq!(
            initialize(&fresh(), &known())
                .unwrap()
                .provider_id
                .as_deref(),
            Some("fake://12345")
        );
    }

    // Holds: N-12
    #[test]
    fn an_unknown_provided_ip_keeps_the_taint() {
        let mut node = fresh();
        node.annotations = pairs(&[("alpha.kubernetes.io/provided-node-ip", "10.0.0.2")]);

        let addresses = vec![NodeAddress {
            kind: AddressKind::InternalIp,
            address: "10.0.0.1".into(),
        }];
        let error = initialize(
            &node,
            &Instance {
                addresses,
                ..known()
            },
        )
        .unwrap_err();
        assert!(
            matches!(error, Rejection::ProvidedIp(ProvidedIpError::Unknown(_))),
            "{error}"
        );
    }

    /// The cases of upstream's Test_syncNode that are decided here; V1 providers do not exist in
    /// the plugin contract.
    // Holds: N-08, N-10, N-12, N-13
    #[test]
    fn upstreams_table_of_nodes_to_initialize() {
        let address = |kind, address: &str| NodeAddress {
            kind,
            address: address.to_owned(),
        };
        let internal = || address(AddressKind::InternalIp, "10.0.0.1");
        let external = || address(AddressKind::ExternalIp, "132.143.154.163");
        let cloud_name = || address(AddressKind::Hostname, "node0.cloud.internal");
        let own_name = || address(AddressKind::Hostname, "nodeoverriden");
        let all = || vec![cloud_name(), internal(), external()];
        let nameless = || vec![internal(), external()];
        let id = "fake://12345";
        // the cloud's ID and addresses, the ID and the provided IP of the node; the ID and the
        // addresses that are written
        for (cloud_id, addresses, node_id, provided, written_id, expected) in [
            (Some(id), all(), None, None, Some(id), Some(all())),
            (
                Some(id),
                nameless(),
                None,
                None,
                Some(id),
                Some(vec![internal(), external(), own_name()]),
            ),
            (Some(id), vec![], None, None, Some(id), None),
            (
                Some(id),
                all(),
                Some("fake://node0"),
                None,
                None,
                Some(all()),
            ),
            (None, all(), Some("fake://node0"), None, None, Some(all())),
            (
                Some(id),
                nameless(),
                Some("fake://node0"),
                Some("10.0.0.1"),
                None,
                Some(vec![internal(), external(), own_name()]),
            ),
        ] {
            let annotation = provided.map(|ip| {
                (
                    "alpha.kubernetes.io/provided-node-ip".to_owned(),
                    ip.to_owned(),
                )
            });
            let node = Node {
                addresses: vec![own_name()],
                annotations: annotation.into_iter().collect(),
                ..tainted(TaintEffect::NoSchedule, node_id)
            };
            let instance = Instance {
                provider_id: cloud_id.map(Into::into),
                addresses,
                ..Instance::default()
            };
            let plan = initialize(&node, &instance).unwrap();
            assert_eq!(
                (plan.provider_id.as_deref(), plan.addresses),
                (written_id, expected),
                "{node:?}"
            );
        }
        for (cloud_id, provided) in [
            (None, None),
            (Some(id), Some("invalid-ip")),
            (Some(id), Some("10.0.0.2")),
        ] {
            let annotation = provided.map(|ip: &str| {
                (
                    "alpha.kubernetes.io/provided-node-ip".to_owned(),
                    ip.to_owned(),
                )
            });
            let node = Node {
                annotations: annotation.into_iter().collect(),
                ..fresh()
            };
            let instance = Instance {
                provider_id: cloud_id.map(Into::into),
                addresses: all(),
                ..Instance::default()
            };
            assert!(
                initialize(&node, &instance).is_err(),
                "{cloud_id:?} {provided:?}"
            );
        }
    }

    // Holds: N-29, N-35
    #[test]
    fn only_own_initialized_nodes_are_updated() {
        for (node, expected) in [
            (
                Node {
                    provider_id: Some("fake://1".into()),
                    ..Node::default()
                },
                true,
            ),
            (tainted(TaintEffect::NoSchedule, Some("fake://1")), false),
            (
                Node {
                    provider_id: Some("aws:///i".into()),
                    ..Node::default()
                },
                false,
            ),
            (Node::default(), false),
        ] {
            assert_eq!(is_reconciled(&node, &info()), expected, "{node:?}");
        }
        let node = Node {
            annotations: pairs(&[("alpha.kubernetes.io/provided-node-ip", "10.0.0.9")]),
            ..Node::default()
        };

        let addresses = vec![NodeAddress {
            kind: AddressKind::InternalIp,
            address: "10.0.0.1".into(),
        }];
        let instance = Instance {
            addresses,
            zone: Some("z1".into()),
            ..Instance::default()
        };
        let plan = repair(
            &node,
            &instance,
            SyncedFields {
                addresses: true,
                labels: true,
            },
        );
        assert!(
            plan.addresses.is_none() && plan.rejected.is_some() && plan.labels.set.len() == 2,
            "{plan:?}"
        );
        assert_eq!(
            repair(
                &node,
                &instance,
                SyncedFields {
                    addresses: false,
                    labels: false
                }
            ),
            Repair::default()
        );
    }

    #[test]
    fn a_due_node_that_lacks_nothing_is_compared() {
        let of = |provider_id: &str, labels: &[(&str, &str)]| Node {
            provider_id: Some(provider_id.into()),
            labels: pairs(labels),
            ..Node::default()
        };
        let beta = [(LABEL_ZONE_BETA, "z")];
        let labels = Need::Labels(pairs(&[(LABEL_ZONE, "z")]));
        for (node, expected) in [
            (of("fake://1", &[]), Need::Comparison),
            (of("fake://1", &beta), labels),
            (of("aws:///i", &[]), Need::Nothing),
            (Node::default(), Need::Nothing),
            (
                tainted(TaintEffect::NoSchedule, Some("fake://1")),
                Need::Initialization,
            ),
        ] {
            assert_eq!(need(&node, &info(), true), expected, "{node:?}");
        }
        assert_eq!(need(&of("fake://1", &[]), &info(), false), Need::Nothing);
    }

    // Holds: N-26, N-28
    #[test]
    fn the_beta_label_is_the_source_of_truth() {
        for (labels, expected) in [
            (vec![(LABEL_ZONE_BETA, "z")], vec![(LABEL_ZONE, "z")]),
            (vec![(LABEL_ZONE_BETA, "z"), (LABEL_ZONE, "z")], vec![]),
            (
                vec![(LABEL_REGION_BETA, "r"), (LABEL_REGION, "other")],
                vec![(LABEL_REGION, "r")],
            ),
            (vec![(LABEL_INSTANCE_TYPE, "t")], vec![]),
            (vec![], vec![]),
        ] {
            let node = Node {
                labels: pairs(&labels),
                ..Node::default()
            };
            let expected = pairs(&expected);
            let expected = if expected.is_empty() {
                Need::Nothing
            } else {
                Need::Labels(expected)
            };
            assert_eq!(need(&node, &info(), false), expected, "{labels:?}");
        }
    }
}
