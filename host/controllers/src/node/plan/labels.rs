//! Determines the labels and annotations of a node: type and location of its instance, and
//! additional ones from the cloud.

use std::collections::BTreeSet;

use skydock_cloud::{Instance, Node, Pairs, has_room};
use skydock_controller_base::objects::constants::{
    ANNOTATION_ANNOTATIONS, ANNOTATION_LABELS, LABEL_INSTANCE_TYPE, LABEL_INSTANCE_TYPE_BETA,
    LABEL_REGION, LABEL_REGION_BETA, LABEL_ZONE, LABEL_ZONE_BETA,
};

/// Changes of a node's labels or annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPlan {
    /// Keys and values to set, overwriting other values.
    pub set: Pairs,
    /// Keys to remove.
    pub remove: Vec<String>,
    /// Value of the annotation [`ANNOTATION_LABELS`] or [`ANNOTATION_ANNOTATIONS`]; if empty, it is
    /// removed, and if `None`, it is not changed.
    pub remembered: Option<String>,
    /// Values of the cloud that are ignored, with the reason.
    pub rejected: Vec<String>,
}

impl KeyPlan {
    /// Returns true if there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.remove.is_empty() && self.remembered.is_none()
    }
}

/// Returns the changes of a node's labels.
///
/// Instance type, zone and region are owned by the cloud and overwrite other values. An additional
/// label is set if the node does not have it. From then on, it is owned by the cloud too: its name
/// is recorded on the node, its value is kept up to date, and it is removed when the cloud omits
/// it.
#[must_use]
pub fn plan(node: &Node, instance: &Instance) -> KeyPlan {
    let mut plan = follow(
        "label",
        &node.labels,
        &remembered(node, ANNOTATION_LABELS, reserved),
        &instance.labels,
        reserved,
    );

    for (value, keys) in [
        (
            &instance.instance_type,
            [LABEL_INSTANCE_TYPE_BETA, LABEL_INSTANCE_TYPE],
        ),
        (&instance.zone, [LABEL_ZONE_BETA, LABEL_ZONE]),
        (&instance.region, [LABEL_REGION_BETA, LABEL_REGION]),
    ] {
        if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
            plan.set
                .extend(keys.map(|key| (key.to_owned(), value.clone())));
        }
    }

    plan.set
        .retain(|key, value| node.labels.get(key) != Some(value));
    plan
}

/// Returns the changes of a node's annotations, which are handled like additional labels.
#[must_use]
pub fn annotations(node: &Node, instance: &Instance) -> KeyPlan {
    let before = remembered(node, ANNOTATION_ANNOTATIONS, our_own);
    let mut plan = follow(
        "annotation",
        &node.annotations,
        &before,
        &instance.annotations,
        our_own,
    );
    plan.set
        .retain(|key, value| node.annotations.get(key) != Some(value));
    plan
}

impl KeyPlan {
    /// Omits annotations for which a node with these has no room. `is_owned` tells which of these
    /// the provider may write.
    pub fn keep_room(&mut self, present: &Pairs, is_owned: impl Fn(&str) -> bool) {
        // Nearly always: all that follows is about annotations that are set.
        if self.set.is_empty() {
            return;
        }

        let mut after = present.clone();
        after.retain(|key, _| !self.remove.contains(key));

        let mut dropped = BTreeSet::new();
        self.set.retain(|key, value| {
            let fits = has_room(&after, &is_owned, (key, value));
            if fits {
                after.insert(key.clone(), value.clone());
            } else {
                self.rejected.push(format!(
                    "annotation {key} of the cloud is ignored: the node has too many or too large annotations"
                ));
                dropped.insert(key.clone());
            }
            fits
        });

        // An annotation that the node has stays, with its old value: its name is still recorded.
        dropped.retain(|key| !present.contains_key(key));
        if dropped.is_empty() {
            return;
        }

        let before = present.get(ANNOTATION_ANNOTATIONS);
        self.remembered = self.remembered.take().map(|names| {
            let kept = names.split(',').filter(|name| !dropped.contains(*name));
            kept.collect::<Vec<_>>().join(",")
        });

        // What it says now is true.
        self.remembered = self
            .remembered
            .take()
            .filter(|names| *names != before.map_or("", String::as_str));
    }
}

