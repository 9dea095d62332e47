//! A small cloud in one process, for the examples and tests of providers. `README.md` describes its
//! API.
//!
//! [`Cloud`] is the whole cloud without I/O: a request and the time go in, an answer comes out.
//! [`Simcloud`] serves it over HTTP.
//!
//! ```
//! use serde_json::json;
//! use skydock_simcloud::{Options, Simcloud};
//!
//! let cloud = Simcloud::start(Options { servers: 2, ..Options::default() })?;
//! // A provider uses `cloud.url()` and `cloud.token()`. The test uses the same API, and hooks, without the network.
//! cloud.request("PATCH", "/_sim/servers/srv-1", &json!({"state": "stopped"}));
//! let (status, server) = cloud.request("GET", "/v1/servers/srv-1", &json!(null));
//! assert_eq!((status, &server["state"]), (200, &json!("stopped")));
//! # Ok::<(), std::io::Error>(())
//! ```

mod api;
mod cloud;
mod failures;
mod history;
mod options;
mod rate;
mod resources;
mod serve;
mod settings;

pub use api::answer::{Answer, Outcome, Reply, Request};
pub use cloud::Cloud;
pub use options::Options;
pub use rate::RateLimit;
pub use serve::Simcloud;
pub use settings::Settings;
