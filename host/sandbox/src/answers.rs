//! Rules for the answers of plugins, in any version of the contract: for addresses, names, texts
//! and lists. What only one function answers is checked where it is converted, in
//! `contract/VERSION/exports/`.
//!
//! A limit is a constant beside its rule: for a load balancer's status in `ingress.rs`, for a
//! node's addresses in `addresses.rs`, for labels and annotations in `pairs.rs`. A wrong answer is
//! an [`AnswerError`], which names what is wrong and what is expected. The forms of Kubernetes'
//! names, with their lengths, are in `words/keys.rs`.
//!
//! A plugin may be faulty or hostile; an answer that passes can be written to a Node or a Service.
//! [`contract`](crate::contract) applies these rules when it converts an answer, so that nothing
//! else sees an unchecked one.

pub(crate) mod addresses;
mod error;
pub(crate) mod ingress;
pub(crate) mod names;
pub(crate) mod overlap;
pub(crate) mod pairs;
pub(crate) mod provider_id;
pub(crate) mod text;

use skydock_cloud::CloudError;

pub(crate) use addresses::Taken;
pub use addresses::{AddressRules, Rejected};
pub use error::AnswerError;
pub(crate) use error::{Checked, MAX_LIST, count, value};

/// One element of a batch: the cloud's answer, or the violation of the contract.
pub(crate) type Element<T, E = CloudError> = Checked<Result<T, E>>;
