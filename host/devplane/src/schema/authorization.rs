//! Access reviews: questions that are answered and stored nowhere.

use super::{
    Object,
    Type::{self, List, Object as Nested, Str},
    meta::OBJECT_META,
};

/// `SelfSubjectAccessReview`, `SubjectAccessReview` and `LocalSubjectAccessReview`, which differ in who is asked about.
/// `spec.extra` is left out: it says more about somebody who may do everything anyway.
pub(crate) static ACCESS_REVIEW: Object = Object {
    name: "io.k8s.api.authorization.v1.SubjectAccessReview",
    fields: &[
        (0, "apiVersion", Str),
        (0, "kind", Str),
        (1, "metadata", Nested(&OBJECT_META)),
        (2, "spec", Nested(&ACCESS_REVIEW_SPEC)),
    ],
};

static ACCESS_REVIEW_SPEC: Object = Object {
    name: "io.k8s.api.authorization.v1.SubjectAccessReviewSpec",
    fields: &[
        (4, "groups", List(&Str)),
        (2, "nonResourceAttributes", Nested(&NON_RESOURCE_ATTRIBUTES)),
        (1, "resourceAttributes", Nested(&RESOURCE_ATTRIBUTES)),
        (6, "uid", Str),
        (3, "user", Str),
    ],
};

static NON_RESOURCE_ATTRIBUTES: Object =
    Object { name: "io.k8s.api.authorization.v1.NonResourceAttributes", fields: &[(1, "path", Str), (2, "verb", Str)] };

static RESOURCE_ATTRIBUTES: Object = Object {
    name: "io.k8s.api.authorization.v1.ResourceAttributes",
    fields: &[
        (8, "fieldSelector", SELECTOR),
        (3, "group", Str),
        (9, "labelSelector", SELECTOR),
        (7, "name", Str),
        (1, "namespace", Str),
        (5, "resource", Str),
        (6, "subresource", Str),
        (2, "verb", Str),
        (4, "version", Str),
    ],
};

/// Selectors of fields and of labels look the same.
const SELECTOR: Type = Nested(&SELECTOR_ATTRIBUTES);

static SELECTOR_ATTRIBUTES: Object = Object {
    name: "io.k8s.api.authorization.v1.LabelSelectorAttributes",
    fields: &[(1, "rawSelector", Str), (2, "requirements", List(&Nested(&REQUIREMENT)))],
};

static REQUIREMENT: Object = Object {
    name: "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement",
    fields: &[(1, "key", Str), (2, "operator", Str), (3, "values", List(&Str))],
};

/// `SelfSubjectRulesReview`.
pub(crate) static RULES_REVIEW: Object = Object {
    name: "io.k8s.api.authorization.v1.SelfSubjectRulesReview",
    fields: &[
        (0, "apiVersion", Str),
        (0, "kind", Str),
        (1, "metadata", Nested(&OBJECT_META)),
        (2, "spec", Nested(&RULES_REVIEW_SPEC)),
    ],
};

static RULES_REVIEW_SPEC: Object =
    Object { name: "io.k8s.api.authorization.v1.SelfSubjectRulesReviewSpec", fields: &[(1, "namespace", Str)] };
