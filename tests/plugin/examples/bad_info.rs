//! A plugin with instances that reports neither its name nor its provider ID prefixes.
use skydock_sdk::instances::{Instance, Presence};
use skydock_sdk::plugin::{PluginInfo, Settings};
use skydock_sdk::types::Node;
use skydock_sdk::{Instances, Plugin, Result};

struct Nobody;

impl Plugin for Nobody {
    fn configure(_: Settings) -> Result<()> {
        Ok(())
    }

    fn info() -> PluginInfo {
        PluginInfo {
            max_batch: u32::MAX,
            ..PluginInfo::default()
        }
    }
}

impl Instances for Nobody {
    fn check(nodes: Vec<Node>) -> Result<Vec<Result<Presence>>> {
        Ok(nodes.iter().map(|_| Ok(Presence::Absent)).collect())
    }

    fn describe(nodes: Vec<Node>) -> Result<Vec<Result<Instance>>> {
        Ok(nodes.iter().map(|_| Ok(Instance::default())).collect())
    }
}

skydock_sdk::export!(Nobody: instances);
