//! Whether a process that this one has replaced may have requested load balancers just before.

use std::time::Duration;

use crate::cloud::Cloud;

/// How long the requests of a process that was killed can still succeed. A busy Octavia handles them
/// late.
const LATE_REQUESTS: Duration = Duration::from_secs(30);

/// Cached since the start of this process.
const RUNNING: &str = "running";

/// The longest time for which the host caches a value.
const RUNNING_TIME: Duration = Duration::from_secs(24 * 3600);

/// Cached as long as requests of the previous process can still succeed.
const STARTING: &str = "starting";

/// Starts the time in which requests of the previous process can still succeed, unless it has
/// started before.
pub(super) fn start(cloud: &Cloud<'_>) {
    if cloud.host.cached(RUNNING).is_none() {
        cloud.host.cache(RUNNING, &[1], RUNNING_TIME);
        cloud.host.cache(STARTING, &[1], LATE_REQUESTS);
    }
}

/// Returns true if a request of the previous process may still create a load balancer. It is not
/// known which. The first question starts this time.
pub(super) fn may_have_requested(cloud: &Cloud<'_>) -> bool {
    start(cloud);
    cloud.host.cached(STARTING).is_some()
}
