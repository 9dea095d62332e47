//! The cloud of this crate with all capabilities.
use skydock_test_plugin::{Hostile, Identity};

struct Good;

impl Identity for Good {
    const NAME: &str = "hostile";
    const VERSION: &str = "1.0.0";
}

type Plugin = Hostile<Good>;

skydock_sdk::export!(Plugin: instances, load_balancers, routes, zones);
