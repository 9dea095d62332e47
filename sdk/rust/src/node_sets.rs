//! The nodes that the host lends for a call.

use std::{cell::RefCell, rc::Rc};

use crate::{
    bindings::imports::skydock::provider::node_sets::{self as contract, PackedTargets},
    types::{AddressKind, Node, NodeAddress},
};

pub use contract::{NodeChanges, Target};

/// Number of sets whose targets an instance keeps: those of most Services, and those that were lent
/// before, or those of a Service that selects its nodes.
const KEPT: usize = 2;

/// Number of nodes of the largest set that is kept, which takes some 4 MiB.
const LARGEST: usize = 10_000;

thread_local! {
    /// The sets that were used last, the latest at the end.
    static LAST: RefCell<Kept> = RefCell::default();
}

/// Nodes that the host holds and lends for one call: a handle. They are those of the host's cache at
/// the start of the call, without duplicates, and ordered by name.
#[derive(Debug)]
#[repr(transparent)]
pub struct NodeSet(contract::NodeSet);

impl NodeSet {
    /// Returns the number of nodes.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.0.size()
    }

    /// Returns the fields of all nodes that most clouds need to identify an instance, at a tenth of
    /// the cost of [`nodes`](Self::nodes). [`shared_targets`](Self::shared_targets) costs less.
    #[must_use]
    pub fn targets(&self) -> Vec<Target> {
        LAST.with_borrow_mut(|last| last.owned(&self.0))
    }

    /// Returns the same as [`targets`](Self::targets), without a copy: an instance that was lent
    /// the same nodes for another Service shortly before has them already.
    #[must_use]
    pub fn shared_targets(&self) -> Rc<[Target]> {
        LAST.with_borrow_mut(|last| last.shared(&self.0))
    }

    /// Returns the almost complete records of all nodes. For a Service in whose calls it was used,
    /// `update_nodes` is also called when labels, taints or readiness of nodes change; otherwise
    /// only when their names, provider IDs, zones or addresses do.
    #[must_use]
    pub fn nodes(&self) -> Vec<Node> {
        self.0.nodes()
    }

    /// Returns the difference from the nodes of the last successful `ensure` or `update_nodes` for
    /// the same Service. `None` if the host does not know it, for example after a start: then use
    /// the complete set. It saves work, but does not prove what exists in the cloud.
    #[must_use]
    pub fn changes(&self) -> Option<NodeChanges> {
        self.0.changes()
    }
}

/// For the generated code.
#[doc(hidden)]
#[allow(
    unsafe_code,
    missing_docs,
    clippy::must_use_candidate,
    reason = "as those of the generated type"
)]
impl NodeSet {
    pub unsafe fn from_handle(handle: u32) -> Self {
        // SAFETY: the caller has the handle of a set.
        Self(unsafe { contract::NodeSet::from_handle(handle) })
    }

    pub fn take_handle(&self) -> u32 {
        self.0.take_handle()
    }

    pub fn handle(&self) -> u32 {
        self.0.handle()
    }
}

/// What a set says of its targets.
trait Lent {
    fn fingerprint(&self) -> u64;
    fn read(&self) -> Vec<Target>;
}

impl Lent for contract::NodeSet {
    fn fingerprint(&self) -> u64 {
        Self::fingerprint(self)
    }

    fn read(&self) -> Vec<Target> {
        // Nothing is guessed: what does not fit is read in the other form.
        unpacked(&self.packed_targets()).unwrap_or_else(|| self.targets())
    }
}

/// Targets by their fingerprints.
#[derive(Default)]
struct Kept(Vec<(u64, Rc<[Target]>)>);

impl Kept {
    fn shared(&mut self, set: &impl Lent) -> Rc<[Target]> {
        let fingerprint = set.fingerprint();
        match self.find(fingerprint) {
            Some(targets) => targets,
            None => self.keep(fingerprint, set.read().into()),
        }
    }

    fn owned(&mut self, set: &impl Lent) -> Vec<Target> {
        let fingerprint = set.fingerprint();
        if let Some(targets) = self.find(fingerprint) {
            return targets.to_vec();
        }

        let targets = set.read();
        // Not copied if that would not save anything.
        if targets.len() <= LARGEST {
            self.keep(fingerprint, targets.as_slice().into());
        }
        targets
    }

    fn find(&mut self, fingerprint: u64) -> Option<Rc<[Target]>> {
        let at = self.0.iter().position(|(of, _)| *of == fingerprint)?;
        let found = self.0.remove(at);
        let targets = Rc::clone(&found.1);
        self.0.push(found);
        Some(targets)
    }

    fn keep(&mut self, fingerprint: u64, targets: Rc<[Target]>) -> Rc<[Target]> {
        if targets.len() <= LARGEST {
            if self.0.len() >= KEPT {
                self.0.remove(0);
            }
            self.0.push((fingerprint, Rc::clone(&targets)));
        }
        targets
    }
}

/// In place of the length of an absent text.
const ABSENT: u32 = u32::MAX;

/// Returns the targets, or `None` if numbers and texts do not belong together.
fn unpacked(packed: &PackedTargets) -> Option<Vec<Target>> {
    let mut rest = Packed {
        numbers: packed.numbers.iter(),
        texts: &packed.texts,
    };

    let mut targets = Vec::new();
    while !rest.numbers.as_slice().is_empty() {
        targets.push(Target {
            name: rest.text()?,
            provider_id: rest.option()?,
            zone: rest.option()?,
            addresses: rest.addresses()?,
        });
    }
    rest.texts.is_empty().then_some(targets)
}

