//! The observed state of a network load balancer.

use std::collections::{BTreeMap, BTreeSet};

use skydock_sdk::{Result, types::Service};

use super::{
    desired_load_balancer::{DesiredLoadBalancer, IpAddressType, attributes},
    steps::{self, Step},
};
use crate::{
    client::api::{
        self,
        call::Call,
        elbv2::{self, Found, Listener, LoadBalancer, Target, TargetGroup},
        failure::{Answer, Failure},
        partly,
        wire::Wire,
    },
    load_balancing::common::{name, warning},
    tags::Tags,
};

/// The action that registers targets.
pub(super) const REGISTER: &str = "RegisterTargets";

/// The action that deregisters targets.
pub(super) const DEREGISTER: &str = "DeregisterTargets";

/// The observed state of a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObservedLoadBalancer {
    pub(crate) balancer: LoadBalancer,
    /// The tags of the load balancer and its target groups by ARN, or `None` if the credentials do
    /// not allow reading them.
    pub(crate) tags: Option<BTreeMap<String, Tags>>,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) groups: Vec<TargetGroup>,
    /// The targets by target group.
    pub(crate) targets: BTreeMap<String, BTreeSet<Target>>,
    pub(crate) attributes: BTreeMap<String, String>,
    /// The attributes by target group. They are only read if the Service sets any.
    pub(crate) group_attributes: BTreeMap<String, BTreeMap<String, String>>,
    /// The targets that AWS rejected by target group, and why.
    pub(crate) rejected: BTreeMap<String, BTreeMap<Target, Failure>>,
    /// True if listeners must keep their target groups, because the nodes do not accept the traffic
    /// of others.
    pub(crate) keeps_target_groups: bool,
    /// The security group that was created for the load balancer.
    pub(crate) managed_group: Option<String>,
}

impl ObservedLoadBalancer {
    /// Returns the state of a load balancer that has just been created.
    pub(crate) fn created(balancer: LoadBalancer) -> Self {
        Self {
            balancer,
            attributes: attributes::defaults(),
            ..Self::default()
        }
    }

    /// Reads the state of a load balancer with two rounds of calls.
    ///
    /// # Errors
    /// Fails if a request to AWS fails.
    pub(crate) fn read(
        wire: &dyn Wire,
        balancer: LoadBalancer,
        service: &Service,
        desired: &DesiredLoadBalancer,
    ) -> Result<Self> {
        let arn = balancer.load_balancer_arn.clone();
        let calls = [
            elbv2::groups_of(&arn),
            elbv2::listeners(&arn),
            elbv2::attributes(&arn),
        ];

        // Attributes that AWS does not list have their defaults.
        let mut observed = Self {
            balancer,
            attributes: attributes::defaults(),
            ..Self::default()
        };

        let mut answers = send(wire, &calls).into_iter();
        observed.groups = answers
            .next()
            .map(|answer| groups_of_service(answer, service))
            .transpose()?
            .unwrap_or_default();
        for found in answers {
            let found = found?;
            observed.listeners.extend(found.listeners);
            observed.attributes.extend(found.attributes);
        }

        observed.read_parts(wire, &arn, !desired.group_attributes.is_empty())?;
        Ok(observed)
    }

    /// Reads the tags, and the targets and attributes of target groups.
    fn read_parts(&mut self, wire: &dyn Wire, arn: &str, with_attributes: bool) -> Result<()> {
        let groups: Vec<String> = self
            .groups
            .iter()
            .map(|group| group.target_group_arn.clone())
            .collect();
        let tagged: Vec<&str> = [arn]
            .into_iter()
            .chain(groups.iter().map(String::as_str))
            .collect();
        let mut calls: Vec<Call> = tagged
            .chunks(elbv2::TAGGED)
            .map(|part| elbv2::tags(part.iter().copied()))
            .collect();
        let tags = calls.len();
        let targets = groups.len();
        calls.extend(groups.iter().map(|group| elbv2::targets(group)));
        if with_attributes {
            calls.extend(groups.iter().map(|group| elbv2::group_attributes(group)));
        }

        // The answers have the order of the calls: tags, then targets, then attributes.
        let mut answers = send(wire, &calls).into_iter();
        self.tags = read_tags(answers.by_ref().take(tags))?;
        for (group, found) in groups.iter().zip(answers.by_ref().take(targets)) {
            self.targets
                .insert(group.clone(), found?.targets.into_iter().collect());
        }
        for (group, found) in groups.iter().zip(answers) {
            self.group_attributes
                .insert(group.clone(), found?.attributes);
        }
        Ok(())
    }

