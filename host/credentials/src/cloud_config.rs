//! Splits a cloud configuration: what is secret becomes a credential, and the plugin gets the rest.

pub(crate) mod cloud_conf;
pub mod clouds_file;
pub(crate) mod keystone_login;
pub(crate) mod withheld;
