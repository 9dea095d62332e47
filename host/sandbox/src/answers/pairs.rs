//! Rules for the labels and annotations of an instance in an answer. Which keys no plugin may write
//! is in `grants/permissions/reserved.rs`.

use skydock_cloud::{MAX_ANNOTATION_BYTES, Pairs};

use super::{
    error::{AnswerError, Checked, MAX_LIST, count, value},
    text,
};
use crate::{
    grants::{owned::Owned, permissions::is_reserved},
    words::{
        keys::{is_kubernetes, is_qualified},
        text::Quoted,
    },
};

/// Checks the labels that an instance adds to its node. Those that belong to Kubernetes are
/// ignored; all others need a permission.
pub(crate) fn labels(all: Vec<(String, String)>, owned: &Owned) -> Checked<Pairs> {
    count("labels", all.len(), MAX_LIST)?;
    let mut labels = Pairs::new();
    for (key, text) in all {
        value(
            "label",
            &key,
            "a qualified name",
            is_qualified(&key).then_some(()),
        )?;
        let text = text::label_value("label value", Some(text))?.unwrap_or_default();

        if is_kubernetes(&key) {
            continue;
        }

        if !owned.may_label(&key) {
            return Err(AnswerError::Label {
                reserved: is_reserved(&key),
                key: Quoted::new(&key),
            });
        }

        add(&mut labels, "label", key, text)?;
    }

    Ok(labels)
}

/// Checks the annotations that an instance sets on its node, which the plugin must own.
pub(crate) fn annotations(all: Vec<(String, String)>, owned: &Owned) -> Checked<Pairs> {
    count("annotations", all.len(), MAX_LIST)?;

    let bytes = all.iter().map(|(key, text)| key.len() + text.len());
    // Users and Kubernetes need room on the object, too.
    let what = "bytes of annotations with their keys";
    count(what, bytes.sum(), MAX_ANNOTATION_BYTES)?;

    let mut annotations = Pairs::new();
    for (key, text) in all {
        let ok = is_qualified(&key) && owned.may_annotate(&key);
        value(
            "annotation",
            &key,
            "a qualified name under one of the plugin's annotation prefixes, which grants no object",
            ok.then_some(()),
        )?;

        count("bytes of an annotation", text.len(), text::MAX_ANNOTATION)?;
        add(&mut annotations, "annotation", key, text)?;
    }

    Ok(annotations)
}

