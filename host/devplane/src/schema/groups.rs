//! Types of the groups other than core.

use super::{
    Object,
    Type::{AtomicObject, Int32, Int64, List, Object as Nested, Str, Time},
    core::{EVENT_SOURCE, OBJECT_REFERENCE},
    meta::{EVENT_SERIES, OBJECT_META},
};

pub(crate) static LEASE: Object = Object {
    name: "io.k8s.api.coordination.v1.Lease",
    fields: &[("apiVersion", Str), ("kind", Str), ("metadata", Nested(&OBJECT_META)), ("spec", Nested(&LEASE_SPEC))],
};

static LEASE_SPEC: Object = Object {
    name: "io.k8s.api.coordination.v1.LeaseSpec",
    fields: &[
        ("acquireTime", Time),
        ("holderIdentity", Str),
        ("leaseDurationSeconds", Int32),
        ("leaseTransitions", Int32),
        ("preferredHolder", Str),
        ("renewTime", Time),
        ("strategy", Str),
    ],
};

pub(crate) static EVENT: Object = Object {
    name: "io.k8s.api.events.v1.Event",
    fields: &[
        ("action", Str),
        ("apiVersion", Str),
        ("deprecatedCount", Int32),
        ("deprecatedFirstTimestamp", Time),
        ("deprecatedLastTimestamp", Time),
        ("deprecatedSource", Nested(&EVENT_SOURCE)),
        ("eventTime", Time),
        ("kind", Str),
        ("metadata", Nested(&OBJECT_META)),
        ("note", Str),
        ("reason", Str),
        ("regarding", AtomicObject(&OBJECT_REFERENCE)),
        ("related", AtomicObject(&OBJECT_REFERENCE)),
        ("reportingController", Str),
        ("reportingInstance", Str),
        ("series", Nested(&EVENT_SERIES)),
        ("type", Str),
    ],
};

/// What is asked of, and answered by, the `token` subresource of a service account.
pub(crate) static TOKEN_REQUEST: Object = Object {
    name: "io.k8s.api.authentication.v1.TokenRequest",
    fields: &[
        ("apiVersion", Str),
        ("kind", Str),
        ("metadata", Nested(&OBJECT_META)),
        ("spec", Nested(&TOKEN_REQUEST_SPEC)),
        ("status", Nested(&TOKEN_REQUEST_STATUS)),
    ],
};

static TOKEN_REQUEST_SPEC: Object = Object {
    name: "io.k8s.api.authentication.v1.TokenRequestSpec",
    fields: &[
        ("audiences", List(&Str)),
        ("boundObjectRef", Nested(&BOUND_OBJECT_REFERENCE)),
        ("expirationSeconds", Int64),
    ],
};

static BOUND_OBJECT_REFERENCE: Object = Object {
    name: "io.k8s.api.authentication.v1.BoundObjectReference",
    fields: &[("apiVersion", Str), ("kind", Str), ("name", Str), ("uid", Str)],
};

static TOKEN_REQUEST_STATUS: Object = Object {
    name: "io.k8s.api.authentication.v1.TokenRequestStatus",
    fields: &[("expirationTimestamp", Time), ("token", Str)],
};
