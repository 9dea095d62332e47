//! Query parameters, `Accept` headers, and options of deletions.

use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};

use crate::answers::{kinds::Kind, request::Body};

type Query = Vec<(&'static str, String)>;

const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/// The header that kubectl sends.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

pub(super) fn accept() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        12 => Just(""),
        3 => Just("application/json"),
        2 => Just(METADATA),
        2 => Just(METADATA_LIST),
        2 => Just(TABLE),
        1 => select(&["text/plain", "*/*", "application/json;as=Odd;g=meta.k8s.io;v=v1", "application/json;as=Table;v=v1;g=meta.k8s.io"][..]),
    ]
}

/// Returns one of these values of an option with this probability, and nothing otherwise.
fn maybe(
    probability: f64,
    name: &'static str,
    values: &'static [&'static str],
) -> BoxedStrategy<Query> {
    let value = select(values).prop_map(move |value| (name, value.to_owned()));
    proptest::option::weighted(probability, value)
        .prop_map(|pair| pair.into_iter().collect())
        .boxed()
}

fn all(parts: Vec<BoxedStrategy<Query>>) -> BoxedStrategy<Query> {
    parts.prop_map(|parts| parts.concat()).boxed()
}

pub(super) fn writing() -> BoxedStrategy<Query> {
    const LONG: &str = "a-name-of-a-manager-that-is-longer-than-the-128-letters-that-an-api-server-allows-for-field-managers-of-any-kind-and-a-few-more-letters";
    all(vec![
        maybe(0.15, "dryRun", &["All", "All", "All", "", "Odd"]),
        maybe(0.1, "fieldManager", &["me", "", LONG, "bell\u{7}"]),
        maybe(
            0.15,
            "fieldValidation",
            &["Strict", "Strict", "Warn", "Ignore", "Odd", ""],
        ),
        maybe(0.02, "pretty", &["true"]),
        maybe(0.02, "unknown", &["x"]),
    ])
}

pub(super) fn deleting() -> BoxedStrategy<Query> {
    all(vec![
        maybe(0.15, "dryRun", &["All", "All", "", "Odd"]),
        maybe(
            0.1,
            "propagationPolicy",
            &["Background", "Foreground", "Orphan", "Odd", ""],
        ),
        maybe(0.1, "gracePeriodSeconds", &["0", "5", "-1", "x"]),
        maybe(0.03, "orphanDependents", &["true", "false"]),
        maybe(0.03, "resourceVersion", &["{oldrv}", "{rv}"]),
    ])
}

pub(super) fn delete_body() -> impl Strategy<Value = Body> {
    let parts = [
        json!({"kind": "DeleteOptions", "apiVersion": "v1"}),
        json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}),
        json!({"dryRun": ["All"]}),
        json!({"dryRun": []}),
        json!({"dryRun": ["Odd"]}),
        json!({"preconditions": {"uid": "{uid}"}}),
        json!({"preconditions": {"uid": "00000000-0000-0000-0000-00000000000a"}}),
        json!({"preconditions": {"resourceVersion": "{rv}"}}),
        json!({"preconditions": {"resourceVersion": "{oldrv}"}}),
        json!({"preconditions": {"uid": "{uid}", "resourceVersion": "{rv}"}}),
        json!({"propagationPolicy": "Background"}),
        json!({"propagationPolicy": "Foreground"}),
        json!({"propagationPolicy": "Orphan"}),
        json!({"propagationPolicy": "Odd"}),
        json!({"orphanDependents": true}),
        json!({"orphanDependents": false}),
        json!({"gracePeriodSeconds": 0}),
        json!({"gracePeriodSeconds": -1}),
        json!({"unknown": 1}),
        json!({"kind": "Node", "apiVersion": "v1"}),
        json!({"dryRun": "All"}),
    ];
    prop_oneof![
        4 => Just(Body::Empty),
        1 => Just(Body::Json(json!({}))),
        6 => vec(select(parts.to_vec()), 1..3).prop_map(|parts| {
            let mut body = json!({});
            parts.iter().for_each(|part: &Value| json_patch::merge(&mut body, part));
            Body::Json(body)
        }),
        1 => select(&["{", "[]", "nonsense", "null", "\"x\""][..]).prop_map(|text| Body::Text(text.to_owned())),
    ]
}

