//! `good` with another name. A swap to it must be rejected.
use skydock_test_plugin::{Hostile, Identity};

struct OtherName;

impl Identity for OtherName {
    const NAME: &str = "impostor";
    const VERSION: &str = "1.0.0";
}

type Plugin = Hostile<OtherName>;

skydock_sdk::export!(Plugin: instances, load_balancers, routes, zones);
