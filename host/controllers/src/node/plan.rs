//! What to do about a node: pure decisions.

use skydock_cloud::{Instance, Node, NodeAddress, Pairs, ProviderInfo};

use super::{
    addresses::{self, ProvidedIpError},
    labels::{self, KeyPlan},
};
use crate::constants::{
    LABEL_INSTANCE_TYPE, LABEL_INSTANCE_TYPE_BETA, LABEL_REGION, LABEL_REGION_BETA, LABEL_ZONE, LABEL_ZONE_BETA,
    TAINT_UNINITIALIZED,
};

/// What a node needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing.
    Nothing,
    /// It waits for initialisation.
    Initialisation,
    /// It waits for initialisation under a provider ID that no provider here owns: it is left alone.
    Foreign(String),
    /// It is initialised, and these labels do not follow their beta twins.
    Labels(Pairs),
}

/// Pairs of labels: beta, GA.
const TWINS: [(&str, &str); 3] =
    [(LABEL_ZONE_BETA, LABEL_ZONE), (LABEL_REGION_BETA, LABEL_REGION), (LABEL_INSTANCE_TYPE_BETA, LABEL_INSTANCE_TYPE)];

/// True if a node waits for initialisation.
#[must_use]
pub fn uninitialised(node: &Node) -> bool {
    node.taints.iter().any(|taint| taint.key == TAINT_UNINITIALIZED)
}

/// What this node needs.
#[must_use]
pub fn need(node: &Node, info: &ProviderInfo) -> Need {
    let foreign = node.provider_id.as_ref().filter(|id| !info.owns(id));
    if uninitialised(node) {
        return foreign.map_or(Need::Initialisation, |id| Need::Foreign(id.clone()));
    }
    if foreign.is_some() {
        return Need::Nothing;
    }
    let labels: Pairs = TWINS
        .iter()
        .filter_map(|&(beta, ga)| Some((ga, node.labels.get(beta)?)))
        .filter(|&(ga, value)| node.labels.get(ga) != Some(value))
        .map(|(ga, value)| (ga.to_owned(), value.clone()))
        .collect();
    if labels.is_empty() { Need::Nothing } else { Need::Labels(labels) }
}

/// All that initialisation writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Initialisation {
    /// For `status.addresses`; `None` leaves them.
    pub addresses: Option<Vec<NodeAddress>>,
    /// For `spec.providerID`; `None` leaves it.
    pub provider_id: Option<String>,
    /// What becomes of labels.
    pub labels: KeyPlan,
    /// What becomes of annotations.
    pub annotations: KeyPlan,
}

/// Why a node cannot be initialised with what the cloud has said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Kubernetes cannot tell nodes apart without.
    #[error("cloud provider does not set node provider ID for node {0}")]
    NoProviderId(String),
    /// The kubelet's `--node-ip` does not fit.
    #[error("provided node ip is not valid: {0}")]
    ProvidedIp(#[from] ProvidedIpError),
}

/// What to write to initialise a node.
///
/// # Errors
///
/// If the node would be without a provider ID, or if the kubelet's `--node-ip` is none of the cloud's addresses.
pub fn initialise(node: &Node, instance: &Instance) -> Result<Initialisation, Refusal> {
    if node.provider_id.is_none() && instance.provider_id.is_none() {
        return Err(Refusal::NoProviderId(node.name.clone()));
    }
    Ok(Initialisation {
        addresses: addresses::wanted(node, &instance.addresses)?,
        provider_id: instance.provider_id.clone().filter(|_| node.provider_id.is_none()),
        labels: labels::plan(node, instance),
        annotations: labels::annotations(node, instance),
    })
}

/// Which parts of an initialised node are kept up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its addresses.
    pub addresses: bool,
    /// Its labels.
    pub labels: bool,
}

/// All that is written to bring an initialised node up to date.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    /// For `status.addresses`; `None` leaves them.
    pub addresses: Option<Vec<NodeAddress>>,
    /// What becomes of labels.
    pub labels: KeyPlan,
    /// What becomes of annotations.
    pub annotations: KeyPlan,
    /// Why the addresses are left as they are, although the cloud has some.
    pub refused: Option<ProvidedIpError>,
}