pub(super) fn getting() -> BoxedStrategy<Query> {
    all(vec![
        maybe(0.2, "resourceVersion", &["0", "{rv}", "{oldrv}", "x", ""]),
        maybe(0.02, "includeObject", &["Object", "None", "Odd"]),
        maybe(0.02, "resourceVersionMatch", &["Exact"]),
    ])
}

/// Returns selectors. Objects without a namespace are always selected by a label, because other
/// sequences have some too.
pub(super) fn selecting(kind: &'static Kind) -> BoxedStrategy<Query> {
    const LABELS: &[&str] = &[
        "a=1",
        "a!=1",
        "a in (1,2)",
        "a notin (1)",
        "a",
        "!a",
        "a=1,seq={ns}",
        "a>1",
        "a b",
        "=x",
        "a in (",
        "a=no spaces",
    ];
    let labels = proptest::option::weighted(0.25, select(LABELS));
    let fixed = if kind.namespaced { "" } else { "seq={ns}" };
    let labels = labels.prop_map(move |own| {
        let both = [fixed, own.unwrap_or_default()];
        let both: Vec<_> = both.into_iter().filter(|part| !part.is_empty()).collect();
        if both.is_empty() {
            Vec::new()
        } else {
            vec![("labelSelector", both.join(","))]
        }
    });
    const FIELDS: &[&str] = &[
        "metadata.name=a",
        "metadata.name!=a",
        "metadata.namespace={ns}",
        "metadata.name",
        "odd=x",
        "metadata.labels=x",
    ];
    let fields: Vec<String> = FIELDS
        .iter()
        .chain(kind.fields)
        .map(|text| (*text).to_owned())
        .collect();
    let fields = proptest::option::weighted(
        0.2,
        select(fields).prop_map(|value| ("fieldSelector", value)),
    );
    let fields = fields.prop_map(|pair| pair.into_iter().collect());
    all(vec![labels.boxed(), fields.boxed()])
}

pub(super) fn listing(kind: &'static Kind) -> BoxedStrategy<Query> {
    // The response with a page may depend on the objects of other sequences.
    let paged = if kind.namespaced { 0.3 } else { 0.001 };
    all(vec![
        maybe(paged, "limit", &["1", "1", "2", "0", "-1", "x"]),
        maybe(0.2, "continue", &["{next}", "{next}", "nonsense", ""]),
        maybe(
            0.25,
            "resourceVersion",
            &["0", "{listrv}", "{rv}", "{oldrv}", "x"],
        ),
        maybe(
            0.15,
            "resourceVersionMatch",
            &["Exact", "NotOlderThan", "Odd"],
        ),
        maybe(0.02, "sendInitialEvents", &["true"]),
        maybe(0.02, "allowWatchBookmarks", &["true"]),
        maybe(
            0.05,
            "includeObject",
            &["Object", "None", "Metadata", "Odd"],
        ),
        maybe(0.03, "timeoutSeconds", &["60", "x"]),
        maybe(0.02, "watch", &["false", "0"]),
    ])
}

pub(super) fn watching() -> BoxedStrategy<Query> {
    let streaming = || {
        let pairs = [
            ("sendInitialEvents", "true"),
            ("resourceVersionMatch", "NotOlderThan"),
            ("allowWatchBookmarks", "true"),
        ];
        Just(pairs.map(|(name, value)| (name, value.to_owned())).to_vec())
    };
    let options = all(vec![
        maybe(0.3, "allowWatchBookmarks", &["true"]),
        maybe(0.08, "sendInitialEvents", &["true", "false"]),
        maybe(0.08, "resourceVersionMatch", &["NotOlderThan", "Exact"]),
        maybe(0.05, "timeoutSeconds", &["600"]),
        maybe(0.03, "limit", &["1"]),
        maybe(0.05, "includeObject", &["Object", "None"]),
    ]);
    let options = prop_oneof![3 => options, 1 => streaming()];
    all(vec![
        options.boxed(),
        maybe(
            0.6,
            "resourceVersion",
            &["0", "{listrv}", "{rv}", "{oldrv}", "{listrv}", "x"],
        ),
    ])
}
