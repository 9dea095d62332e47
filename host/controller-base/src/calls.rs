//! What follows from the errors of calls of the cloud: when to retry, and who hears of it.

pub mod progress;
pub mod retry;