/// What to write to bring an initialised node up to date.
#[must_use]
pub fn repair(node: &Node, instance: &Instance, kept: Kept) -> Repair {
    let mut repair = Repair::default();
    if kept.addresses {
        match addresses::wanted(node, &instance.addresses) {
            Ok(wanted) => repair.addresses = wanted,
            Err(error) => repair.refused = Some(error),
        }
    }
    if kept.labels {
        repair.labels = labels::plan(node, instance);
        repair.annotations = labels::annotations(node, instance);
    }
    repair
}

/// True if a node is initialised, and one of the provider's own.
#[must_use]
pub fn kept(node: &Node, info: &ProviderInfo) -> bool {
    !uninitialised(node) && node.provider_id.as_ref().is_some_and(|id| info.owns(id))
}

#[cfg(test)]
mod tests {
    use skydock_cloud::{AddressKind, Taint, TaintEffect};

    use super::*;
    use crate::testing::{info, pairs};

    fn tainted(effect: TaintEffect, provider_id: Option<&str>) -> Node {
        Node {
            name: "node0".into(),
            provider_id: provider_id.map(str::to_owned),
            taints: vec![Taint { key: TAINT_UNINITIALIZED.into(), value: "whatever".into(), effect }],
            ..Node::default()
        }
    }

    fn fresh() -> Node {
        tainted(TaintEffect::NoSchedule, None)
    }

    fn known() -> Instance {
        Instance { provider_id: Some("fake://12345".into()), ..Instance::default() }
    }

    #[test]
    fn n07_a_node_is_uninitialised_by_the_key_of_the_taint_alone() {
        for effect in [TaintEffect::NoSchedule, TaintEffect::NoExecute, TaintEffect::PreferNoSchedule] {
            assert_eq!(need(&tainted(effect, None), &info()), Need::Initialisation);
        }
        assert_eq!(need(&Node::default(), &info()), Need::Nothing);
    }

    // Holds: SEC-06, OPS-07
    #[test]
    fn l13_n25_a_node_of_a_foreign_provider_is_left_alone() {
        let foreign = tainted(TaintEffect::NoSchedule, Some("aws:///i-1"));
        assert_eq!(need(&foreign, &info()), Need::Foreign("aws:///i-1".into()));
        let labels = pairs(&[(LABEL_ZONE_BETA, "z")]);
        let initialised = Node { provider_id: Some("aws:///i-1".into()), labels, ..Node::default() };
        assert_eq!(need(&initialised, &info()), Need::Nothing);
    }

    #[test]
    fn n10_a_node_without_provider_id_keeps_its_taint() {
        let error = initialise(&fresh(), &Instance::default()).unwrap_err();
        assert_eq!(error.to_string(), "cloud provider does not set node provider ID for node node0");
    }

    #[test]
    fn n10_n13_a_provider_id_that_is_there_is_kept() {
        let preset = tainted(TaintEffect::NoSchedule, Some("fake://preset"));
        assert_eq!(initialise(&preset, &known()).unwrap().provider_id, None);
        assert_eq!(initialise(&preset, &Instance::default()).unwrap(), Initialisation::default());
        assert_eq!(initialise(&fresh(), &known()).unwrap().provider_id.as_deref(), Some("fake://12345"));
    }

    #[test]
    fn n12_a_provided_ip_that_the_cloud_does_not_know_keeps_the_taint() {
        let mut node = fresh();
        node.annotations = pairs(&[("alpha.kubernetes.io/provided-node-ip", "10.0.0.2")]);
        let addresses = vec![NodeAddress { kind: AddressKind::InternalIp, address: "10.0.0.1".into() }];
        let error = initialise(&node, &Instance { addresses, ..known() }).unwrap_err();
        assert!(matches!(error, Refusal::ProvidedIp(ProvidedIpError::Unknown(_))), "{error}");
    }

