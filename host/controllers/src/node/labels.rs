//! Which labels a node gets: where its machine is and of what kind, and what else the cloud has to say.

use std::collections::BTreeSet;

use skydock_cloud::{Instance, Node, Pairs};

use crate::constants::{
    ANNOTATION_LABELS, LABEL_INSTANCE_TYPE, LABEL_INSTANCE_TYPE_BETA, LABEL_REGION, LABEL_REGION_BETA, LABEL_ZONE,
    LABEL_ZONE_BETA,
};

/// What becomes of a node's labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelPlan {
    /// To be set, also over others.
    pub set: Pairs,
    /// To be removed.
    pub remove: Vec<String>,
    /// For the annotation [`ANNOTATION_LABELS`]; empty takes it away, `None` leaves it.
    pub remembered: Option<String>,
    /// Labels of the cloud that are not taken, and why.
    pub refused: Vec<String>,
}

impl LabelPlan {
    /// True if nothing is to be written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.remove.is_empty() && self.remembered.is_none()
    }
}

/// What is to become of a node's labels.
///
/// Instance type, zone and region are the cloud's, and are set over others. A further label is set if the node does not have
/// it, and from then on it is the cloud's as well: the node remembers its name, and it follows the cloud, also when it goes.
#[must_use]
pub fn plan(node: &Node, instance: &Instance) -> LabelPlan {
    let mut plan = LabelPlan::default();
    for (value, keys) in [
        (&instance.instance_type, [LABEL_INSTANCE_TYPE_BETA, LABEL_INSTANCE_TYPE]),
        (&instance.zone, [LABEL_ZONE_BETA, LABEL_ZONE]),
        (&instance.region, [LABEL_REGION_BETA, LABEL_REGION]),
    ] {
        if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
            plan.set.extend(keys.map(|key| (key.to_owned(), value.clone())));
        }
    }
    let before = remembered(node);
    let mut now = BTreeSet::new();
    for (key, value) in &instance.labels {
        match node.labels.get(key) {
            _ if reserved(key) => {
                plan.refused
                    .push(format!("label {key}: names under kubernetes.io and k8s.io are not the cloud's to set"));
            }
            Some(other) if !before.contains(key.as_str()) => {
                if other != value {
                    plan.refused.push(format!("label {key}: the node has it already, with the value {other:?}"));
                }
            }
            _ => {
                plan.set.insert(key.clone(), value.clone());
                now.insert(key.as_str());
            }
        }
    }
    plan.set.retain(|key, value| node.labels.get(key) != Some(value));
    let gone = before.difference(&now).filter(|key| node.labels.contains_key(**key));
    plan.remove = gone.map(|key| (*key).to_owned()).collect();
    plan.remembered = (now != before).then(|| now.into_iter().collect::<Vec<_>>().join(","));
    plan
}

