//! Zones: all nodes are in the same zone.
use skydock_sdk::types::Node;
use skydock_sdk::zones::Zone;
use skydock_sdk::{Result, Zones};

use crate::behavior::{Behavior, Lie};
use crate::instances::each;
use crate::{CONFIG, Hostile, Identity};

impl<I: Identity> Zones for Hostile<I> {
    fn locate(nodes: Vec<Node>) -> Result<Vec<Result<Zone>>> {
        let config = CONFIG.get()?;
        Ok(each(&nodes, config.zones, |_, behavior| {
            Ok(zone(behavior, &config.region))
        }))
    }
}

fn zone(behavior: Behavior, region: &str) -> Zone {
    let zone = match behavior {
        Behavior::Lie(Lie::Label) => "no spaces, please!".into(),
        Behavior::Lie(Lie::Huge) => "x".repeat(1 << 20),
        _ => "z1".into(),
    };
    Zone {
        zone: Some(zone),
        region: Some(region.into()),
    }
}
