//! Arguments of the functions.

use std::sync::Arc;

use crate::{
    Attachment, CapacityRequest, Expansion, Modification, NewAttachment, NewRoute, NewSnapshot,
    NewVolume, Node, NodeSet, Route, Service, SnapshotId, VolumeId,
};

/// Defines [`Arguments`], [`ArgumentKind`] and which field is passed as an argument of a type.
macro_rules! arguments {
    ($(
        $(#[$doc:meta])*
        $kind:ident $field:ident: $stored:ty, passed as $type:ty, $length:expr;
    )*) => {
        /// Arguments for calls of any function.
        #[derive(Clone, Debug, Default)]
        pub struct Arguments {
            $(
                $(#[$doc])*
                pub $field: $stored,
            )*
        }

        /// A kind of argument: a field of [`Arguments`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ArgumentKind {
            $(
                $(#[$doc])*
                $kind,
            )*
        }

        $(impl Argument for $type {
            const KIND: ArgumentKind = ArgumentKind::$kind;

            const LENGTH: Option<fn(&Self) -> usize> = $length;

            fn of(arguments: &Arguments) -> &Self {
                &arguments.$field
            }
        })*

        impl ArgumentKind {
            /// Returns true for a list with an answer for each object.
            #[must_use]
            pub(super) const fn is_list(self) -> bool {
                match self {
                    $(Self::$kind => <$type as Argument>::LENGTH.is_some(),)*
                }
            }
        }
    };
}

arguments! {
    /// Nodes, each of which is a question.
    Nodes nodes: Vec<Arc<Node>>, passed as [Arc<Node>], Some(<[_]>::len);
    /// The Service whose load balancer is meant.
    Service service: Service, passed as Service, None;
    /// The nodes of a load balancer.
    NodeSet node_set: NodeSet, passed as NodeSet, None;
    /// Routes to create.
    NewRoutes new_routes: Vec<NewRoute>, passed as [NewRoute], Some(<[_]>::len);
    /// Routes to delete.
    Routes routes: Vec<Route>, passed as [Route], Some(<[_]>::len);
    /// Volumes to create.
    NewVolumes new_volumes: Vec<NewVolume>, passed as [NewVolume], Some(<[_]>::len);
    /// Volumes to read or to delete.
    VolumeIds volume_ids: Vec<VolumeId>, passed as [VolumeId], Some(<[_]>::len);
    /// Attachments to create.
    NewAttachments new_attachments: Vec<NewAttachment>, passed as [NewAttachment], Some(<[_]>::len);
    /// Attachments to remove.
    Attachments attachments: Vec<Attachment>, passed as [Attachment], Some(<[_]>::len);
    /// Volumes to expand.
    Expansions expansions: Vec<Expansion>, passed as [Expansion], Some(<[_]>::len);
    /// Volumes to modify.
    Modifications modifications: Vec<Modification>, passed as [Modification], Some(<[_]>::len);
    /// Snapshots to create.
    NewSnapshots new_snapshots: Vec<NewSnapshot>, passed as [NewSnapshot], Some(<[_]>::len);
    /// Snapshots to read or to delete.
    SnapshotIds snapshot_ids: Vec<SnapshotId>, passed as [SnapshotId], Some(<[_]>::len);
    /// Capacities to measure.
    CapacityRequests capacity_requests: Vec<CapacityRequest>, passed as [CapacityRequest], Some(<[_]>::len);
}

/// A type of argument.
pub(super) trait Argument {
    /// Its kind.
    const KIND: ArgumentKind;

    /// Returns the number of objects, for a list with an answer for each.
    const LENGTH: Option<fn(&Self) -> usize>;

    /// Returns the argument of this type.
    fn of(arguments: &Arguments) -> &Self;

    /// Returns the number of objects, if it is a list.
    fn len(&self) -> Option<usize> {
        Self::LENGTH.map(|length| length(self))
    }
}