    /// Upstream's Test_syncNode, as far as it is decided here; V1 providers do not exist in the contract.
    #[test]
    fn n08_n10_n12_n13_upstreams_table_of_nodes_to_initialise() {
        let address = |kind, address: &str| NodeAddress { kind, address: address.to_owned() };
        let internal = || address(AddressKind::InternalIp, "10.0.0.1");
        let external = || address(AddressKind::ExternalIp, "132.143.154.163");
        let cloud_name = || address(AddressKind::Hostname, "node0.cloud.internal");
        let own_name = || address(AddressKind::Hostname, "nodeoverriden");
        let all = || vec![cloud_name(), internal(), external()];
        let nameless = || vec![internal(), external()];
        let id = "fake://12345";
        // the cloud's ID and addresses, the ID and the provided IP of the node; the ID and the addresses written
        for (cloud_id, addresses, node_id, provided, written_id, expected) in [
            (Some(id), all(), None, None, Some(id), Some(all())),
            (Some(id), nameless(), None, None, Some(id), Some(vec![internal(), external(), own_name()])),
            (Some(id), vec![], None, None, Some(id), None),
            (Some(id), all(), Some("fake://node0"), None, None, Some(all())),
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
            let annotation = provided.map(|ip| ("alpha.kubernetes.io/provided-node-ip".to_owned(), ip.to_owned()));
            let node = Node {
                addresses: vec![own_name()],
                annotations: annotation.into_iter().collect(),
                ..tainted(TaintEffect::NoSchedule, node_id)
            };
            let instance = Instance { provider_id: cloud_id.map(Into::into), addresses, ..Instance::default() };
            let plan = initialise(&node, &instance).unwrap();
            assert_eq!((plan.provider_id.as_deref(), plan.addresses), (written_id, expected), "{node:?}");
        }
        for (cloud_id, provided) in [(None, None), (Some(id), Some("invalid-ip")), (Some(id), Some("10.0.0.2"))] {
            let annotation =
                provided.map(|ip: &str| ("alpha.kubernetes.io/provided-node-ip".to_owned(), ip.to_owned()));
            let node = Node { annotations: annotation.into_iter().collect(), ..fresh() };
            let instance = Instance { provider_id: cloud_id.map(Into::into), addresses: all(), ..Instance::default() };
            assert!(initialise(&node, &instance).is_err(), "{cloud_id:?} {provided:?}");
        }
    }

    #[test]
    fn n29_n35_only_initialised_nodes_of_our_own_are_kept_and_a_bad_annotation_leaves_the_addresses() {
        for (node, expected) in [
            (Node { provider_id: Some("fake://1".into()), ..Node::default() }, true),
            (tainted(TaintEffect::NoSchedule, Some("fake://1")), false),
            (Node { provider_id: Some("aws:///i".into()), ..Node::default() }, false),
            (Node::default(), false),
        ] {
            assert_eq!(kept(&node, &info()), expected, "{node:?}");
        }
        let node =
            Node { annotations: pairs(&[("alpha.kubernetes.io/provided-node-ip", "10.0.0.9")]), ..Node::default() };
        let addresses = vec![NodeAddress { kind: AddressKind::InternalIp, address: "10.0.0.1".into() }];
        let instance = Instance { addresses, zone: Some("z1".into()), ..Instance::default() };
        let plan = repair(&node, &instance, Kept { addresses: true, labels: true });
        assert!(plan.addresses.is_none() && plan.refused.is_some() && plan.labels.set.len() == 2, "{plan:?}");
        assert_eq!(repair(&node, &instance, Kept { addresses: false, labels: false }), Repair::default());
    }

    #[test]
    fn n26_n28_the_beta_label_is_the_source_of_truth() {
        for (labels, expected) in [
            (vec![(LABEL_ZONE_BETA, "z")], vec![(LABEL_ZONE, "z")]),
            (vec![(LABEL_ZONE_BETA, "z"), (LABEL_ZONE, "z")], vec![]),
            (vec![(LABEL_REGION_BETA, "r"), (LABEL_REGION, "other")], vec![(LABEL_REGION, "r")]),
            (vec![(LABEL_INSTANCE_TYPE, "t")], vec![]),
            (vec![], vec![]),
        ] {
            let node = Node { labels: pairs(&labels), ..Node::default() };
            let expected = pairs(&expected);
            let expected = if expected.is_empty() { Need::Nothing } else { Need::Labels(expected) };
            assert_eq!(need(&node, &info()), expected, "{labels:?}");
        }
    }
}