fn follow(
    what: &str,
    on_node: &Pairs,
    before: &BTreeSet<&str>,
    in_cloud: &Pairs,
    reserved: fn(&str) -> bool,
) -> KeyPlan {
    let mut plan = KeyPlan::default();
    let mut now = BTreeSet::new();

    for (key, value) in in_cloud {
        match on_node.get(key) {
            _ if reserved(key) => {
                plan.rejected.push(format!(
                    "{what} {key} of the cloud is ignored: this key is reserved"
                ));
            }
            Some(other) if !before.contains(key.as_str()) => {
                if other != value {
                    plan.rejected.push(format!(
                        "{what} {key} of the cloud is ignored: the node already has the value {other:?}"
                    ));
                }
            }
            _ => {
                plan.set.insert(key.clone(), value.clone());
                now.insert(key.as_str());
            }
        }
    }

    let gone = before
        .difference(&now)
        .filter(|key| on_node.contains_key(**key));
    plan.remove = gone.map(|key| (*key).to_owned()).collect();
    plan.remembered = (now != *before).then(|| now.into_iter().collect::<Vec<_>>().join(","));

    plan
}

/// Returns the recorded names of keys that came from the cloud. The annotation is not trusted: a
/// kubelet can write it, but cannot write the labels for which `reserved` is true. These are
/// ignored here.
fn remembered<'a>(
    node: &'a Node,
    annotation: &str,
    reserved: fn(&str) -> bool,
) -> BTreeSet<&'a str> {
    let names = node
        .annotations
        .get(annotation)
        .map(String::as_str)
        .unwrap_or_default();

    names
        .split(',')
        .filter(|name| !name.is_empty() && !reserved(name))
        .collect()
}

/// Returns true for annotations of Skydock itself.
fn our_own(key: &str) -> bool {
    key.split_once('/')
        .is_some_and(|(domain, _)| domain == "skydock.dev" || domain.ends_with(".skydock.dev"))
}

