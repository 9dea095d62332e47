//! An annotation with which the holder of a Lease tells the next one what to believe.
//!
//! The elector writes it with its renewals: once it is confirmed, this replica held the Lease with
//! it, and whoever acquires the Lease later finds it. An annotation that cannot be written is a
//! renewal that fails, so nobody waits longer for it than the replica leads.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use tokio::sync::watch;

/// The Lease after the last write that the API server has confirmed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// `metadata.uid`: a Lease that was deleted and created again counts holders from 0.
    pub uid: String,
    /// `spec.leaseTransitions`, which increases by one with each holder.
    pub transitions: i32,
    /// The annotation. It is that of an earlier holder until this one has set it.
    pub text: Option<String>,
    /// How long nobody had renewed the Lease when this holder acquired it. Clocks of two replicas are
    /// compared for it.
    pub unattended: Duration,
    /// Number of the last text in it; 0 until this holder has set one.
    number: u64,
}

/// The text that the annotation is to have.
#[derive(Clone, Debug, Default)]
struct Wanted {
    /// Increases with each text, so that nobody takes the confirmation of an equal text that was
    /// set earlier for that of the last one.
    number: u64,
    text: Option<String>,
}

/// Sets the annotation.
#[derive(Debug)]
pub struct LeaseAnnotation {
    wanted: watch::Sender<Wanted>,
    held: watch::Receiver<Option<Held>>,
}

/// Writes the annotation; the other end of a [`LeaseAnnotation`].
#[derive(Debug)]
pub struct LeaseAnnotationWriter {
    key: &'static str,
    wanted: watch::Receiver<Wanted>,
    held: watch::Sender<Option<Held>>,
    unattended: Duration,
}

/// Returns the annotation with this key, and its writer.
#[must_use]
pub fn lease_annotation(key: &'static str) -> (LeaseAnnotation, LeaseAnnotationWriter) {
    let (wanted, following) = watch::channel(Wanted::default());
    let (confirming, held) = watch::channel(None);
    let writer = LeaseAnnotationWriter {
        key,
        wanted: following,
        held: confirming,
        unattended: Duration::ZERO,
    };
    (LeaseAnnotation { wanted, held }, writer)
}

impl LeaseAnnotation {
    /// Returns the Lease, if this replica holds it.
    #[must_use]
    pub fn held(&self) -> Option<Held> {
        self.held.borrow().clone()
    }

    /// Sets or removes the annotation. Returns when the API server has confirmed it; never, if this
    /// replica loses the Lease before.
    pub async fn set(&self, text: Option<String>) {
        let mut number = 0;
        self.wanted.send_modify(|wanted| {
            wanted.number += 1;
            number = wanted.number;
            wanted.text = text;
        });

        let confirmed = |held: &Option<Held>| held.as_ref().is_some_and(|it| it.number >= number);
        if self.held.clone().wait_for(confirmed).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl LeaseAnnotationWriter {
    /// Returns when another text was set.
    pub async fn changed(&mut self) {
        if self.wanted.changed().await.is_err() {
            // Nobody sets it any more.
            std::future::pending::<()>().await;
        }
    }

    /// Must be called before the write that acquires the Lease, with how long nobody has renewed it.
    pub fn acquires(&mut self, unattended: Duration) {
        self.unattended = unattended;
    }

    /// Puts the text into these annotations. Returns its number, for
    /// [`LeaseAnnotationWriter::confirm`].
    pub fn apply(&self, annotations: &mut Option<BTreeMap<String, String>>) -> u64 {
        let Wanted { number, text } = self.wanted.borrow().clone();
        if number == 0 {
            return number;
        }

        let annotations = annotations.get_or_insert_default();
        match text {
            Some(text) => drop(annotations.insert(self.key.to_owned(), text)),
            None => drop(annotations.remove(self.key)),
        }
        number
    }

    /// Tells the other end which Lease the API server has returned for a write of this number.
    pub fn confirm(&self, lease: &Lease, number: u64) {
        let annotations = lease.metadata.annotations.as_ref();
        let spec = lease.spec.as_ref();
        self.held.send_replace(Some(Held {
            uid: lease.metadata.uid.clone().unwrap_or_default(),
            transitions: spec.and_then(|spec| spec.lease_transitions).unwrap_or(0),
            text: annotations.and_then(|all| all.get(self.key)).cloned(),
            unattended: self.unattended,
            number,
        }));
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn lease(annotations: Option<BTreeMap<String, String>>) -> Lease {
        let mut lease = Lease::default();
        lease.metadata.annotations = annotations;
        lease
    }

    #[test]
    fn the_text_of_an_earlier_holder_stays_until_another_is_set() {
        let (annotation, mut writer) = lease_annotation("annotation");
        writer.acquires(Duration::from_secs(7));
        let before = BTreeMap::from([("a", "b"), ("annotation", "old")]);
        let before = before
            .into_iter()
            .map(|(key, text)| (key.into(), text.into()));
        let mut annotations: Option<BTreeMap<String, String>> = Some(before.collect());
        assert_eq!(annotation.held(), None);

        let number = writer.apply(&mut annotations);
        writer.confirm(&lease(annotations.clone()), number);
        let held = annotation.held().unwrap();
        assert_eq!(held.text.as_deref(), Some("old"));
        assert_eq!(held.unattended, Duration::from_secs(7));

        assert!(annotation.set(None).now_or_never().is_none());
        let number = writer.apply(&mut annotations);
        writer.confirm(&lease(annotations.clone()), number);
        assert_eq!(annotation.held().unwrap().text, None);
        assert_eq!(annotations.unwrap().len(), 1, "those of others stay");
    }

    #[tokio::test]
    async fn an_equal_text_that_was_set_before_confirms_nothing() {
        let (annotation, mut writer) = lease_annotation("annotation");
        let mut annotations = None;
        let setting = annotation.set(None);
        tokio::pin!(setting);
        assert!(setting.as_mut().now_or_never().is_none());
        writer.changed().await;
        let number = writer.apply(&mut annotations);
        writer.confirm(&lease(annotations.clone()), number);
        setting.await;

        // A write of another text is in flight, and whoever waited for it has gone.
        assert!(annotation.set(Some("a".into())).now_or_never().is_none());
        let in_flight = writer.apply(&mut annotations);
        let removing = annotation.set(None);
        tokio::pin!(removing);
        assert!(removing.as_mut().now_or_never().is_none());
        writer.confirm(&lease(annotations.clone()), in_flight);
        assert!(removing.as_mut().now_or_never().is_none(), "it has a text");

        let number = writer.apply(&mut annotations);
        writer.confirm(&lease(annotations), number);
        removing.await;
    }

    #[test]
    fn nothing_is_confirmed_to_a_holder_that_loses_the_lease() {
        let (annotation, writer) = lease_annotation("annotation");
        drop(writer);
        assert!(annotation.set(None).now_or_never().is_none());
    }
}
