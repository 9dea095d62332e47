//! Accepted differences and their reasons.

use crate::scenario::{Kind, Side};

/// An accepted difference.
#[derive(Debug)]
pub(crate) struct Decided {
    /// The cloud, or `None` for both.
    kind: Option<Kind>,
    /// The side that differs from the peer, or `None` for all.
    side: Option<Side>,
    /// The prefix of the field's path.
    field: &'static str,
    /// The reason.
    pub(crate) why: &'static str,
}

const ALL: &[Decided] = &[
    Decided {
        kind: None,
        side: None,
        field: "cluster/nodes/node-*/metadata/annotations/node.skydock.dev/labels",
        why: "Skydock's own note of the labels it may delete again; nobody else reads it",
    },
    Decided {
        kind: Some(Kind::Aws),
        side: Some(Side::Skydock),
        field: "cloud/load balancers/default/service-*/attributes/access_logs.s3.enabled",
        why: "`false` is AWS's default; the peer sets it all the same, and moto tells only what was set",
    },
    Decided {
        kind: Some(Kind::Aws),
        side: None,
        field: "cloud/load balancers/default/service-*/listeners/TCP/80/itself/SslPolicy",
        why: "moto gives a new listener the default policy, also without TLS; the peer removes it, AWS never has it",
    },
    Decided {
        kind: Some(Kind::Openstack),
        side: Some(Side::Skydock),
        field: "cluster/nodes/node-*/metadata/labels/topology.openstack.org/host-id",
        why: "newer releases of the peer set this label, too",
    },
];

/// Returns the accepted difference for a field, if there is one.
pub(crate) fn of(kind: Kind, side: Side, field: &str) -> Option<&'static Decided> {
    ALL.iter().find(|decided| {
        decided.kind.is_none_or(|of| of == kind)
            && decided.side.is_none_or(|of| of == side)
            && field.starts_with(decided.field)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_applies_to_a_field_of_a_cloud_and_a_side() {
        let logs = "cloud/load balancers/default/service-*/attributes/access_logs.s3.enabled";
        assert!(of(Kind::Aws, Side::Skydock, logs).is_some());
        assert!(
            of(Kind::Openstack, Side::Skydock, logs).is_none()
                && of(Kind::Aws, Side::Go, logs).is_none()
        );
        assert!(
            of(
                Kind::Aws,
                Side::Skydock,
                "cluster/nodes/node-*/metadata/labels/x"
            )
            .is_none()
        );
    }
}
