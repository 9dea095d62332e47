//! Types of `meta.k8s.io/v1`.

use super::{
    Object,
    Type::{self, Any, Bool, Int32, Int64, Keyed, List, Map, Set, Str, Time},
};

/// A map of strings to strings, such as labels.
pub(crate) const STRINGS: Type = Map(&Str);

pub(crate) static OBJECT_META: Object = Object {
    name: "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
    fields: &[
        ("annotations", STRINGS),
        ("creationTimestamp", Time),
        ("deletionGracePeriodSeconds", Int64),
        ("deletionTimestamp", Time),
        ("finalizers", Set(&Str)),
        ("generateName", Str),
        ("generation", Int64),
        ("labels", STRINGS),
        ("managedFields", List(&Any)),
        ("name", Str),
        ("namespace", Str),
        ("ownerReferences", Keyed(&OWNER_REFERENCE, "uid", &["uid"])),
        ("resourceVersion", Str),
        ("selfLink", Str),
        ("uid", Str),
    ],
};

static OWNER_REFERENCE: Object = Object {
    name: "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference",
    fields: &[
        ("apiVersion", Str),
        ("blockOwnerDeletion", Bool),
        ("controller", Bool),
        ("kind", Str),
        ("name", Str),
        ("uid", Str),
    ],
};

pub(super) static CONDITION: Object = Object {
    name: "io.k8s.apimachinery.pkg.apis.meta.v1.Condition",
    fields: &[
        ("lastTransitionTime", Time),
        ("message", Str),
        ("observedGeneration", Int64),
        ("reason", Str),
        ("status", Str),
        ("type", Str),
    ],
};

pub(crate) static DELETE_OPTIONS: Object = Object {
    name: "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    fields: &[
        ("apiVersion", Str),
        ("dryRun", List(&Str)),
        ("gracePeriodSeconds", Int64),
        ("ignoreStoreReadErrorWithClusterBreakingPotential", Bool),
        ("kind", Str),
        ("orphanDependents", Bool),
        ("preconditions", Type::Object(&PRECONDITIONS)),
        ("propagationPolicy", Str),
    ],
};

static PRECONDITIONS: Object = Object {
    name: "io.k8s.apimachinery.pkg.apis.meta.v1.Preconditions",
    fields: &[("resourceVersion", Str), ("uid", Str)],
};

/// How many times something happened, and when last.
pub(super) static EVENT_SERIES: Object =
    Object { name: "io.k8s.api.core.v1.EventSeries", fields: &[("count", Int32), ("lastObservedTime", Time)] };
