//! A valid component with instances that does not export `plugin`.
use skydock_sdk::instances::{Instance, Presence};
use skydock_sdk::types::Node;
use skydock_sdk::{Instances, Result};

struct Headless;

impl Instances for Headless {
    fn check(nodes: Vec<Node>) -> Result<Vec<Result<Presence>>> {
        Ok(nodes.iter().map(|_| Ok(Presence::Running)).collect())
    }

    fn describe(nodes: Vec<Node>) -> Result<Vec<Result<Instance>>> {
        Ok(nodes.iter().map(|_| Ok(Instance::default())).collect())
    }
}

// `export!` always exports `plugin`. This macro is the part of it that exports one capability.
skydock_sdk::__export_capability!(instances Headless);
