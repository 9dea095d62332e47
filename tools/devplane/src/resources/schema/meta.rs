//! Types of `meta.k8s.io/v1`.

use super::{
    Object,
    Type::{self, Any, Bool, Int32, Int64, Keyed, List, Map, MicroTime, Set, Str, Time},
};

/// A map of strings to strings, for example labels.
pub(crate) const STRINGS: Type = Map(&Str);

pub(crate) static OBJECT_META: Object = Object {
    name: "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
    fields: &[
        (12, "annotations", STRINGS),
        (8, "creationTimestamp", Time),
        (10, "deletionGracePeriodSeconds", Int64),
        (9, "deletionTimestamp", Time),
        (14, "finalizers", Set(&Str)),
        (2, "generateName", Str),
        (7, "generation", Int64),
        (11, "labels", STRINGS),
        (0, "managedFields", List(&Any)),
        (1, "name", Str),
        (3, "namespace", Str),
        (13, "ownerReferences", Keyed(&OWNER_REFERENCE, "uid")),
        (6, "resourceVersion", Str),
        (4, "selfLink", Str),
        (5, "uid", Str),
    ],
};

static OWNER_REFERENCE: Object = Object {
    name: "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference",
    fields: &[
        (5, "apiVersion", Str),
        (7, "blockOwnerDeletion", Bool),
        (6, "controller", Bool),
        (1, "kind", Str),
        (3, "name", Str),
        (4, "uid", Str),
    ],
};

pub(super) static CONDITION: Object = Object {
    name: "io.k8s.apimachinery.pkg.apis.meta.v1.Condition",
    fields: &[
        (4, "lastTransitionTime", Time),
        (6, "message", Str),
        (3, "observedGeneration", Int64),
        (5, "reason", Str),
        (2, "status", Str),
        (1, "type", Str),
    ],
};

pub(crate) static DELETE_OPTIONS: Object = Object {
    name: "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    fields: &[
        (0, "apiVersion", Str),
        (5, "dryRun", List(&Str)),
        (1, "gracePeriodSeconds", Int64),
        (6, "ignoreStoreReadErrorWithClusterBreakingPotential", Bool),
        (0, "kind", Str),
        (3, "orphanDependents", Bool),
        (2, "preconditions", Type::Object(&PRECONDITIONS)),
        (4, "propagationPolicy", Str),
    ],
};

static PRECONDITIONS: Object = Object {
    name: "io.k8s.apimachinery.pkg.apis.meta.v1.Preconditions",
    fields: &[(2, "resourceVersion", Str), (1, "uid", Str)],
};

/// How often an event occurred, and when it last did.
pub(super) static EVENT_SERIES: Object = Object {
    name: "io.k8s.api.core.v1.EventSeries",
    fields: &[(1, "count", Int32), (2, "lastObservedTime", MicroTime)],
};
