//! What to do about a node: pure decisions.

use skydock_cloud::{Instance, Node, NodeAddress, Pairs, ProviderInfo};

use super::addresses::{self, ProvidedIpError};
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
    /// Labels to set, also over others.
    pub labels: Pairs,
    /// Labels of the cloud that are not taken, and why.
    pub refused: Vec<String>,
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
    let mut plan = Initialisation {
        addresses: addresses::wanted(node, &instance.addresses)?,
        provider_id: instance.provider_id.clone().filter(|_| node.provider_id.is_none()),
        ..Initialisation::default()
    };
    for (value, keys) in [
        (&instance.instance_type, [LABEL_INSTANCE_TYPE_BETA, LABEL_INSTANCE_TYPE]),
        (&instance.zone, [LABEL_ZONE_BETA, LABEL_ZONE]),
        (&instance.region, [LABEL_REGION_BETA, LABEL_REGION]),
    ] {
        if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
            plan.labels.extend(keys.map(|key| (key.to_owned(), value.clone())));
        }
    }
    for (key, value) in &instance.labels {
        if reserved(key) {
            plan.refused.push(format!("label {key}: names under kubernetes.io and k8s.io are not the cloud's to set"));
        } else if let Some(other) = node.labels.get(key) {
            if other != value {
                plan.refused.push(format!("label {key}: the node has it already, with the value {other:?}"));
            }
        } else {
            plan.labels.insert(key.clone(), value.clone());
        }
    }
    plan.labels.retain(|key, value| node.labels.get(key) != Some(value));
    Ok(plan)
}

/// True for label keys under `kubernetes.io` and `k8s.io` and their subdomains.
fn reserved(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else { return false };
    ["kubernetes.io", "k8s.io"]
        .iter()
        .any(|reserved| domain.strip_suffix(reserved).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

#[cfg(test)]
mod tests {
    use skydock_cloud::{AddressKind, Taint, TaintEffect};

    use super::*;
    use crate::testing::info;

    fn pairs(pairs: &[(&str, &str)]) -> Pairs {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

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

    #[test]
    fn n14_n15_n16_type_zone_and_region_become_both_labels_over_others() {
        let mut node = fresh();
        node.labels = pairs(&[(LABEL_ZONE, "old"), (LABEL_REGION, "us-west")]);
        let instance = Instance {
            instance_type: Some("t1".into()),
            zone: Some("us-west-1a".into()),
            region: Some("us-west".into()),
            ..known()
        };
        let expected = pairs(&[
            (LABEL_INSTANCE_TYPE_BETA, "t1"),
            (LABEL_INSTANCE_TYPE, "t1"),
            (LABEL_ZONE_BETA, "us-west-1a"),
            (LABEL_ZONE, "us-west-1a"),
            (LABEL_REGION_BETA, "us-west"),
        ]);
        assert_eq!(initialise(&node, &instance).unwrap().labels, expected);
        let empty = Instance { zone: Some(String::new()), ..known() };
        assert_eq!(initialise(&node, &empty).unwrap().labels, Pairs::new());
    }

    #[test]
    fn n17_further_labels_are_taken_unless_reserved_or_present() {
        let mut node = fresh();
        node.labels = pairs(&[("my.custom.label/foo", "bar")]);
        let labels = pairs(&[
            ("topology.k8s.cp/zone-id", "az1"),
            ("topology.kubernetes.io/region", "x"),
            ("topology.k8s.io/region", "x"),
            ("kubernetes.io/region", "x"),
            ("k8s.io/region", "x"),
            ("my.custom.label/foo", "fizz"),
            ("app.k8snio/bar", "1"),
            ("k8snio/bar", "2"),
        ]);
        let plan = initialise(&node, &Instance { labels, ..known() }).unwrap();
        let expected = pairs(&[("topology.k8s.cp/zone-id", "az1"), ("app.k8snio/bar", "1"), ("k8snio/bar", "2")]);
        assert_eq!(plan.labels, expected);
        assert_eq!(plan.refused.len(), 5, "{:?}", plan.refused);
    }

    #[test]
    fn n26_the_beta_label_is_the_source_of_truth() {
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
