//! Changes the properties, the listeners and the instances of a classic load balancer.

use std::collections::{BTreeMap, BTreeSet};

use skydock_sdk::types::CloudError;

use super::{
    desired_load_balancer::DesiredLoadBalancer,
    observed_load_balancer::ObservedLoadBalancer,
    plan::{self, ListenerChanges},
};
use crate::{
    client::api::{
        self,
        call::Call,
        elb::{self, Description, Listener},
        failure::Failure,
        partly,
    },
    cloud::Cloud,
    tags::Tags,
};

/// Changes properties and listeners to what is requested, and returns the errors.
pub(super) fn apply(
    cloud: &Cloud<'_>,
    desired: &DesiredLoadBalancer,
    observed: &ObservedLoadBalancer,
    groups: &[String],
) -> Vec<CloudError> {
    let listeners = plan::listener_changes(desired, &observed.balancer);

    // Listeners need policies that exist, and policies are set for listeners that exist.
    let [first, second] = plan::stages(desired, observed, groups);
    let mut errors = carry_out(cloud, &first);
    errors.extend(change_listeners(cloud, &desired.name, listeners));
    errors.extend(carry_out(cloud, &second));
    errors
}

/// Sends the calls of a stage at once, and returns the errors.
fn carry_out(cloud: &Cloud<'_>, stage: &[Call]) -> Vec<CloudError> {
    let mut errors = Vec::new();
    for (call, answer) in stage.iter().zip(cloud.wire.send(stage)) {
        match answer {
            // An earlier call created it.
            Err(failure) if failure.code() == "DuplicatePolicyName" => {}
            Err(failure) if call.action == elb::ADD_TAGS => {
                let (name, tags) = elb::tags_in(call);
                let send =
                    |part: &Tags| api::one(cloud.wire, &elb::add_tags(&name, part)).map(|_| ());
                errors.extend(partly::add_tags(&tags, failure, &send).err());
            }
            Err(failure) => errors.push(failure.into()),
            Ok(_) => {}
        }
    }
    errors
}

/// Changes listeners, and returns the errors: certificates in place, then additional listeners, and
/// then those that are replaced or removed. A listener whose certificate AWS rejects stays as it is;
/// one whose replacement AWS rejects is created again as it was.
fn change_listeners(cloud: &Cloud<'_>, name: &str, changes: ListenerChanges) -> Vec<CloudError> {
    let ListenerChanges {
        mut gone,
        mut fresh,
        certified,
    } = changes;
    let create =
        |listener| elb::with_listeners(elb::on("CreateLoadBalancerListeners", name), [listener]);

    let mut errors = Vec::new();
    let calls: Vec<Call> = certified
        .iter()
        .map(|(_, after)| elb::set_certificate(name, after))
        .collect();
    for ((before, after), answer) in certified.into_iter().zip(cloud.wire.send(&calls)) {
        match answer.map_err(CloudError::from) {
            Ok(_) if before.is_except_certificate(&after) => {}
            // The policy of the official provider does not include this permission.
            Ok(_) | Err(CloudError::Denied(_)) => {
                gone.push(before);
                fresh.push(after);
            }
            Err(error) => errors.push(error),
        }
    }

    // AWS allows one listener per port, so successors are created after the deletion.
    let is_taken = |listener: &Listener| {
        let port = listener.load_balancer_port;
        gone.iter().any(|one| one.load_balancer_port == port)
    };
    let (replacing, added): (Vec<Listener>, Vec<Listener>) = fresh.into_iter().partition(is_taken);
    let calls: Vec<Call> = added.iter().map(create).collect();
    errors.extend(carry_out(cloud, &calls));

    if gone.is_empty() {
        return errors;
    }
    let ports = gone.iter().map(|one| one.load_balancer_port);
    let call = elb::on("DeleteLoadBalancerListeners", name).list("LoadBalancerPorts", ports);
    if let Err(failure) = api::one(cloud.wire, &call) {
        errors.push(failure.into());
        return errors;
    }

    let calls: Vec<Call> = replacing.iter().map(create).collect();
    for (listener, answer) in replacing.iter().zip(cloud.wire.send(&calls)) {
        let Err(failure) = answer else { continue };
        errors.push(failure.into());
        let same_port = |one: &&Listener| one.load_balancer_port == listener.load_balancer_port;
        if let Some(before) = gone.iter().find(same_port) {
            // If this fails too, the error above leads to a retry.
            _ = api::one(cloud.wire, &create(before));
        }
    }
    errors
}

/// Registers and deregisters instances. Returns the instances that AWS rejected, and the errors.
pub(super) fn change_instances(
    cloud: &Cloud<'_>,
    there: &Description,
    instance_ids: &BTreeSet<String>,
) -> (BTreeMap<String, Failure>, Vec<CloudError>) {
    let name = &there.load_balancer_name;
    let (fresh, gone) = plan::instance_changes(there, instance_ids);
    let mut rejected = BTreeMap::new();
    let mut errors = Vec::new();
    let send = |action: &'static str, ids: &[String]| match ids {
        [] => Ok(()),
        ids => api::one(cloud.wire, &elb::change_instances(action, name, ids)).map(|_| ()),
    };
    let register = |ids: &[String]| send("RegisterInstancesWithLoadBalancer", ids);

    let mut registered = register(&fresh);
    let deregister = |ids: &[String]| send("DeregisterInstancesFromLoadBalancer", ids);
    let deregistered = deregister(&gone);
    // After others have been deregistered, there is room.
    if registered.as_ref().is_err_and(Failure::is_target_quota) && !gone.is_empty() {
        registered = register(&fresh);
    }

    if let Err(failure) = registered {
        let outcome = partly::without_rejected(&fresh, failure, &|id| id, &register);
        rejected.extend(outcome.rejected);
        errors.extend(outcome.failed.map(CloudError::from));
    }
    if let Err(failure) = deregistered {
        let outcome = partly::without_rejected(&gone, failure, &|id| id, &deregister);
        // What AWS does not know is not behind the load balancer.
        let failed = outcome.rejected.into_iter().map(|(_, failure)| failure);
        let failed = failed.filter(|failure| !failure.is_no_target());
        errors.extend(failed.chain(outcome.failed).map(CloudError::from));
    }

    (rejected, errors)
}
