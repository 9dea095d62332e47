//! Random faults of a cloud.

use std::time::Duration;

use rand::{Rng as _, rngs::StdRng};
use skydock_clouds::{Fault, Rule};

use crate::site::Site;

/// Adds random rules to the proxy in front of a cloud.
pub(crate) fn spoil(site: &dyn Site, chance: &mut StdRng) {
    // AWS is eventually consistent by design. In OpenStack, only database replicas can be outdated.
    let short = Duration::from_millis(300);
    let (all, reads, stale) = match site.provider() {
        "aws" => ("*", "*:Describe*", Duration::from_secs(4)),
        // To begin with, the provider reads the endpoints of a cloud that is not Microsoft's 78
        // times, and repeats none of these requests.
        "azure" => ("* /subscriptions/*", "GET /subscriptions/*", short),
        _ => ("*", "GET *", short),
    };
    let faults = [
        (
            all,
            Fault::Latency(Duration::ZERO, Duration::from_millis(300)),
            0.3,
        ),
        (all, Fault::Throttle(Some(1)), 0.04),
        (all, Fault::Throttle(None), 0.02),
        (all, Fault::Status(500), 0.04),
        (all, Fault::Status(503), 0.04),
        (all, Fault::Rejected, 0.04),
        (all, Fault::Lost, 0.08),
        (all, Fault::Cut(40), 0.04),
        (reads, Fault::Stale(stale), 0.06),
        (reads, Fault::WrongPage, 0.03),
        (reads, Fault::Garbage("<html>maintenance</html>"), 0.03),
    ];
    for (operations, fault, probability) in faults {
        if chance.random_bool(0.7) {
            site.proxy()
                .rule(Rule::new(operations, fault).with_probability(probability));
        }
    }
}