/// Adds a pair, whose key must occur only once.
fn add(pairs: &mut Pairs, what: &'static str, key: String, text: String) -> Checked<()> {
    if pairs.contains_key(&key) {
        return Err(AnswerError::Twice {
            what,
            value: Quoted::new(&key),
        });
    }
    pairs.insert(key, text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use skydock_cloud::ForeignKind;

    use super::*;
    use crate::grants::permissions::{ObjectGrant, Permissions};

    fn pair(key: &str, text: &str) -> (String, String) {
        (key.to_owned(), text.to_owned())
    }

    fn owner(permissions: Permissions) -> Owned {
        let keys = ["metal.example/", "service.beta.kubernetes.io/metal-"];
        Owned::with(&[], &keys, permissions)
    }

    fn annotated(all: Vec<(String, String)>) -> Checked<Pairs> {
        annotations(all, &owner(Permissions::unrestricted()))
    }

    fn labels(all: Vec<(String, String)>) -> Checked<Pairs> {
        super::labels(all, &owner(Permissions::unrestricted()))
    }

    #[test]
    fn there_are_at_most_64() {
        let many = |count| {
            (0..count)
                .map(|it| pair(&format!("metal.example/{it}"), ""))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (
                labels(many(64)).unwrap().len(),
                annotated(many(64)).unwrap().len()
            ),
            (64, 64)
        );

        let excess = |what| {
            Err(AnswerError::TooMany {
                what,
                count: 65,
                limit: 64,
            })
        };
        assert_eq!(
            (labels(many(65)), annotated(many(65))),
            (excess("labels"), excess("annotations"))
        );
    }

    // Holds: SEC-62
    #[test]
    fn annotations_have_at_most_64_kib_together() {
        let of = |bytes: usize| {
            let one = |it| pair(&format!("metal.example/{it:02}"), &"v".repeat(bytes));
            annotated((0..16).map(one).collect())
        };
        assert!(of(4096 - 16).is_ok() && of(4096 - 15).is_err());
    }

    #[test]
    fn labels_of_kubernetes_are_ignored() {
        let all = [
            "kubernetes.io/a",
            "node.kubernetes.io/b",
            "k8s.io/c",
            "x.k8s.io/d",
            "notk8s.io/e",
            "f",
        ];
        let all = all.map(|key| pair(key, "1")).to_vec();
        assert_eq!(
            labels(all).unwrap().into_keys().collect::<Vec<_>>(),
            ["f", "notk8s.io/e"]
        );
    }

    #[test]
    fn a_label_without_a_permission_is_rejected() {
        let metal = owner(Permissions::by_name("metal"));
        let told = |key: &str| {
            let rejected = super::labels(vec![pair(key, "1")], &metal);
            rejected.map_err(|error| error.to_string())
        };

        assert!(told("metal.example/rack").is_ok());
        assert_eq!(
            told("rack"),
            Err("label `rack` is not permitted: add it to `labels` under `permissions` of the plugin in the configuration file (--config)".into())
        );
        assert_eq!(
            told("nvidia.com/gpu.present"),
            Err("label `nvidia.com/gpu.present` steers other parts of the cluster, so that no plugin may write it".into())
        );
    }

    #[test]
    fn an_annotation_that_grants_an_object_is_rejected() {
        let permissions = Permissions {
            objects: vec![ObjectGrant::NamedBy {
                kind: ForeignKind::Secret,
                annotation: "metal.example/tls".into(),
            }],
            ..Permissions::unrestricted()
        };
        let owned = owner(permissions);
        let annotated = |key: &str| annotations(vec![pair(key, "1")], &owned);
        assert!(annotated("metal.example/tls").is_err());
        assert!(annotated("metal.example/tls-2").is_ok());
    }

    #[test]
    fn keys_and_values_have_the_form_of_kubernetes() {
        for (key, text, is_label, is_annotation) in [
            ("metal.example/x", "1", true, true),
            ("metal.example/x", "", true, true),
            ("metal.example/x", "a b", false, true),
            ("metal.example/x", &*"v".repeat(64), false, true),
            ("metal.example/x", &*"v".repeat(4096), false, true),
            ("metal.example/x", &*"v".repeat(4097), false, false),
            ("metal.example/a b", "", false, false),
            ("metal.example/", "", false, false),
            ("metal.example/a/b", "", false, false),
        ] {
            assert_eq!(labels(vec![pair(key, text)]).is_ok(), is_label, "{key}");
            assert_eq!(
                annotated(vec![pair(key, text)]).is_ok(),
                is_annotation,
                "{key}"
            );
        }
        assert_eq!(
            labels(vec![pair("a", "1")]),
            Ok(Pairs::from([pair("a", "1")]))
        );
        assert_eq!(
            annotated(vec![pair("metal.example/a", "b c")]),
            Ok(Pairs::from([pair("metal.example/a", "b c")]))
        );
    }

    #[test]
    fn annotations_have_a_prefix_of_the_plugin() {
        for (key, expected) in [
            ("service.beta.kubernetes.io/metal-id", true),
            ("service.beta.kubernetes.io/other", false),
            ("node.skydock.dev/labels", false),
            ("a", false),
        ] {
            assert_eq!(annotated(vec![pair(key, "")]).is_ok(), expected, "{key}");
        }
    }

    #[test]
    fn a_key_occurs_once() {
        let twice = || vec![pair("metal.example/a", "1"), pair("metal.example/a", "2")];
        let twice_said = |what| {
            Err(AnswerError::Twice {
                what,
                value: Quoted::new("metal.example/a"),
            })
        };
        assert_eq!(
            (labels(twice()), annotated(twice())),
            (twice_said("label"), twice_said("annotation"))
        );
    }
}
