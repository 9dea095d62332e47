//! Tracks which nodes hold which Pod CIDRs, and decides what to do about a node. It has no side
//! effects outside of itself.
//!
//! A node is identified by its UID: a node that was recreated with the same name is a different
//! one. CIDRs that were reserved for a node stay reserved until the node is deleted or has other
//! Pod CIDRs. So a lost answer does no harm: the same CIDRs are written again, and no other node
//! gets them in the meantime.
//!
//! A rule belongs in `Ledger::decide`, and what it decides is a case of `Decision`, which `ipam.rs`
//! carries out. What may be wrong with a node's Pod CIDRs is a case of `Problem`.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
};

use ipnet::IpNet;
use skydock_cloud::Node;

use super::cidr_set::CidrSet;

/// The Pod CIDRs of all nodes.
pub(crate) struct Ledger {
    /// One set for each cluster CIDR, in their order.
    sets: Vec<CidrSet>,
    /// What each node holds, by UID.
    holdings: HashMap<String, Holding>,
    /// Names of nodes for which no Pod CIDR was left.
    waiting: BTreeSet<String>,
}

struct Holding {
    node: String,
    cidrs: Vec<IpNet>,
    /// True if the node was seen with these CIDRs; otherwise they are reserved.
    shown: bool,
    problems: Vec<Problem>,
}

/// What to do about a node.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Nothing: the node has what it needs, or needs nothing.
    Nothing,
    /// Write these Pod CIDRs, in this order.
    Assign(Vec<IpNet>),
    /// No Pod CIDR of this cluster CIDR is free.
    Exhausted(IpNet),
    /// Report problems with the node's Pod CIDRs, which are not changed.
    Warn(Vec<Problem>),
}

/// A problem with the Pod CIDRs of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The text is not a valid CIDR.
    Unreadable(String),
    /// The CIDR is not in any cluster CIDR.
    OutOfRange(IpNet),
    /// The CIDR overlaps with that of another node.
    Shared {
        /// CIDR of this node.
        cidr: IpNet,
        /// Name of the other node.
        with: String,
    },
    /// Another component wrote the node's Pod CIDRs while these were reserved for it.
    WrittenByOther(Vec<IpNet>),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(text) => write!(
                f,
                "Pod CIDR {text:?} of the node is not a valid CIDR. Pod CIDRs cannot be changed: delete the node and let it register again"
            ),
            Self::OutOfRange(cidr) => write!(
                f,
                "Pod CIDR {cidr} of the node is outside --cluster-cidr and is not changed; other nodes are not affected"
            ),
            Self::Shared { cidr, with } => write!(
                f,
                "Pod CIDR {cidr} of the node overlaps with that of node {with}: their Pods may get the same \
                 addresses. Pod CIDRs cannot be changed: delete one of the nodes and let it register again"
            ),
            Self::WrittenByOther(reserved) => write!(
                f,
                "Another component allocated the node's Pod CIDRs while {} was reserved for it: only one allocator may \
                 run, so set --allocate-node-cidrs=false in kube-controller-manager",
                list(reserved)
            ),
        }
    }
}

