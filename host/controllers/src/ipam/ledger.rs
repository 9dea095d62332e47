//! Who holds which Pod CIDRs, and what follows from it for a node. Values in, decisions out.
//!
//! A node is known by its UID: another node of the same name is another node. What was reserved for one stays its own until
//! the node is gone or shows other Pod CIDRs. So an answer that was lost costs nothing: the same CIDRs are written again,
//! and nobody else gets them meanwhile.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
};

use ipnet::IpNet;
use skydock_cloud::Node;

use super::cidr_set::CidrSet;

/// What all nodes hold.
pub(crate) struct Ledger {
    /// One for each cluster CIDR, in their order.
    sets: Vec<CidrSet>,
    /// By UID.
    holdings: HashMap<String, Holding>,
    /// Names of nodes that found nothing left.
    waiting: BTreeSet<String>,
}

struct Holding {
    node: String,
    cidrs: Vec<IpNet>,
    /// The API server has shown the node with them; else they are reserved.
    shown: bool,
    problems: Vec<Problem>,
}

/// What to do about a node.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It has what it needs, or needs nothing.
    Nothing,
    /// Write these, in this order.
    Assign(Vec<IpNet>),
    /// All of this cluster CIDR is in use.
    Exhausted(IpNet),
    /// What the node carries is left as it is, and somebody should know.
    Warn(Vec<Problem>),
}

/// What is wrong with the Pod CIDRs a node carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// It is no CIDR.
    Unreadable(String),
    /// It is in none of the cluster CIDRs.
    OutOfRange(IpNet),
    /// It overlaps with that of another node.
    Shared {
        /// This one's.
        cidr: IpNet,
        /// Name of the other.
        with: String,
    },
    /// Somebody wrote it while this was reserved for the node.
    WrittenByOther(Vec<IpNet>),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(text) => write!(f, "Pod CIDR {text:?} of the node is not a CIDR: it is left as it is"),
            Self::OutOfRange(cidr) => write!(
                f,
                "Pod CIDR {cidr} of the node is outside of --cluster-cidr: it is left as it is, and other nodes get \
                 theirs as usual"
            ),
            Self::Shared { cidr, with } => write!(
                f,
                "Pod CIDR {cidr} of the node overlaps with that of node {with}: Pods of the two may get the same \
                 address. A Pod CIDR cannot be changed: delete one of the nodes and let it register again"
            ),
            Self::WrittenByOther(reserved) => write!(
                f,
                "Somebody else gave the node its Pod CIDRs while {} was reserved for it: only one allocator may run, \
                 so kube-controller-manager needs --allocate-node-cidrs=false",
                list(reserved)
            ),
        }
    }
}

/// CIDRs in a sentence.
pub(crate) fn list(cidrs: &[IpNet]) -> String {
    cidrs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl Ledger {
    /// Nodes get one Pod CIDR out of each set, and none that overlaps with those of services.
    pub(crate) fn new(mut sets: Vec<CidrSet>, service_cidrs: &[IpNet]) -> Self {
        for set in &mut sets {
            service_cidrs.iter().for_each(|cidr| set.hold(*cidr));
        }
        Self { sets, holdings: HashMap::new(), waiting: BTreeSet::new() }
    }

    /// Takes note of what a node carries. True if [`Ledger::decide`] should be asked about it.
    pub(crate) fn observe(&mut self, node: &Node) -> bool {
        if node.pod_cidrs.is_empty() {
            // What it was shown with and is not any more (etcd was set back, say) is its own all the same.
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
                    other.filter(|known| !known.shown).map(|known| Problem::WrittenByOther(known.cidrs.clone())),
                );
                self.release(&node.uid);
                cidrs.iter().for_each(|cidr| self.hold(*cidr));
            }
        }
        problems.extend(cidrs.iter().filter_map(|cidr| self.problem(&node.uid, *cidr)));
        let asks = !problems.is_empty();
        let holding = Holding { node: node.name.clone(), cidrs, shown: true, problems };
        self.holdings.insert(node.uid.clone(), holding);
        asks
    }

    /// Forgets a node that is gone.
    pub(crate) fn forget(&mut self, node: &Node) {
        self.waiting.remove(&node.name);
        self.release(&node.uid);
    }

    /// What to do about a node; what it says to assign is reserved.
    ///
    /// A node that is being deleted gets nothing, and what it has is its own until it is gone: its Pods may run on. (Upstream
    /// gives it to others at once.)
    pub(crate) fn decide(&mut self, node: &Node, deleting: bool) -> Decision {
        self.waiting.remove(&node.name);
        let known = self.holdings.get_mut(&node.uid);
        if !node.pod_cidrs.is_empty() {
            let problems = known.map(|known| std::mem::take(&mut known.problems)).unwrap_or_default();
            return if problems.is_empty() { Decision::Nothing } else { Decision::Warn(problems) };
        }
        if deleting {
            return Decision::Nothing;
        }
        if let Some(cidrs) = known.map(|known| known.cidrs.clone()) {
            // Another node may have come up with what was only reserved here.
            let shared = |cidr: &IpNet| self.sets.iter().any(|set| set.is_shared(*cidr));
            if !cidrs.iter().any(shared) {
                return Decision::Assign(cidrs);
            }
            self.release(&node.uid);
        }
        if let Some(full) = self.sets.iter().find(|set| set.is_full()) {
            let range = full.range().cluster();
            self.waiting.insert(node.name.clone());
            return Decision::Exhausted(range);
        }
        let cidrs: Vec<IpNet> = self.sets.iter_mut().filter_map(CidrSet::allocate).collect();
        let holding = Holding { node: node.name.clone(), cidrs: cidrs.clone(), shown: false, problems: Vec::new() };
        self.holdings.insert(node.uid.clone(), holding);
        Decision::Assign(cidrs)
    }

    /// A node that waits, if there is something for it now; it waits no more.
    pub(crate) fn next_waiting(&mut self) -> Option<String> {
        if self.sets.iter().any(CidrSet::is_full) { None } else { self.waiting.pop_first() }
    }

    fn hold(&mut self, cidr: IpNet) {
        self.sets.iter_mut().for_each(|set| set.hold(cidr));
    }

    fn release(&mut self, uid: &str) {
        for cidr in self.holdings.remove(uid).into_iter().flat_map(|holding| holding.cidrs) {
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
        let mut others = self
            .holdings
            .iter()
            .filter(|(other, holding)| *other != uid && holding.shown && holding.cidrs.iter().any(overlaps));
        others.next().map(|(_, other)| Problem::Shared { cidr, with: other.node.clone() })
    }
}

#[cfg(test)]
mod tests;
