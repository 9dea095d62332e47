//! How calls are sent to AWS.

use super::call::Call;
use super::failure::Failure;

/// Sends all calls of a list at once. The plugin sends them over HTTP; tests have their own
/// implementations.
pub trait Wire {
    /// Sends the calls and returns the bodies of the answers, in the same order.
    fn send(&self, calls: &[Call]) -> Vec<Result<String, Failure>>;
}
