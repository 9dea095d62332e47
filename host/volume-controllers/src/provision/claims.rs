//! The claims that have no volume yet, by their UIDs. What has been asked of the cloud for one is kept until
//! its answer is final, also if the claim is deleted: the volume may be on its way, and gets its
//! PersistentVolume, with which it is deleted (`claimsInProgress` of csi-provisioner).

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use skydock_kube::informer::Entry;

use super::plan::Prepared;
use crate::{objects::ClaimKind, provision::plan};

pub(super) type ClaimEntry = Arc<Entry<ClaimKind>>;

/// Claims without a volume.
#[derive(Default)]
pub(super) struct Claims(Mutex<HashMap<String, Known>>);

struct Known {
    claim: ClaimEntry,
    /// What the cloud was asked.
    begun: Option<Arc<Prepared>>,
    /// The claim is deleted, or has a volume.
    is_over: bool,
}

impl Claims {
    /// Remembers a claim. Returns whether it may need a volume.
    pub(super) fn see(&self, claim: &ClaimEntry) -> bool {
        if plan::is_bound(&claim.object) {
            self.over(claim);
            return false;
        }
        let mut all = self.0.lock();
        let begun = all.get(claim.uid()).and_then(|it| it.begun.clone());
        let known = Known {
            claim: Arc::clone(claim),
            begun,
            is_over: false,
        };
        all.insert(claim.uid().to_owned(), known);
        true
    }

    /// Remembers the newest version of a claim that needs no other work: what is written to it has to name
    /// that version.
    pub(super) fn refresh(&self, claim: &ClaimEntry) {
        if let Some(known) = self.0.lock().get_mut(claim.uid()) {
            known.claim = Arc::clone(claim);
        }
    }

    /// Forgets a claim, unless the cloud may be creating its volume.
    pub(super) fn over(&self, claim: &ClaimEntry) {
        let mut all = self.0.lock();
        let is_begun = all.get_mut(claim.uid()).is_some_and(|known| {
            known.is_over = true;
            known.begun.is_some()
        });
        if !is_begun {
            all.remove(claim.uid());
        }
    }

    /// Returns a claim, and what the cloud was asked.
    pub(super) fn get(&self, uid: &str) -> Option<(ClaimEntry, Option<Arc<Prepared>>)> {
        let all = self.0.lock();
        let known = all.get(uid)?;
        Some((Arc::clone(&known.claim), known.begun.clone()))
    }

    /// Returns the UIDs of the claims of a class.
    pub(super) fn of_class(&self, class: &str) -> Vec<String> {
        let all = self.0.lock();
        let of_it = all
            .iter()
            .filter(|(_, it)| plan::class_of(&it.claim.object) == class);
        of_it.map(|(uid, _)| uid.clone()).collect()
    }

    /// Remembers what the cloud is asked. Returns false if the claim has gone in the meantime, and nobody
    /// would follow its volume.
    pub(super) fn begin(&self, uid: &str, prepared: &Arc<Prepared>) -> bool {
        let mut all = self.0.lock();
        let Some(known) = all.get_mut(uid) else {
            return false;
        };
        known.begun = Some(Arc::clone(prepared));
        true
    }

    /// Forgets what the cloud was asked: the answer is final.
    pub(super) fn end(&self, uid: &str) {
        let mut all = self.0.lock();
        let is_over = all.get_mut(uid).is_some_and(|known| {
            known.begun = None;
            known.is_over
        });
        if is_over {
            all.remove(uid);
        }
    }
}
