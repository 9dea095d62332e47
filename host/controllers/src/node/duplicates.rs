//! Finds what two nodes have although only one should: a provider ID or an internal address.
//!
//! Both are reported and not repaired. A machine that was renamed, or that has the address of one
//! that was deleted, has an outdated second Node for a while, and networks of several sites may
//! have the same private addresses. Only a provider ID that a node does not have yet is withheld
//! while another node with it is ready, because it could not be corrected: it cannot be changed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
    sync::Arc,
};

use parking_lot::Mutex;
use skydock_cloud::{AddressKind, Node, reason};
use skydock_controller_base::{controller::context::ControllerContext, objects::kinds::NodeKind};
use skydock_kube::{
    events::EventType,
    informer::{Change, Informer},
};

use super::NodeEntry;

/// Maximum number of nodes that a message names.
const NAMED: usize = 3;

/// What only one node should have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    ProviderId(Arc<str>),
    InternalIp(IpAddr),
}

/// The nodes by what they claim.
#[derive(Default)]
pub(super) struct Duplicates {
    index: Mutex<Index>,
    /// Provider IDs that are being written, and the node. An entry is outdated when the node in the
    /// cache has a provider ID, or is gone.
    promised: Mutex<BTreeMap<String, String>>,
}

#[derive(Default)]
struct Index(BTreeSet<(Claim, Arc<str>)>);

/// What a node claims although others do, too.
struct Duplicate {
    claim: Claim,
    /// Their names.
    others: Vec<Arc<str>>,
}

impl Claim {
    fn of(node: &Node) -> BTreeSet<Self> {
        let internal = node
            .addresses
            .iter()
            .filter(|it| it.kind == AddressKind::InternalIp);
        let addresses = internal.filter_map(|it| it.address.parse().ok());
        let id = node.provider_id.as_deref().map(Into::into);
        id.into_iter()
            .map(Self::ProviderId)
            .chain(addresses.map(Self::InternalIp))
            .collect()
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::ProviderId(_) => reason::DUPLICATE_PROVIDER_ID,
            Self::InternalIp(_) => reason::DUPLICATE_NODE_ADDRESS,
        }
    }

    /// Returns the message for a node that has it like these others.
    fn message(&self, others: &[Arc<str>]) -> String {
        let named = others.get(..NAMED).unwrap_or(others).join(", ");
        let more = match others.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };

        let advice = match self {
            Self::ProviderId(_) => {
                "if the machine was renamed, delete the Node that no longer exists"
            }
            Self::InternalIp(_) => "traffic for one of them may reach another one",
        };

        format!("{self} is also that of node {named}{more}: {advice}")
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ProviderId(id) => write!(f, "Provider ID {id:?}"),
            Self::InternalIp(address) => write!(f, "Internal address {address}"),
        }
    }
}

impl Index {
    fn nodes(&self, claim: &Claim) -> impl Iterator<Item = &Arc<str>> {
        self.0
            .range((claim.clone(), "".into())..)
            .take_while(move |(other, _)| other == claim)
            .map(|(_, name)| name)
    }

    /// Replaces what a node claims. Returns each claim that it did not have before and that other
    /// nodes have.
    fn replace(
        &mut self,
        name: &str,
        old: &BTreeSet<Claim>,
        new: &BTreeSet<Claim>,
    ) -> Vec<Duplicate> {
        let name: Arc<str> = name.into();
        for gone in old.difference(new) {
            self.0.remove(&(gone.clone(), Arc::clone(&name)));
        }

        let mut duplicates = Vec::new();
        for claim in new.difference(old) {
            let others: Vec<_> = self.nodes(claim).cloned().collect();
            self.0.insert((claim.clone(), Arc::clone(&name)));
            if !others.is_empty() {
                let claim = claim.clone();
                duplicates.push(Duplicate { claim, others });
            }
        }

        duplicates
    }
}

impl Duplicates {
    /// Follows the cache, and reports each duplicate once, on the nodes that this provider owns.
    pub(super) fn follow(context: &ControllerContext) -> Arc<Self> {
        let duplicates = Arc::<Self>::default();
        let index = Arc::clone(&duplicates);
        let recorder = context.recorder.clone();
        let provider = Arc::clone(&context.provider);
        let source = context.controller.event_source;
        // The informer keeps this handler, so that a strong reference to it would never be dropped.
        let nodes = Arc::downgrade(&context.nodes);

        context.nodes.subscribe(move |change| {
            let (entry, old, new) = match change {
                Change::Updated(old, new) if old.view == new.view => return,
                Change::Added(new) => (new, BTreeSet::new(), Claim::of(&new.view)),
                Change::Updated(old, new) => (new, Claim::of(&old.view), Claim::of(&new.view)),
                Change::Deleted(old) => (old, Claim::of(&old.view), BTreeSet::new()),
            };

            let found = index.index.lock().replace(entry.name(), &old, &new);
            if found.is_empty() {
                return;
            }

            let info = provider.info();
            let report = |entry: &NodeEntry, claim: &Claim, others: &[Arc<str>]| {
                // A node without a provider ID may become this provider's.
                let id = entry.view.provider_id.as_ref();
                if id.is_none_or(|id| info.owns(id)) {
                    let message = claim.message(others);
                    recorder.on(source, entry, EventType::Warning, claim.reason(), message);
                }
            };

            for Duplicate { claim, others } in found {
                report(entry, &claim, &others);
                // Otherwise it was told when the second node came.
                if let [other] = others.as_slice()
                    && let Some(other) = nodes.upgrade().and_then(|nodes| nodes.get(other))
                {
                    report(&other, &claim, &[entry.name().into()]);
                }
            }
        });

        duplicates
    }

