//! Requests to the cloud.
//!
//! A plugin has no sockets. It asks its host, which sends what the operator's rules permit and **adds the credential by
//! itself**: a plugin needs no token and no key. Calls block; [`send_all`] has many requests in the air at once.
//!
//! ```
//! use serde::Deserialize;
//! use skydock_sdk::Result;
//! use skydock_sdk::http::{self, Request, Response};
//!
//! #[derive(Debug, Deserialize, PartialEq)]
//! struct Server {
//!     id: String,
//!     status: String,
//! }
//!
//! /// One look-up a server, eight at a time. One that fails does not spoil the others.
//! fn servers(api: &str, ids: &[&str]) -> Result<Vec<Result<Server>>> {
//!     let requests = ids.iter().map(|id| Ok(Request::get(format!("{api}/servers/{}", http::segment(id)?))));
//!     let answers = http::send_all(requests.collect::<Result<_>>()?, 8);
//!     Ok(answers.into_iter().map(|answer| answer?.success()?.json()).collect())
//! }
//!
//! // Natively, as in a unit test, a request goes out over plain HTTP, unless the test answers by itself.
//! let _guard = http::native::intercept(|request| {
//!     let found = request.url.ends_with("/7");
//!     let body = if found { r#"{"id": "7", "status": "ACTIVE"}"# } else { r#"{"message": "no such server"}"# };
//!     Some(Response { status: if found { 200 } else { 404 }, body: body.into(), ..Response::default() })
//! });
//! let found = servers("https://cloud.example/v2", &["7", "8"])?;
//! assert_eq!(found[0].as_ref().map(|server| server.status.as_str()), Ok("ACTIVE"));
//! assert_eq!(found[1], Err(skydock_sdk::types::CloudError::not_found("HTTP 404: no such server")));
//! # Ok::<(), skydock_sdk::types::CloudError>(())
//! ```
//!
//! # Limits
//!
//! An answer has at most 16 MiB unless [`Request::at_most`] says otherwise, and a request ends in time for the call to
//! answer ([`Request::timeout`]). The host has bounds of its own: a path and its query have 8 KiB, headers 16 KiB. Redirects
//! are not followed. A plugin that makes no request does not import `wasi:http`.
use crate::Result;

mod address;
mod encode;
mod failure;
mod page;
mod prepared;
mod request;
mod response;
mod retry_after;
mod said;
mod time;

#[cfg(any(target_arch = "wasm32", test))]
#[cfg_attr(not(target_arch = "wasm32"), allow(dead_code, reason = "natively only for its tests and lints"))]
mod guest;
#[cfg(not(target_arch = "wasm32"))]
pub mod native;

#[cfg(target_arch = "wasm32")]
use guest as backend;
#[cfg(not(target_arch = "wasm32"))]
use native as backend;

pub use encode::segment;
pub use page::pages;
pub use request::{Method, Request};
pub use response::Response;

/// Most requests that are in the air at once, whatever [`send_all`] is asked for. Each has three handles, of 1,024 for all
/// instances of the plugin.
const MOST_AT_ONCE: usize = 32;

/// Sends a request and waits for the whole answer, whatever its status: [`Response::success`] tells good from bad.
///
/// # Errors
///
/// If there is no answer: [`denied`](crate::types::CloudError::Denied) if the host refuses to send it,
/// [`unavailable`](crate::types::CloudError::Unavailable) if the cloud cannot be reached or does not answer in time, and
/// [`internal`](crate::types::CloudError::Internal) if the request is malformed or something is too large.
pub fn send(request: Request) -> Result<Response> {
    let none = || Err(crate::types::CloudError::internal("a request was neither sent nor refused"));
    send_all(vec![request], 1).pop().unwrap_or_else(none)
}

/// Sends all requests, at most `at_once` of them (1 to 32) at a time, and waits for all answers: one each, in the same order.
/// One that fails, or is told to slow down, does not stop the others.
///
/// Eight at once is a good number. A host has 1,024 handles for all instances of a plugin, a request in the air takes three, and up
/// to 36 calls run at a time: if each of them had more than nine in the air, the host would end some.
///
/// # Errors
///
/// Each answer is what [`send`] would have answered.
#[must_use]
pub fn send_all(requests: Vec<Request>, at_once: usize) -> Vec<Result<Response>> {
    backend::send_all(requests, at_once.clamp(1, MOST_AT_ONCE))
}