    /// Applies the result of a step.
    pub(crate) fn apply(&mut self, step: &Step, found: Found) {
        match step {
            Step::CreateGroup(_) => self.groups.extend(found.groups),
            Step::Register(group, targets) => {
                let rejected = self.rejected.entry(group.clone()).or_default();
                rejected.extend(found.rejected);
                let registered = targets.iter().filter(|one| !rejected.contains_key(one));
                self.targets
                    .entry(group.clone())
                    .or_default()
                    .extend(registered.cloned());
            }
            Step::Deregister(group, targets) => {
                self.targets
                    .entry(group.clone())
                    .or_default()
                    .retain(|target| !targets.contains(target));
            }
            Step::CreateListener(..) => self.listeners.extend(found.listeners),
            Step::ModifyListener(arn, wanted, group) => {
                let mut listeners = self.listeners.iter_mut();
                if let Some(listener) = listeners.find(|one| one.listener_arn == *arn) {
                    steps::as_modified(listener, wanted, group);
                }
            }
            Step::DeleteListener(arn) => self
                .listeners
                .retain(|listener| listener.listener_arn != *arn),
            Step::DeleteGroup(arn) => self.groups.retain(|group| group.target_group_arn != *arn),
            Step::ModifyGroup(arn, wanted) => {
                let mut groups = self.groups.iter_mut();
                if let Some(group) = groups.find(|one| one.target_group_arn == *arn) {
                    steps::as_checked(group, &wanted.health);
                }
            }
            Step::SetAttributes(set) => self.attributes.extend(set.clone()),
            Step::SetGroupAttributes(arn, set) => {
                self.group_attributes
                    .entry(arn.clone())
                    .or_default()
                    .extend(set.clone());
            }
            Step::AddTags(arns, tags) => {
                for arn in arns {
                    self.tags
                        .get_or_insert_default()
                        .entry(arn.clone())
                        .or_default()
                        .extend(tags.clone());
                }
            }
            Step::RemoveTags(arns, keys) => {
                for arn in arns {
                    let tags = self.tags.get_or_insert_default();
                    tags.entry(arn.clone())
                        .or_default()
                        .retain(|key, _| !keys.contains(key));
                }
            }
            Step::SetSecurityGroups(groups) => {
                self.balancer.security_groups = groups.clone().into();
            }
            Step::SetIpAddressType(kind) => (*kind).clone_into(&mut self.balancer.ip_address_type),
        }
    }
}

impl IpAddressType {
    /// Returns the requested address type, or `None` if it is not changed.
    pub(crate) fn requested(self) -> Option<&'static str> {
        match self {
            Self::Unchanged | Self::DualstackIfPossible => None,
            Self::Ipv4 => Some("ipv4"),
            Self::Dualstack => Some("dualstack"),
        }
    }
}

/// Sends calls at once. If AWS rejects some targets of a call, the others are sent again.
pub(crate) fn send(wire: &dyn Wire, calls: &[Call]) -> Vec<Answer<Found>> {
    let answers = wire.send(calls);
    let answers = calls
        .iter()
        .zip(answers)
        .map(|(call, answer)| match answer {
            Err(failure) if [REGISTER, DEREGISTER].contains(&call.action) => {
                without_rejected(wire, call, failure)
            }
            answer => elbv2::read(call, &answer?),
        });
    answers.collect()
}

/// Registers or deregisters the targets of a rejected call except those that AWS rejects.
fn without_rejected(wire: &dyn Wire, call: &Call, failure: Failure) -> Answer<Found> {
    let group = call
        .params
        .iter()
        .find(|(key, _)| key == "TargetGroupArn")
        .map(|(_, arn)| arn.clone())
        .unwrap_or_default();

    let send = |part: &[Target]| {
        api::one(wire, &elbv2::change_targets(call.action, &group, part)).map(|_| ())
    };
    let targets = elbv2::targets_in(call);
    let outcome = partly::without_rejected(&targets, failure, &|target| &target.id, &send);
    if let Some(failure) = outcome.failed {
        return Err(failure);
    }

    let mut rejected = outcome.rejected;
    if call.action == DEREGISTER {
        // What AWS does not know is no target.
        rejected.retain(|(_, failure)| !failure.is_no_target());
        return match rejected.pop() {
            Some((_, failure)) => Err(failure),
            None => Ok(Found::default()),
        };
    }

    Ok(Found {
        rejected,
        ..Found::default()
    })
}

/// Returns the target groups of a load balancer from the answer to a request for them, without
/// those that were not created for the Service, of which nothing is changed.
///
/// # Errors
/// Fails if a request to AWS fails.
pub(crate) fn groups_of_service(
    answer: Answer<Found>,
    service: &Service,
) -> Answer<Vec<TargetGroup>> {
    let mut groups = elbv2::groups(answer)?;
    groups.retain(|group| name::is_group(&group.target_group_name, service));
    Ok(groups)
}

/// Returns tags by ARN, or `None` if the credentials do not allow reading them: the official
/// provider's policy does not include this permission.
///
/// # Errors
/// Fails if a request to AWS fails.
pub(crate) fn read_tags(
    answers: impl Iterator<Item = Answer<Found>>,
) -> Answer<Option<BTreeMap<String, Tags>>> {
    let mut tags = BTreeMap::new();
    for answer in answers {
        match answer {
            Ok(found) => tags.extend(found.tags),
            Err(failure) if failure.is_of_policy() => {
                warning::tags_not_checked();
                return Ok(None);
            }
            Err(failure) => return Err(failure),
        }
    }

    Ok(Some(tags))
}
