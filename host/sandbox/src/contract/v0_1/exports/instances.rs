//! The interface `instances`: `check` and `describe`.

use std::sync::Arc;

use skydock_cloud as cloud;

use super::{Guest, generated::instances};
use crate::{
    answers::{
        AddressRules, AnswerError, Checked, Element, Rejected,
        names::{self, StandsFor},
        pairs, provider_id, text,
    },
    contract::{
        Running,
        v0_1::{
            from_guest::{addresses, each},
            to_guest,
        },
    },
    grants::owned::Owned,
    words::text::Quoted,
};

impl<'a, 's> Guest<'a, 's> {
    /// Calls `instances.check`.
    pub(crate) fn check(
        self,
        nodes: &'s [Arc<cloud::Node>],
    ) -> Running<'a, Vec<Element<cloud::Presence>>> {
        let Self {
            functions, store, ..
        } = self;
        let records = to_guest::nodes(nodes);

        Box::pin(async move {
            let answer = call!(functions, store, Check: instances.call_check(&records));

            Ok(each(nodes, answer, |_, it| Ok(presence(it))))
        })
    }

    /// Calls `instances.describe`.
    pub(crate) fn describe(
        self,
        nodes: &'s [Arc<cloud::Node>],
    ) -> Running<'a, Vec<Element<cloud::Instance>>> {
        let Self {
            functions, store, ..
        } = self;
        let records = to_guest::nodes(nodes);

        Box::pin(async move {
            let answer = call!(functions, store, Describe: instances.call_describe(&records));

            let owned = &store.data().owned;
            let shared = &store.data().shared;

            let judge = |node: &cloud::Node, stands_for: StandsFor<'_>| match stands_for {
                StandsFor::Address(address) => {
                    let taken = shared.taken(address);
                    shared.ingress.node(address, node, &taken)
                }
                StandsFor::Name(name) => AddressRules::node_name(node, shared.named(name)),
                StandsFor::Service { namespace, name } => shared.no_service(namespace, name),
            };

            Ok(each(nodes, answer, |node, it| {
                instance(it, owned, node, &|stands_for| judge(node, stands_for))
            }))
        })
    }
}

fn presence(presence: instances::Presence) -> cloud::Presence {
    match presence {
        instances::Presence::Running => cloud::Presence::Running,
        instances::Presence::Stopped => cloud::Presence::Stopped,
        instances::Presence::Absent => cloud::Presence::Absent,
    }
}

/// Checks the instance of this node. `judge` checks what an address or a name of it stands for.
fn instance(
    instance: instances::Instance,
    owned: &Owned,
    node: &cloud::Node,
    judge: &dyn Fn(StandsFor<'_>) -> Result<(), Rejected>,
) -> Checked<cloud::Instance> {
    let id = instance.provider_id.filter(|id| !id.is_empty());
    Ok(cloud::Instance {
        provider_id: id.map(|id| provider_id::check(id, owned)).transpose()?,
        instance_type: text::label_value("instance type", instance.instance_type)?,
        zone: text::label_value("zone", instance.zone)?,
        region: text::label_value("region", instance.region)?,
        addresses: addresses(instance.addresses)?
            .into_iter()
            .map(|address| written(address, node, judge))
            .collect::<Checked<_>>()?,
        labels: pairs::labels(instance.labels, owned)?,
        annotations: pairs::annotations(instance.annotations, owned)?,
    })
}

/// Rejects an address that must not be written to the node. The API server may connect to any of
/// them, also to a host name, and some clouds use IP addresses as names.
fn written(
    checked: cloud::NodeAddress,
    node: &cloud::Node,
    judge: &dyn Fn(StandsFor<'_>) -> Result<(), Rejected>,
) -> Checked<cloud::NodeAddress> {
    let what = "address";

    match checked.address.parse() {
        Ok(address) => {
            judge(StandsFor::Address(address)).map_err(|why| AnswerError::Address {
                what,
                address,
                why: Rejected::OfNode(Box::new(why)),
            })?;
        }
        Err(_) => {
            let rejected = |why| AnswerError::Name {
                what,
                name: Quoted::new(&checked.address),
                why: Rejected::OfNode(Box::new(why)),
            };
            let has_it = || {
                let mut known = node.addresses.iter();
                known.any(|it| it.address == checked.address)
            };

            match names::check(&checked.address, None, judge) {
                // It was chosen when the kubelet registered the node.
                Err(Rejected::ClusterName | Rejected::ServiceName(_))
                    if checked.address == node.name => {}
                // A Service or a node that was created later does not take over the name.
                Err(Rejected::ServiceName(_) | Rejected::Held(_)) if has_it() => {}
                named => named.map_err(rejected)?,
            }
        }
    }
    Ok(checked)
}

#[cfg(test)]
mod tests;
