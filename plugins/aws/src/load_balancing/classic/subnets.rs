//! Changes the subnets of an existing classic load balancer. `common/subnet.rs` chooses them.

use std::collections::BTreeSet;

use skydock_sdk::{Result, types::CloudError};

use super::{desired_load_balancer::DesiredLoadBalancer, scheme};
use crate::{
    client::api::{
        self,
        call::Call,
        elb::{self, Description},
        failure::Answer,
        partly,
    },
    cloud::Cloud,
    tags::Cluster,
};

/// The changes of subnets. AWS allows one subnet per zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Changes {
    /// The subnets in additional zones.
    added: BTreeSet<String>,
    /// The subnets that are replaced by others in the same zones.
    replaced: Vec<Replacement>,
    /// The other subnets to detach.
    removed: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Replacement {
    current: String,
    next: String,
}

/// Returns the changes from the attached subnets to the wanted ones, by the zone of each.
fn changes(
    there: &BTreeSet<String>,
    wanted: &BTreeSet<String>,
    zone: &dyn Fn(&str) -> Option<String>,
) -> Changes {
    let mut changes = Changes {
        removed: there.difference(wanted).cloned().collect(),
        ..Changes::default()
    };

    for fresh in wanted.difference(there) {
        let of = zone(fresh);
        let same_zone = |gone: &&String| of.is_some() && zone(gone) == of;
        match changes.removed.iter().find(same_zone).cloned() {
            Some(gone) => {
                changes.removed.remove(&gone);
                changes.replaced.push(Replacement {
                    current: gone,
                    next: fresh.clone(),
                });
            }
            None => _ = changes.added.insert(fresh.clone()),
        }
    }
    changes
}

/// Attaches and detaches subnets, and returns the errors. The subnets of a load balancer with the
/// other scheme are not changed.
pub(super) fn settle(
    cloud: &Cloud<'_>,
    cluster: &Cluster,
    desired: &DesiredLoadBalancer,
    there: &Description,
) -> Vec<CloudError> {
    let other_scheme = !there.scheme.is_empty() && there.scheme != scheme(desired.internal);
    if other_scheme {
        return Vec::new();
    }
    match wanted(cloud, cluster, desired, there) {
        Ok(changes) => apply(cloud, &there.load_balancer_name, &changes),
        Err(error) => vec![error],
    }
}

fn wanted(
    cloud: &Cloud<'_>,
    cluster: &Cluster,
    desired: &DesiredLoadBalancer,
    there: &Description,
) -> Result<Changes> {
    let attached: BTreeSet<String> = there.subnets.items.iter().cloned().collect();
    let vpc = &there.vpc_id;
    let wanted = if desired.subnets.is_empty() {
        cloud.subnets_with(cluster, vpc, desired.need(), &attached)?
    } else {
        let named = cloud.subnets(cluster, vpc, &desired.subnets, desired.need())?;
        named.into_iter().map(|(id, _)| id).collect()
    };

    if wanted == attached {
        return Ok(Changes::default());
    }
    let zones = cloud.zones_of_subnets(cluster, vpc)?;
    let zone = |id: &str| zones.get(id).cloned();
    Ok(changes(&attached, &wanted, &zone))
}

/// Attaches before it detaches, except in a zone that has a subnet already: AWS allows one subnet
/// per zone. It also rejects that the only subnet is detached; then the load balancer keeps it.
fn apply(cloud: &Cloud<'_>, name: &str, changes: &Changes) -> Vec<CloudError> {
    let send = |action: &'static str, ids: &[&String]| -> Answer<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let call: Call = elb::on(action, name).list("Subnets", ids);
        api::one(cloud.wire, &call)?;
        Ok(())
    };
    let attach = |ids: &[&String]| send("AttachLoadBalancerToSubnets", ids);
    let detach = |ids: &[&String]| send("DetachLoadBalancerFromSubnets", ids);

    let added: Vec<&String> = changes.added.iter().collect();
    let mut errors = Vec::new();
    if let Err(failure) = attach(&added) {
        let outcome = partly::without_rejected(&added, failure, &|id| id, &attach);
        let rejected = outcome.rejected.into_iter().map(|(_, failure)| failure);
        errors.extend(rejected.chain(outcome.failed).map(CloudError::from));
        // The load balancer may need the others.
        return errors;
    }

    // One by one, and before the last step, so that another one is attached meanwhile.
    for Replacement { current, next } in &changes.replaced {
        if let Err(error) = detach(&[current]) {
            errors.push(error.into());
        } else if let Err(error) = attach(&[next]) {
            errors.push(error.into());
            // If this fails too, the error above leads to a retry.
            _ = attach(&[current]);
        }
    }

    let detached = detach(&changes.removed.iter().collect::<Vec<_>>());
    errors.extend(detached.err().map(CloudError::from));
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Memory, Scripted, nothing, rejection, setup};

    fn ids(words: &str) -> BTreeSet<String> {
        words.split_whitespace().map(str::to_owned).collect()
    }

    /// Changes the subnets of a load balancer, whose IDs begin with the zone. Returns the accepted
    /// calls; those with one of these IDs are rejected.
    fn applied(there: &str, wanted: &str, rejected: &[&str]) -> (usize, String) {
        let zone = |id: &str| id.chars().next().map(String::from);
        let changes = changes(&ids(there), &ids(wanted), &zone);
        let log = std::cell::RefCell::new(Vec::new());
        let wire = Scripted::new(|call: &Call| {
            let subnets = call
                .params
                .iter()
                .filter(|(key, _)| key.starts_with("Subnets"));
            let subnets: Vec<&str> = subnets.map(|(_, id)| id.as_str()).collect();
            if subnets.iter().any(|id| rejected.contains(id)) {
                return rejection(call, "InvalidConfigurationRequest");
            }
            let sign = if call.action.starts_with("Attach") {
                '+'
            } else {
                '-'
            };
            log.borrow_mut()
                .push(format!("{sign}{}", subnets.join(",")));
            nothing(call)
        });
        let (setup, store, none) = (setup(), Memory::default(), Vec::new);
        let cloud = Cloud::new(&setup, &wire, &store, &none, 0);
        let errors = apply(&cloud, "lb", &changes).len();
        (errors, log.borrow().join(" "))
    }

    #[test]
    fn subnets_are_attached_before_others_are_detached() {
        for (there, wanted, rejected, errors, log) in [
            ("a1", "a1", &[][..], 0, ""),
            ("a1", "b1", &[], 0, "+b1 -a1"),
            ("a1", "b1", &["b1"], 1, ""),
            // As AWS answers if it is the only one.
            ("a1", "a2", &["a1"], 1, ""),
            ("a1 b1", "a2 b1", &[], 0, "-a1 +a2"),
            ("a1 b1", "a2 b2", &[], 0, "-a1 +a2 -b1 +b2"),
            ("a1 b1", "a2", &[], 0, "-a1 +a2 -b1"),
            ("a1 b1", "a2 b1", &["a2"], 1, "-a1 +a1"),
            ("a1 b1 c1", "a2 d1", &[], 0, "+d1 -a1 +a2 -b1,c1"),
            ("a1 b1", "a2 c1", &["a1"], 1, "+c1 -b1"),
        ] {
            assert_eq!(
                applied(there, wanted, rejected),
                (errors, log.to_owned()),
                "{there} -> {wanted}, {rejected:?}"
            );
        }
    }
}
