//! The next version of `good`, to which a swap replaces it.
use skydock_test_plugin::{Hostile, Identity};

struct GoodV2;

impl Identity for GoodV2 {
    const NAME: &str = "hostile";
    const VERSION: &str = "2.0.0";
}

type Plugin = Hostile<GoodV2>;

skydock_sdk::export!(Plugin: instances, load_balancers, routes, zones);
