//! The inventory: what the operator's file says, read whole and checked before anything is done by it.

use serde_saphyr::{Location, MessageFormatter, UserMessageFormatter};

use crate::{
    machine::Machines,
    pool::Pools,
    problem::{Problem, Problems},
};

mod check;
mod file;
#[cfg(test)]
mod tests;

/// `apiVersion` of the file.
pub const API_VERSION: &str = "static.skydock.dev/v1alpha1";

/// `kind` of the file.
pub const KIND: &str = "Inventory";

/// What the file says, checked.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// Beginnings of the provider IDs that belong to this provider; the first is `static://`.
    pub provider_id_prefixes: Vec<String>,
    /// `None` if the file does not speak of machines: then its nodes are somebody else's.
    pub machines: Option<Machines>,
    /// What services get their addresses from.
    pub pools: Pools,
}

impl Inventory {
    /// Reads the text of an inventory file.
    ///
    /// # Errors
    /// All that is wrong; only the first problem, if the text is no YAML of the right shape.
    pub fn parse(text: &str) -> Result<Self, Problems> {
        if text.trim().is_empty() {
            let reason = format!("the file is empty; the least is `apiVersion: {API_VERSION}` and `kind: {KIND}`");
            return Err(Problems(vec![Problem::at(Location::UNKNOWN, reason)]));
        }
        // A machine is some 5 to 30 nodes of YAML, and the host takes files of 1 MiB: enough for as many real machines as fit into
        // one, and an end for a bomb before the memory of an instance (128 MiB) ends.
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! { max_nodes: 120_000, max_events: 1_000_000, max_documents: 1 },
            with_snippet: false,
        };
        let file: file::File =
            serde_saphyr::from_str_with_options(text, options).map_err(|error| Problems(vec![unreadable(&error)]))?;
        check::check(file)
    }

    /// True if the provider ID belongs to this provider.
    #[must_use]
    pub fn owns(&self, provider_id: &str) -> bool {
        is_under(&self.provider_id_prefixes, provider_id)
    }
}

/// True if the provider ID begins with one of these and names something: a bare prefix is no machine's.
fn is_under(prefixes: &[String], provider_id: &str) -> bool {
    prefixes.iter().any(|prefix| provider_id.starts_with(prefix) && provider_id.len() > prefix.len())
}

fn unreadable(error: &serde_saphyr::Error) -> Problem {
    let error = error.without_snippet();
    let reason = UserMessageFormatter.format_message(error).into_owned();
    Problem::at(error.location().unwrap_or(Location::UNKNOWN), reason)
}
