//! Rules for the provider ID of an instance in an answer.

use super::{AnswerError, Checked, value};
use crate::{grants::owned::Owned, words::text::Quoted};

/// Maximum bytes of a provider ID.
pub(crate) const MAX_PROVIDER_ID: usize = 512;

/// Checks that the provider ID is one of those that the plugin owns.
pub(crate) fn check(id: String, owned: &Owned) -> Checked<String> {
    let printable = id.len() <= MAX_PROVIDER_ID && id.bytes().all(|b| b.is_ascii_graphic());
    value(
        "provider ID",
        &id,
        "printable ASCII of at most 512 bytes",
        printable.then_some(()),
    )?;

    // A prefix alone does not identify an instance.
    let prefixes = owned.provider_ids();
    let is_owned = prefixes
        .iter()
        .any(|prefix| id.len() > prefix.len() && id.starts_with(prefix));

    if is_owned {
        Ok(id)
    } else {
        Err(AnswerError::ForeignProviderId {
            id: Quoted::new(&id),
            prefixes: Quoted::new(&prefixes.join(", ")),
        })
    }
}