/// What was not read of packed targets.
struct Packed<'a> {
    numbers: std::slice::Iter<'a, u32>,
    texts: &'a str,
}

impl Packed<'_> {
    fn text(&mut self) -> Option<String> {
        self.option()?
    }

    fn option(&mut self) -> Option<Option<String>> {
        let length = *self.numbers.next()?;
        if length == ABSENT {
            return Some(None);
        }

        let (text, rest) = self.texts.split_at_checked(usize::try_from(length).ok()?)?;
        self.texts = rest;
        Some(Some(text.to_owned()))
    }

    fn addresses(&mut self) -> Option<Vec<NodeAddress>> {
        let count = usize::try_from(*self.numbers.next()?).ok()?;
        // Each has two numbers.
        let mut addresses = Vec::with_capacity(count.min(self.numbers.len() / 2));
        for _ in 0..count {
            addresses.push(NodeAddress {
                kind: kind(*self.numbers.next()?)?,
                address: self.text()?,
            });
        }
        Some(addresses)
    }
}

fn kind(number: u32) -> Option<AddressKind> {
    let kinds = [
        AddressKind::Hostname,
        AddressKind::InternalIp,
        AddressKind::ExternalIp,
        AddressKind::InternalDns,
        AddressKind::ExternalDns,
    ];
    kinds.get(usize::try_from(number).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn target(name: &str) -> Target {
        Target {
            name: name.into(),
            provider_id: None,
            zone: None,
            addresses: Vec::new(),
        }
    }

    fn packed(numbers: &[u32], texts: &str) -> PackedTargets {
        PackedTargets {
            numbers: numbers.to_vec(),
            texts: texts.into(),
        }
    }

    // The host has the same table.
    #[test]
    fn packed_targets_are_read_completely() {
        let address = |kind, address: &str| NodeAddress {
            kind,
            address: address.into(),
        };
        let full = Target {
            name: "ünï".into(),
            provider_id: Some("metal://1".into()),
            zone: Some(String::new()),
            addresses: vec![
                address(AddressKind::InternalIp, "10.0.0.1"),
                address(AddressKind::ExternalDns, "n.example"),
            ],
        };
        for (numbers, texts, expected) in [
            (&[][..], "", vec![]),
            (&[1, ABSENT, ABSENT, 0], "a", vec![target("a")]),
            (
                &[5, 9, 0, 2, 1, 8, 4, 9, 1, ABSENT, ABSENT, 0],
                "ünïmetal://110.0.0.1n.exampleb",
                vec![full, target("b")],
            ),
        ] {
            assert_eq!(unpacked(&packed(numbers, texts)), Some(expected));
        }
    }

    #[test]
    fn numbers_that_do_not_fit_the_texts_are_not_guessed() {
        for (numbers, texts) in [
            (&[][..], "a"),
            (&[1, ABSENT, ABSENT, 0], "ab"),
            (&[2, ABSENT, ABSENT, 0], "a"),
            (&[1, ABSENT, ABSENT], "a"),
            (&[ABSENT, ABSENT, ABSENT, 0], ""),
            (&[1, ABSENT, ABSENT, u32::MAX], "a"),
            (&[1, ABSENT, ABSENT, 1, 5, 0], "a"),
            (&[1, ABSENT, ABSENT, 1, 0, ABSENT], "a"),
            (&[1, 1, ABSENT, 0], "ü"),
        ] {
            assert_eq!(
                unpacked(&packed(numbers, texts)),
                None,
                "{numbers:?} {texts:?}"
            );
        }
    }

    /// A set that counts how often it was read.
    struct Set(u64, Vec<Target>, Cell<u32>);

    impl Set {
        fn new(fingerprint: u64, names: &[&str]) -> Self {
            let targets = names.iter().map(|name| target(name)).collect();
            Self(fingerprint, targets, Cell::new(0))
        }
    }

    impl Lent for Set {
        fn fingerprint(&self) -> u64 {
            self.0
        }

        fn read(&self) -> Vec<Target> {
            self.2.set(self.2.get() + 1);
            self.1.clone()
        }
    }

    #[test]
    fn targets_are_read_once_while_their_fingerprint_is_kept() {
        let (one, two, three) = (
            Set::new(1, &["a"]),
            Set::new(2, &["a", "b"]),
            Set::new(3, &[]),
        );
        let mut kept = Kept::default();
        let first = kept.shared(&one);
        assert!(Rc::ptr_eq(&first, &kept.shared(&one)));
        assert_eq!(kept.owned(&one), one.1);
        assert_eq!(kept.owned(&two), two.1, "another set");
        assert_eq!(*kept.shared(&two), two.1);
        assert!(Rc::ptr_eq(&first, &kept.shared(&one)));
        assert_eq!((one.2.get(), two.2.get()), (1, 1));

        kept.shared(&three);
        kept.shared(&one);
        assert_eq!(one.2.get(), 1, "used after the other");
        assert_eq!(*kept.shared(&two), two.1);
        assert_eq!(two.2.get(), 2, "the one used longest ago was evicted");
        assert_eq!(kept.0.len(), KEPT);
    }

    #[test]
    fn a_set_that_is_too_large_is_not_kept() {
        let names = vec!["a"; LARGEST + 1];
        let (large, small) = (Set::new(1, &names), Set::new(2, &names[1..]));
        let mut kept = Kept::default();
        assert_eq!(kept.shared(&large).len(), kept.owned(&large).len());
        assert_eq!((kept.0.len(), large.2.get()), (0, 2));
        assert_eq!(kept.shared(&small).len(), kept.owned(&small).len());
        assert_eq!((kept.0.len(), small.2.get()), (1, 1));
    }
}
