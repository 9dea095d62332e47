//! Rules that are replaced while a request waits: it is only sent if the rules in force still allow
//! it.

use std::sync::Arc;

use http::request::Parts;

use super::{
    Admitted,
    candidates::deciding_rule,
    choose::{choose, unruled},
    denial::{altered, revoked},
    policy::RuleClient,
};
use crate::request_error::RequestError;

impl Admitted {
    /// Checks that the rules in force, which may have been replaced while the request waited, still
    /// allow it in the same way.
    pub(super) fn check_again(
        &self,
        head: &Parts,
        client: &Arc<RuleClient>,
    ) -> Result<(), RequestError> {
        let policy = self.shared.policy.load();
        if Arc::ptr_eq(&policy, &self.policy) {
            return Ok(());
        }

        let name = &client.rule.name;
        let rules = policy.for_target(&self.target);
        let candidates = choose(&rules, head, &self.target, &self.actions);
        let candidates = candidates.map_err(|denial| revoked(name, &denial.error))?;
        if candidates.is_empty() {
            return Err(revoked(name, &unruled(&self.target, &head.method)));
        }

        let decides = deciding_rule(&candidates, &self.actions, &self.authentication);
        let decides = decides.map_err(|why| revoked(name, &why))?;

        if decides.rule.name == *name && decides.rule.acts_like(&client.rule) {
            Ok(())
        } else {
            Err(altered(name))
        }
    }

    /// Waits until the rules in force do not allow the request any more.
    pub(super) async fn revoked(&self, head: &Parts, client: &Arc<RuleClient>) -> RequestError {
        // Before the check, so that it misses no replacement.
        let mut replaced = self.shared.replaced.subscribe();
        loop {
            if let Err(error) = self.check_again(head, client) {
                return error;
            }
            if replaced.changed().await.is_err() {
                // The gateway keeps the sender as long as this request exists.
                std::future::pending::<()>().await;
            }
        }
    }
}
