//! Warnings on Services.

use std::{collections::BTreeMap, time::Duration};

use skydock_sdk::{
    log,
    types::{CloudError, Service},
};

use crate::{
    client::api::failure::Failure,
    cloud::{Cloud, Event},
};

/// How long a warning is remembered, so that it is not published again by each check.
const WARNED: Duration = Duration::from_hours(24);

/// Instances that AWS rejected as targets.
pub(crate) const TARGET_REJECTED: &str = "LoadBalancerTargetRejected";

/// Annotations without effect.
pub(crate) const ANNOTATION_IGNORED: &str = "LoadBalancerAnnotationIgnored";

/// Source ranges that cannot be enforced.
pub(crate) const NOT_ENFORCED: &str = "LoadBalancerSourceRangesNotEnforced";

/// Instances with several security groups that could be the nodes' group.
pub(crate) const NODE_GROUP_UNCLEAR: &str = "LoadBalancerNodeGroupUnclear";

/// Properties that cannot change after the creation, and listeners of users.
pub(crate) const NOT_CHANGED: &str = "LoadBalancerNotChanged";

impl Cloud<'_> {
    /// Publishes sentences as one event on a Service, unless the last event with this reason had
    /// the same ones. Without a sentence, the last event is forgotten.
    pub(crate) fn warn(&self, service: &Service, reason: &str, sentences: &[String]) {
        let key = self.warned(service, reason);
        if sentences.is_empty() {
            self.store.remove(&key);
            return;
        }

        let text = sentences.join("; ");
        if self.store.get(&key).as_ref() != Some(&text) {
            self.store.set(&key, &text, WARNED);
            let message = &text;
            (self.publish_event)(service, Event { reason, message });
        }
    }

    /// Returns the error with which a Service is retried while its last warning with this reason
    /// holds. The address of a new load balancer does not wait for that.
    pub(crate) fn still_warned(&self, service: &Service, reason: &str) -> Option<CloudError> {
        let text = self.store.get(&self.warned(service, reason))?;
        (!service.status.ingress.is_empty()).then(|| CloudError::internal(text))
    }

    fn warned(&self, service: &Service, reason: &str) -> String {
        self.key(&format!("warned/{reason}/{}", service.uid))
    }

    /// Publishes which instances AWS rejected as targets. Returns the error with which the call is
    /// retried, or `None` if there are none.
    pub(crate) fn warn_rejected(
        &self,
        service: &Service,
        rejected: &BTreeMap<String, Failure>,
    ) -> Option<CloudError> {
        let sentences: Vec<String> = rejected
            .iter()
            .map(|(id, failure)| format!("AWS rejects instance {id} as a target: {failure}"))
            .collect();
        self.warn(service, TARGET_REJECTED, &sentences);
        (!sentences.is_empty()).then(|| CloudError::internal(sentences.join("; ")))
    }
}

/// Logs that the credentials do not allow reading the tags of load balancers.
pub(crate) fn tags_not_checked() {
    log::warn(
        "tags",
        "the credential has no permission for elasticloadbalancing:DescribeTags: tags are not checked",
    );
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::testing::{Memory, Scripted, nothing, service, setup};

    #[test]
    fn a_warning_is_published_once_until_it_changes() {
        let (setup, store, wire, none) =
            (setup(), Memory::default(), Scripted::new(nothing), Vec::new);
        let shown = RefCell::new(Vec::new());
        let publish_event = |_: &Service, Event { reason, message }: Event<'_>| {
            shown.borrow_mut().push(format!("{reason}: {message}"));
        };
        let cloud = Cloud::new(&setup, &wire, &store, &none, 0).with_events(&publish_event);
        let web = service(&[]);
        let warn = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            cloud.warn(&web, "R", &texts);
            std::mem::take(&mut *shown.borrow_mut()).join(" ")
        };

        assert_eq!(warn(&["a", "b"]), "R: a; b");
        assert_eq!(warn(&["a", "b"]), "");
        assert_eq!(warn(&["a"]), "R: a");
        assert_eq!(warn(&[]), "");
        assert_eq!(warn(&["a"]), "R: a", "it was right in the meantime");
    }
}
