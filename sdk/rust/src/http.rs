//! Requests to the cloud.
//!
//! A plugin has no sockets. The host sends its requests, if the operator's rules allow them, and
//! **adds the credential**: a plugin needs no token or key. Calls block; [`send_all`] sends several
//! requests concurrently.
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
//! /// One request per server, eight at a time. If one fails, the others are not affected.
//! fn servers(api: &str, ids: &[&str]) -> Result<Vec<Result<Server>>> {
//!     let requests = ids.iter().map(|id| Ok(Request::get(format!("{api}/servers/{}", http::segment(id)?))));
//!     let answers = http::send_all(requests.collect::<Result<_>>()?, 8);
//!     Ok(answers.into_iter().map(|answer| answer?.success()?.json()).collect())
//! }
//!
//! // Natively, for example in a unit test, requests are sent over plain HTTP, unless the test answers them.
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
//! An answer has at most 16 MiB (see [`Request::at_most`]; all answers of a call share the memory
//! of the instance), and a request times out early enough for the call to return
//! ([`Request::timeout`]). The host has limits of its own: 8 KiB for path and query, 16 KiB for
//! headers. Redirects are not followed. A plugin that sends no requests does not import
//! `wasi:http`.
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
#[cfg_attr(
    not(target_arch = "wasm32"),
    allow(dead_code, reason = "natively only for its tests and lints")
)]
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

/// Maximum number of requests in flight, whatever the argument of [`send_all`]. Each uses three of
/// the 1,024 handles of all instances of the plugin.
const MOST_AT_ONCE: usize = 32;

/// Sends a request and waits for the complete response, whatever its status. [`Response::success`]
/// tells successes from errors.
///
/// # Errors
///
/// If there is no response: [`denied`](crate::types::CloudError::Denied) if the host does not allow
/// the request, [`unavailable`](crate::types::CloudError::Unavailable) if the cloud cannot be
/// reached or does not answer in time, and [`internal`](crate::types::CloudError::Internal) if the
/// request is malformed or something is too large.
pub fn send(request: Request) -> Result<Response> {
    let none = || {
        Err(crate::types::CloudError::internal(
            "a request was neither sent nor denied",
        ))
    };
    send_all(vec![request], 1).pop().unwrap_or_else(none)
}

/// Sends all requests, at most `at_once` (1 to 32) concurrently, and waits for all responses.
/// Returns one result for each request, in the same order. A request that fails or is throttled
/// does not stop the others.
///
/// Eight concurrent requests are a good choice. A host has 1,024 handles for all instances of a
/// plugin, a request in flight uses three, and up to 36 calls run at a time: if each call had more
/// than nine requests in flight, the host would end some of the calls.
///
/// # Errors
///
/// Each result is what [`send`] would have returned.
#[must_use]
pub fn send_all(requests: Vec<Request>, at_once: usize) -> Vec<Result<Response>> {
    backend::send_all(requests, at_once.clamp(1, MOST_AT_ONCE))
}