    /// Claims a provider ID for a node, which is about to get it: nodes of one batch are written at
    /// the same time. Returns the name of another node that has the ID, or is about to get it, and
    /// is ready; the ID is not claimed then.
    pub(super) fn claim_provider_id(
        &self,
        id: &str,
        node: &str,
        nodes: &Informer<NodeKind>,
    ) -> Option<String> {
        let mut promised = self.promised.lock();
        promised.retain(|_, name| {
            let entry = nodes.get(name);
            entry.is_some_and(|entry| entry.view.provider_id.is_none())
        });

        let is_ready = |name: &str| nodes.get(name).is_some_and(|entry| entry.view.ready);
        if let Some(other) = promised.get(id).filter(|it| *it != node && is_ready(it)) {
            return Some(other.clone());
        }

        let index = self.index.lock();
        let claim = Claim::ProviderId(id.into());
        let other = index
            .nodes(&claim)
            .filter(|name| &***name != node)
            .find(|name| is_ready(name))
            .map(ToString::to_string);

        if other.is_none() {
            promised.insert(id.to_owned(), node.to_owned());
        }
        other
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skydock_controller_base::testing::{node, with};

    use super::*;

    fn id(text: &str) -> Claim {
        Claim::ProviderId(text.into())
    }

    fn ip(text: &str) -> Claim {
        Claim::InternalIp(text.parse().unwrap())
    }

    #[test]
    fn a_duplicate_is_found_once_and_until_it_is_gone() {
        let mut index = Index::default();
        let mut change = |name: &str, old: &[Claim], new: &[Claim]| {
            let set = |claims: &[Claim]| claims.iter().cloned().collect();
            let found = index.replace(name, &set(old), &set(new));
            let shown =
                |Duplicate { claim, others }: Duplicate| format!("{claim} {}", others.join(","));
            found.into_iter().map(shown).collect::<Vec<_>>()
        };
        let (one, two) = ([id("x://1"), ip("10.0.0.1")], [id("x://1"), ip("10.0.0.2")]);
        assert_eq!(change("a", &[], &one), [""; 0]);
        assert_eq!(change("b", &[], &two), ["Provider ID \"x://1\" a"]);
        assert_eq!(change("b", &two, &two), [""; 0], "nothing has changed");
        assert_eq!(
            change("b", &two, &one),
            ["Internal address 10.0.0.1 a"],
            "the ID was told"
        );
        assert_eq!(
            change("c", &[], &one),
            ["Provider ID \"x://1\" a,b", "Internal address 10.0.0.1 a,b"]
        );
        assert_eq!(
            (change("a", &one, &[]), change("b", &one, &[])),
            (vec![], vec![])
        );
        assert_eq!(change("d", &[], &one).len(), 2, "c is there");
        assert_eq!(
            (change("c", &one, &[]), change("d", &one, &[])),
            (vec![], vec![])
        );
        assert_eq!(change("e", &[], &one), [""; 0]);
    }

    /// Nodes of one batch are written at the same time, and the cache has none of their IDs yet.
    #[test]
    fn a_provider_id_is_promised_to_one_ready_node() {
        let (duplicates, nodes) = (Duplicates::default(), Informer::<NodeKind>::default());
        let ready = |version: &str, id: Option<&str>, status: &str| {
            json!({
                "metadata": {"resourceVersion": version},
                "spec": {"providerID": id},
                "status": {"conditions": [{"type": "Ready", "status": status}]},
            })
        };
        let apply = |name: &str, change| nodes.apply(with(&node(name), &change));
        apply("a", ready("1", None, "True"));
        apply("b", ready("1", None, "True"));

        let taken = |id: &str, by: &str| duplicates.claim_provider_id(id, by, &nodes);
        assert_eq!((taken("x://1", "a"), taken("x://1", "a")), (None, None));
        assert_eq!(taken("x://1", "b").as_deref(), Some("a"));
        assert_eq!(taken("x://2", "b"), None);

        apply("a", ready("2", None, "False"));
        assert_eq!(taken("x://1", "b"), None, "the other one is not ready");
        apply("b", ready("2", Some("x://3"), "True"));
        assert_eq!(taken("x://1", "a"), None, "it got another one");

        nodes.delete("a");
        apply("c", ready("1", None, "True"));
        assert_eq!(taken("x://1", "c"), None, "the other one is gone");
    }

    #[test]
    fn a_message_names_at_most_three_nodes() {
        let names = |count: usize| {
            (0..count)
                .map(|it| format!("n{it}").into())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            ip("10.0.0.1").message(&names(1)),
            "Internal address 10.0.0.1 is also that of node n0: traffic for one of them may reach another one"
        );
        let many = id("x://1").message(&names(5));
        assert!(many.contains("node n0, n1, n2 and 2 more: if"), "{many}");
    }
}
