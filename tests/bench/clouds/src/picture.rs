//! Describes a cluster and its cloud in words that do not depend on the side: without IDs, times,
//! and random values.

mod aws;
mod cluster;
mod openstack;
mod words;
mod xml;

use anyhow::Result;
use serde_json::{Value, json};
use skydock_e2e::Machine;

use self::words::Words;
use crate::cluster::Fleet;
use crate::place::Place;

/// Describes both. Instances are named by number, in order of their creation.
pub(crate) async fn take(
    fleet: &Fleet,
    place: &Place<'_>,
    machines: &[(usize, Machine)],
) -> Result<Value> {
    let mut words = Words::default();
    for (number, machine) in machines {
        let name = format!("node-{number}");
        words.say(&machine.id, &format!("id({name})"));
        words.say(&machine.node, &name);
        words.say(&machine.address, &format!("address({name})"));
    }
    let (nodes, services) = (
        fleet.cluster().nodes().await?,
        fleet.cluster().services().await?,
    );
    cluster::name(&services, &mut words);
    let cloud = match place {
        Place::OpenStack(site) => openstack::openstack(site.project(), &mut words).await?,
        Place::Aws(site, cloud, _) => aws::aws(cloud, site.network(), &mut words).await?,
    };
    Ok(json!({"cluster": cluster::of(&nodes, &services, &words)?, "cloud": cloud}))
}
