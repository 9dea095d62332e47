//! Accepted differences and their reasons.

use crate::scenario::Kind;

/// An accepted difference.
#[derive(Debug)]
pub(crate) struct Decided {
    /// The cloud, or `None` for both.
    kind: Option<Kind>,
    /// The prefix of the field's path.
    field: &'static str,
    /// The reason.
    pub(crate) why: &'static str,
}

const ALL: &[Decided] = &[
    Decided {
        kind: None,
        field: "cluster/nodes/node-*/metadata/annotations/node.skydock.dev/labels",
        why: "Skydock's own note of the labels it may take away again; nobody else reads it",
    },
    Decided {
        kind: Some(Kind::Aws),
        field: "cloud/load balancers/default/service-*/attributes/access_logs.s3.enabled",
        why: "`false` is AWS's default; the peer sets it all the same, and moto tells only what was set",
    },
];

/// Returns the accepted difference for a field, if there is one.
pub(crate) fn of(kind: Kind, field: &str) -> Option<&'static Decided> {
    ALL.iter().find(|decided| decided.kind.is_none_or(|of| of == kind) && field.starts_with(decided.field))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_applies_to_one_field_of_named_clouds() {
        let logs = "cloud/load balancers/default/service-*/attributes/access_logs.s3.enabled";
        assert!(of(Kind::Aws, logs).is_some() && of(Kind::Openstack, logs).is_none());
        assert!(of(Kind::Aws, "cluster/nodes/node-*/metadata/labels/x").is_none());
    }
}