/// Returns true for label keys under `kubernetes.io`, `k8s.io` and their subdomains.
fn reserved(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else {
        return false;
    };

    ["kubernetes.io", "k8s.io"].iter().any(|reserved| {
        domain
            .strip_suffix(reserved)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use skydock_controller_base::testing::pairs;

    fn node(labels: &[(&str, &str)], remembered: Option<&str>) -> Node {
        let annotation = remembered.map(|names| (ANNOTATION_LABELS.to_owned(), names.to_owned()));
        Node {
            labels: pairs(labels),
            annotations: annotation.into_iter().collect(),
            ..Node::default()
        }
    }

    fn cloud(labels: &[(&str, &str)]) -> Instance {
        Instance {
            labels: pairs(labels),
            ..Instance::default()
        }
    }

    // Holds: N-14, N-15, N-16
    #[test]
    fn type_zone_and_region_set_stable_and_beta_labels() {
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
        assert_eq!(
            plan(&node, &instance),
            KeyPlan {
                set: expected,
                ..KeyPlan::default()
            }
        );

        let empty = Instance {
            zone: Some(String::new()),
            ..Instance::default()
        };
        assert!(plan(&node, &empty).is_empty());
    }

    // Holds: N-17
    #[test]
    fn extra_labels_are_added_unless_reserved_or_present() {
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
        let expected = pairs(&[
            ("topology.k8s.cp/zone-id", "az1"),
            ("app.k8snio/bar", "1"),
            ("k8snio/bar", "2"),
        ]);
        assert_eq!(plan.set, expected);
        assert_eq!(plan.rejected.len(), 5, "{:?}", plan.rejected);
        let other = "label my.custom.label/foo of the cloud is ignored: the node already has the value \"bar\"";
        assert!(
            plan.rejected.contains(&other.to_owned()),
            "{:?}",
            plan.rejected
        );
        assert_eq!(
            plan.remembered.as_deref(),
            Some("app.k8snio/bar,k8snio/bar,topology.k8s.cp/zone-id")
        );
    }

    // Holds: N-23
    #[test]
    fn cloud_labels_follow_the_cloud_and_others_stay() {
        for (on_node, remembered, in_cloud, set, remove, remember) in [
            // not changed
            (
                vec![("a", "1")],
                Some("a"),
                vec![("a", "1")],
                vec![],
                vec![],
                None,
            ),
            // another value in the cloud, or one that was set manually
            (
                vec![("a", "1")],
                Some("a"),
                vec![("a", "2")],
                vec![("a", "2")],
                vec![],
                None,
            ),
            // removed manually
            (
                vec![],
                Some("a"),
                vec![("a", "1")],
                vec![("a", "1")],
                vec![],
                None,
            ),
            // omitted by the cloud: one of several, the only one, and one that was removed manually
            (
                vec![("a", "1"), ("b", "1")],
                Some("a,b"),
                vec![("b", "1")],
                vec![],
                vec!["a"],
                Some("b"),
            ),
            (
                vec![("a", "1")],
                Some("a"),
                vec![],
                vec![],
                vec!["a"],
                Some(""),
            ),
            (vec![], Some("a"), vec![], vec![], vec![], Some("")),
            // added in the cloud
            (
                vec![("a", "1")],
                Some("a"),
                vec![("a", "1"), ("b", "1")],
                vec![("b", "1")],
                vec![],
                Some("a,b"),
            ),
            // owned by someone else, with the cloud's value or another
            (
                vec![("a", "1")],
                None,
                vec![("a", "1")],
                vec![],
                vec![],
                None,
            ),
            (
                vec![("a", "1")],
                None,
                vec![("a", "2")],
                vec![],
                vec![],
                None,
            ),
            (vec![("a", "1")], None, vec![], vec![], vec![], None),
        ] {
            let what = format!("{on_node:?} {remembered:?} {in_cloud:?}");
            let plan = plan(&node(&on_node, remembered), &cloud(&in_cloud));
            assert_eq!(
                (plan.set, plan.remove),
                (
                    pairs(&set),
                    remove.iter().map(ToString::to_string).collect()
                ),
                "{what}"
            );
            assert_eq!(plan.remembered.as_deref(), remember, "{what}");
        }
    }

    #[test]
    fn cloud_annotations_follow_the_cloud_and_others_stay() {
        let annotated = |pairs_: &[(&str, &str)]| Node {
            annotations: pairs(pairs_),
            ..Node::default()
        };
        let cloud = |all: &[(&str, &str)]| Instance {
            annotations: pairs(all),
            ..Instance::default()
        };
        let fresh = annotations(
            &annotated(&[("x.example/theirs", "1")]),
            &cloud(&[("x.example/a", "1"), ("x.example/theirs", "2")]),
        );
        assert_eq!(
            (fresh.set, fresh.remembered.as_deref()),
            (pairs(&[("x.example/a", "1")]), Some("x.example/a"))
        );
        assert_eq!(
            fresh.rejected,
            [
                "annotation x.example/theirs of the cloud is ignored: the node already has the value \"1\""
            ]
        );

        let names = "node.skydock.dev/labels,x.example/a";
        let node = annotated(&[
            ("node.skydock.dev/annotations", names),
            ("x.example/a", "1"),
            ("node.skydock.dev/labels", "b"),
        ]);
        let gone = annotations(&node, &cloud(&[]));
        assert_eq!(
            (gone.remove, gone.remembered.as_deref()),
            (vec!["x.example/a".to_owned()], Some(""))
        );
        assert!(annotations(&node, &cloud(&[("x.example/a", "1")])).is_empty());
    }

    #[test]
    fn a_reserved_label_in_the_annotation_is_not_removed() {
        let restricted = "tenant.node-restriction.kubernetes.io/secure";
        let node = node(
            &[(restricted, "yes"), ("a", "1")],
            Some(&format!("{restricted},a")),
        );
        assert!(plan(&node, &cloud(&[("a", "1")])).is_empty());
        assert_eq!(plan(&node, &cloud(&[])).remove, ["a"]);
    }

    // Holds: SEC-62
    #[test]
    fn annotations_that_do_not_fit_are_omitted_and_the_others_written() {
        let own = |name: usize| format!("x.example/{name:02}");
        let instance = Instance {
            annotations: (0..64).map(|it| (own(it), "1".into())).collect(),
            ..Instance::default()
        };

        let others: Pairs = (0..40)
            .map(|it| (format!("x.example/o{it}"), "1".into()))
            .collect();
        let node = Node {
            annotations: others.clone(),
            ..Node::default()
        };
        let mut plan = annotations(&node, &instance);
        plan.keep_room(&node.annotations, |key| key.starts_with("x.example/"));
        assert_eq!((plan.set.len(), plan.rejected.len()), (24, 40));

        let names: Vec<_> = plan.set.keys().cloned().collect();
        assert_eq!(plan.remembered, Some(names.join(",")));

        let mut now = others;
        now.extend(plan.set);
        now.extend(
            plan.remembered
                .map(|names| (ANNOTATION_ANNOTATIONS.to_owned(), names)),
        );
        let node = Node {
            annotations: now,
            ..Node::default()
        };
        let mut plan = annotations(&node, &instance);
        plan.keep_room(&node.annotations, |key| key.starts_with("x.example/"));
        assert!(plan.is_empty(), "nothing is written again: {plan:?}");
    }
}
