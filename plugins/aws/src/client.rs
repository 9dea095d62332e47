//! Requests to the APIs of AWS.

pub mod api;
pub mod endpoint;
pub mod http;