/// Joins CIDRs for a sentence.
pub(crate) fn list(cidrs: &[IpNet]) -> String {
    cidrs
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

impl Ledger {
    /// Creates a ledger. Nodes get one Pod CIDR from each set, and none that overlaps with the
    /// addresses of Services.
    pub(crate) fn new(mut sets: Vec<CidrSet>, service_cidrs: &[IpNet]) -> Self {
        for set in &mut sets {
            service_cidrs.iter().for_each(|cidr| set.hold(*cidr));
        }
        Self {
            sets,
            holdings: HashMap::new(),
            waiting: BTreeSet::new(),
        }
    }

    /// Records the Pod CIDRs of a node. Returns true if [`Ledger::decide`] is to be called for it.
    pub(crate) fn observe(&mut self, node: &Node) -> bool {
        if node.pod_cidrs.is_empty() {
            // Pod CIDRs that the node had before, for example before etcd was restored from a
            // backup, stay reserved for it.
            if let Some(holding) = self.holdings.get_mut(&node.uid) {
                holding.shown = false;
            }
            return true;
        }

        self.waiting.remove(&node.name);
        let mut problems = Vec::new();
        let mut cidrs = Vec::new();

        for text in &node.pod_cidrs {
            match text.parse::<IpNet>() {
                Ok(cidr) => cidrs.push(cidr.trunc()),
                Err(_) => problems.push(Problem::Unreadable(text.clone())),
            }
        }

        match self.holdings.get(&node.uid) {
            Some(known) if known.cidrs == cidrs && known.shown => return false,
            Some(known) if known.cidrs == cidrs => {}
            other => {
                problems.extend(
                    other
                        .filter(|known| !known.shown)
                        .map(|known| Problem::WrittenByOther(known.cidrs.clone())),
                );
                self.release(&node.uid);
                // Held before problems are looked for: what two nodes have has two holders.
                cidrs.iter().for_each(|cidr| self.hold(*cidr));
            }
        }

        problems.extend(
            cidrs
                .iter()
                .filter_map(|cidr| self.problem(&node.uid, *cidr)),
        );
        let asks = !problems.is_empty();

        let holding = Holding {
            node: node.name.clone(),
            cidrs,
            shown: true,
            problems,
        };
        self.holdings.insert(node.uid.clone(), holding);
        asks
    }

    /// Removes a node that was deleted.
    pub(crate) fn forget(&mut self, node: &Node) {
        self.waiting.remove(&node.name);
        self.release(&node.uid);
    }

    /// Decides what to do about a node, and reserves the Pod CIDRs to assign.
    ///
    /// A node that is being deleted gets nothing, and keeps its Pod CIDRs until it is deleted: its
    /// Pods may still be running. (Upstream allocates them to others at once.)
    pub(crate) fn decide(&mut self, node: &Node, deleting: bool) -> Decision {
        self.waiting.remove(&node.name);
        let known = self.holdings.get_mut(&node.uid);

        if !node.pod_cidrs.is_empty() {
            let problems = known
                .map(|known| std::mem::take(&mut known.problems))
                .unwrap_or_default();
            return if problems.is_empty() {
                Decision::Nothing
            } else {
                Decision::Warn(problems)
            };
        }

        if deleting {
            return Decision::Nothing;
        }

        if let Some(cidrs) = known.map(|known| known.cidrs.clone()) {
            // Another node may have appeared with a CIDR that was only reserved here.
            let shared = |cidr: &IpNet| self.sets.iter().any(|set| set.is_shared(*cidr));
            if !cidrs.iter().any(shared) {
                return Decision::Assign(cidrs);
            }
            self.release(&node.uid);
        }

        // A node gets all of its Pod CIDRs or none: the API server allows no change of them later.
        if let Some(full) = self.sets.iter().find(|set| set.is_full()) {
            let range = full.range().cluster();
            self.waiting.insert(node.name.clone());
            return Decision::Exhausted(range);
        }

        let cidrs: Vec<IpNet> = self.sets.iter_mut().filter_map(CidrSet::allocate).collect();
        let holding = Holding {
            node: node.name.clone(),
            cidrs: cidrs.clone(),
            shown: false,
            problems: Vec::new(),
        };
        self.holdings.insert(node.uid.clone(), holding);

        Decision::Assign(cidrs)
    }

    /// Removes and returns a waiting node if a Pod CIDR may be free for it.
    pub(crate) fn next_waiting(&mut self) -> Option<String> {
        if self.sets.iter().any(CidrSet::is_full) {
            None
        } else {
            self.waiting.pop_first()
        }
    }

    fn hold(&mut self, cidr: IpNet) {
        self.sets.iter_mut().for_each(|set| set.hold(cidr));
    }

    fn release(&mut self, uid: &str) {
        for cidr in self
            .holdings
            .remove(uid)
            .into_iter()
            .flat_map(|holding| holding.cidrs)
        {
            self.sets.iter_mut().for_each(|set| set.release(cidr));
        }
    }

    fn problem(&self, uid: &str, cidr: IpNet) -> Option<Problem> {
        let Some(set) = self.sets.iter().find(|set| set.overlaps(cidr)) else {
            return Some(Problem::OutOfRange(cidr));
        };

        if !set.is_shared(cidr) {
            return None;
        }

        let overlaps = |other: &IpNet| other.contains(&cidr) || cidr.contains(other);
        // A node that only has a CIDR reserved gets another one.
        let mut others = self.holdings.iter().filter(|(other, holding)| {
            *other != uid && holding.shown && holding.cidrs.iter().any(overlaps)
        });
        others.next().map(|(_, other)| Problem::Shared {
            cidr,
            with: other.node.clone(),
        })
    }
}

#[cfg(test)]
mod tests;
