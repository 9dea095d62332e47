//! The inventory: the contents of the operator's file, read completely and checked before it is
//! used.
//!
//! A setting is a field of the structure in `inventory/file.rs`, which `inventory/check.rs` checks
//! and turns into one of [`Inventory`]. `README.md` describes it.

use serde_saphyr::{Location, MessageFormatter, UserMessageFormatter};

use crate::{
    machine::Machines,
    pools::pool::Pools,
    problem::{Problem, Problems},
};

mod check;
mod file;
#[cfg(test)]
mod tests;

/// The `apiVersion` of the file.
pub const API_VERSION: &str = "static.skydock.dev/v1alpha1";

/// The `kind` of the file.
pub const KIND: &str = "Inventory";

/// The checked contents of the file.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// Prefixes of the provider IDs that belong to this provider. The first one is `static://`.
    pub provider_id_prefixes: Vec<String>,
    /// The machines, or `None` if the file has no `machines`: another provider then manages the
    /// nodes.
    pub machines: Option<Machines>,
    /// The pools that Services get their addresses from.
    pub pools: Pools,
}

impl Inventory {
    /// Parses an inventory file.
    ///
    /// # Errors
    /// Returns all problems, or only the first one if the text is not YAML of the expected
    /// structure.
    pub fn parse(text: &str) -> Result<Self, Problems> {
        if text.trim().is_empty() {
            let reason = format!(
                "the file is empty; the minimum is `apiVersion: {API_VERSION}` and `kind: {KIND}`"
            );
            return Err(Problems(vec![Problem::at(Location::UNKNOWN, reason)]));
        }

        // A machine takes about 5 to 30 YAML nodes, and the host accepts files of up to 1 MiB. The
        // budget is enough for all machines that fit into such a file, and stops a YAML bomb before
        // it uses up the memory of a plugin instance (128 MiB).
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! { max_nodes: 120_000, max_events: 1_000_000, max_documents: 1 },
            with_snippet: false,
        };

        let file: file::File = serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| Problems(vec![unreadable(&error)]))?;
        check::check(file)
    }

    /// Returns true if the provider ID belongs to this provider.
    #[must_use]
    pub fn owns(&self, provider_id: &str) -> bool {
        is_under(&self.provider_id_prefixes, provider_id)
    }
}

/// Returns true if the provider ID starts with one of the prefixes and is longer than it: a bare
/// prefix does not identify a machine.
fn is_under(prefixes: &[String], provider_id: &str) -> bool {
    prefixes
        .iter()
        .any(|prefix| provider_id.starts_with(prefix) && provider_id.len() > prefix.len())
}

fn unreadable(error: &serde_saphyr::Error) -> Problem {
    let error = error.without_snippet();
    let reason = UserMessageFormatter.format_message(error).into_owned();
    Problem::at(error.location().unwrap_or(Location::UNKNOWN), reason)
}
