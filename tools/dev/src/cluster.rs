//! `skydock dev`: the embedded cluster, and what its user sees.

pub(crate) mod kubeconfig;
pub(crate) mod log;
pub(crate) mod run;
pub(crate) mod simcloud;
