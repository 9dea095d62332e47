//! How calls get to AWS.

use super::call::Call;
use super::failure::Failure;

/// Sends calls, all of a list at once. The plugin has one that goes out over HTTP; a test may have others.
pub trait Wire {
    /// The bodies of the answers, in the same order.
    fn send(&self, calls: &[Call]) -> Vec<Result<String, Failure>>;
}
