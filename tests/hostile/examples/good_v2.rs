//! `good`, one version later: what a swap replaces it with.
use skydock_hostile::{Hostile, Identity};

struct GoodV2;

impl Identity for GoodV2 {
    const NAME: &str = "hostile";
    const VERSION: &str = "2.0.0";
}

type Plugin = Hostile<GoodV2>;

skydock_sdk::export!(Plugin: instances, load_balancers, routes, zones);
