//! The structure of the inventory file for the YAML parser, with the position of every value that
//! may be invalid.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_saphyr::Spanned;

use crate::machine::{AddressType, State};

/// The complete file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct File {
    pub(crate) api_version: Spanned<String>,
    pub(crate) kind: Spanned<String>,
    #[serde(default, rename = "providerIDPrefixes")]
    pub(crate) provider_id_prefixes: Vec<Spanned<String>>,
    /// Absent and empty are different: without `machines`, the inventory knows nothing about nodes.
    pub(crate) machines: Option<Vec<Machine>>,
    #[serde(default)]
    pub(crate) address_pools: Vec<Pool>,
}

/// An entry of `machines`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Machine {
    pub(crate) name: Spanned<String>,
    #[serde(rename = "match")]
    pub(crate) key: Option<Spanned<Match>>,
    #[serde(rename = "providerID")]
    pub(crate) provider_id: Option<Spanned<String>>,
    pub(crate) instance_type: Option<Spanned<String>>,
    pub(crate) zone: Option<Spanned<String>>,
    pub(crate) region: Option<Spanned<String>>,
    #[serde(default)]
    pub(crate) addresses: Vec<Address>,
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    pub(crate) state: State,
}

/// `match`: how the node of a machine is found. Exactly one field is set.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Match {
    pub(crate) node_name: Option<Spanned<String>>,
    #[serde(rename = "providerID")]
    pub(crate) provider_id: Option<Spanned<String>>,
    pub(crate) address: Option<Spanned<String>>,
}

/// An entry of a machine's `addresses`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Address {
    #[serde(rename = "type")]
    pub(crate) kind: AddressType,
    pub(crate) address: Spanned<String>,
}

/// An entry of `addressPools`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Pool {
    pub(crate) name: Spanned<String>,
    pub(crate) addresses: Vec<Spanned<String>>,
    #[serde(default = "yes")]
    pub(crate) auto_assign: bool,
}

fn yes() -> bool {
    true
}