/// Labels that came from the cloud. What the annotation says is not to be trusted: a kubelet may write it, but it may not
/// touch the labels that [`reserved`] keeps from it here.
fn remembered(node: &Node) -> BTreeSet<&str> {
    let names = node.annotations.get(ANNOTATION_LABELS).map(String::as_str).unwrap_or_default();
    names.split(',').filter(|name| !name.is_empty() && !reserved(name)).collect()
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
    use super::*;
    use crate::testing::pairs;

    fn node(labels: &[(&str, &str)], remembered: Option<&str>) -> Node {
        let annotation = remembered.map(|names| (ANNOTATION_LABELS.to_owned(), names.to_owned()));
        Node { labels: pairs(labels), annotations: annotation.into_iter().collect(), ..Node::default() }
    }

    fn cloud(labels: &[(&str, &str)]) -> Instance {
        Instance { labels: pairs(labels), ..Instance::default() }
    }

    #[test]
    fn n14_n15_n16_type_zone_and_region_become_both_labels_over_others() {
        let node = node(&[(LABEL_ZONE, "old"), (LABEL_REGION, "us-west")], None);
        let instance = Instance {
            instance_type: Some("t1".into()),
            zone: Some("us-west-1a".into()),
            region: Some("us-west".into()),
            ..Instance::default()
        };
        let expected = pairs(&[
            (LABEL_INSTANCE_TYPE_BETA, "t1"),
            (LABEL_INSTANCE_TYPE, "t1"),
            (LABEL_ZONE_BETA, "us-west-1a"),
            (LABEL_ZONE, "us-west-1a"),
            (LABEL_REGION_BETA, "us-west"),
        ]);
        assert_eq!(plan(&node, &instance), LabelPlan { set: expected, ..LabelPlan::default() });
        let empty = Instance { zone: Some(String::new()), ..Instance::default() };
        assert!(plan(&node, &empty).is_empty());
    }

    #[test]
    fn n17_further_labels_are_taken_unless_reserved_or_present() {
        let node = node(&[("my.custom.label/foo", "bar"), ("same", "value")], None);
        let instance = cloud(&[
            ("topology.k8s.cp/zone-id", "az1"),
            ("topology.kubernetes.io/region", "x"),
            ("topology.k8s.io/region", "x"),
            ("kubernetes.io/region", "x"),
            ("k8s.io/region", "x"),
            ("my.custom.label/foo", "fizz"),
            ("same", "value"),
            ("app.k8snio/bar", "1"),
            ("k8snio/bar", "2"),
        ]);
        let plan = plan(&node, &instance);
        let expected = pairs(&[("topology.k8s.cp/zone-id", "az1"), ("app.k8snio/bar", "1"), ("k8snio/bar", "2")]);
        assert_eq!(plan.set, expected);
        assert_eq!(plan.refused.len(), 5, "{:?}", plan.refused);
        let other = "label my.custom.label/foo: the node has it already, with the value \"bar\"";
        assert!(plan.refused.contains(&other.to_owned()), "{:?}", plan.refused);
        assert_eq!(plan.remembered.as_deref(), Some("app.k8snio/bar,k8snio/bar,topology.k8s.cp/zone-id"));
    }

    // Holds: N-23, OPS-28, OPS-37
    #[test]
    fn labels_from_the_cloud_follow_it_and_others_are_left_alone() {
        for (on_node, remembered, in_cloud, set, remove, remember) in [
            // as it was
            (vec![("a", "1")], Some("a"), vec![("a", "1")], vec![], vec![], None),
            // another value in the cloud, or one set by hand
            (vec![("a", "1")], Some("a"), vec![("a", "2")], vec![("a", "2")], vec![], None),
            // taken away by hand
            (vec![], Some("a"), vec![("a", "1")], vec![("a", "1")], vec![], None),
            // gone from the cloud: of several, of one, and taken away by hand already
            (vec![("a", "1"), ("b", "1")], Some("a,b"), vec![("b", "1")], vec![], vec!["a"], Some("b")),
            (vec![("a", "1")], Some("a"), vec![], vec![], vec!["a"], Some("")),
            (vec![], Some("a"), vec![], vec![], vec![], Some("")),
            // new in the cloud
            (vec![("a", "1")], Some("a"), vec![("a", "1"), ("b", "1")], vec![("b", "1")], vec![], Some("a,b")),
            // somebody else's, with the cloud's value or another
            (vec![("a", "1")], None, vec![("a", "1")], vec![], vec![], None),
            (vec![("a", "1")], None, vec![("a", "2")], vec![], vec![], None),
            (vec![("a", "1")], None, vec![], vec![], vec![], None),
        ] {
            let what = format!("{on_node:?} {remembered:?} {in_cloud:?}");
            let plan = plan(&node(&on_node, remembered), &cloud(&in_cloud));
            assert_eq!(
                (plan.set, plan.remove),
                (pairs(&set), remove.iter().map(ToString::to_string).collect()),
                "{what}"
            );
            assert_eq!(plan.remembered.as_deref(), remember, "{what}");
        }
    }

    #[test]
    fn a_reserved_label_in_the_annotation_is_not_removed() {
        let restricted = "tenant.node-restriction.kubernetes.io/secure";
        let node = node(&[(restricted, "yes"), ("a", "1")], Some(&format!("{restricted},a")));
        assert!(plan(&node, &cloud(&[("a", "1")])).is_empty());
        assert_eq!(plan(&node, &cloud(&[])).remove, ["a"]);
    }
}
