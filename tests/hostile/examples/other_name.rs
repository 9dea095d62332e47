//! `good` under another name: a swap to it must be refused.
use skydock_hostile::{Hostile, Identity};

struct OtherName;

impl Identity for OtherName {
    const NAME: &str = "impostor";
    const VERSION: &str = "1.0.0";
}

type Plugin = Hostile<OtherName>;

skydock_sdk::export!(Plugin: instances, load_balancers, routes, zones);
