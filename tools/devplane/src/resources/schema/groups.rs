//! Types of the groups other than core.

use super::{
    Object,
    Type::{Int32, Int64, List, MicroTime, Object as Nested, Str, Time},
    core::{EVENT_SOURCE, OBJECT_REFERENCE},
    meta::{EVENT_SERIES, OBJECT_META},
};

pub(crate) static LEASE: Object = Object {
    name: "io.k8s.api.coordination.v1.Lease",
    fields: &[
        (0, "apiVersion", Str),
        (0, "kind", Str),
        (1, "metadata", Nested(&OBJECT_META)),
        (2, "spec", Nested(&LEASE_SPEC)),
    ],
};

static LEASE_SPEC: Object = Object {
    name: "io.k8s.api.coordination.v1.LeaseSpec",
    fields: &[
        (3, "acquireTime", MicroTime),
        (1, "holderIdentity", Str),
        (2, "leaseDurationSeconds", Int32),
        (5, "leaseTransitions", Int32),
        (7, "preferredHolder", Str),
        (4, "renewTime", MicroTime),
        (6, "strategy", Str),
    ],
};

pub(crate) static EVENT: Object = Object {
    name: "io.k8s.api.events.v1.Event",
    fields: &[
        (6, "action", Str),
        (0, "apiVersion", Str),
        (15, "deprecatedCount", Int32),
        (13, "deprecatedFirstTimestamp", Time),
        (14, "deprecatedLastTimestamp", Time),
        (12, "deprecatedSource", Nested(&EVENT_SOURCE)),
        (2, "eventTime", MicroTime),
        (0, "kind", Str),
        (1, "metadata", Nested(&OBJECT_META)),
        (10, "note", Str),
        (7, "reason", Str),
        (8, "regarding", Nested(&OBJECT_REFERENCE)),
        (9, "related", Nested(&OBJECT_REFERENCE)),
        (4, "reportingController", Str),
        (5, "reportingInstance", Str),
        (3, "series", Nested(&EVENT_SERIES)),
        (11, "type", Str),
    ],
};

/// Request and response of the `token` subresource of a service account.
pub(crate) static TOKEN_REQUEST: Object = Object {
    name: "io.k8s.api.authentication.v1.TokenRequest",
    fields: &[
        (0, "apiVersion", Str),
        (0, "kind", Str),
        (1, "metadata", Nested(&OBJECT_META)),
        (2, "spec", Nested(&TOKEN_REQUEST_SPEC)),
        (3, "status", Nested(&TOKEN_REQUEST_STATUS)),
    ],
};

static TOKEN_REQUEST_SPEC: Object = Object {
    name: "io.k8s.api.authentication.v1.TokenRequestSpec",
    fields: &[
        (1, "audiences", List(&Str)),
        (3, "boundObjectRef", Nested(&BOUND_OBJECT_REFERENCE)),
        (4, "expirationSeconds", Int64),
    ],
};

static BOUND_OBJECT_REFERENCE: Object = Object {
    name: "io.k8s.api.authentication.v1.BoundObjectReference",
    fields: &[
        (2, "apiVersion", Str),
        (1, "kind", Str),
        (3, "name", Str),
        (4, "uid", Str),
    ],
};

static TOKEN_REQUEST_STATUS: Object = Object {
    name: "io.k8s.api.authentication.v1.TokenRequestStatus",
    fields: &[(2, "expirationTimestamp", Time), (1, "token", Str)],
};
