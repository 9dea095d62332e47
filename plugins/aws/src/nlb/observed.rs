//! What there is of a network load balancer.

use std::collections::{BTreeMap, BTreeSet};

use skydock_sdk::{Result, log};

use super::{
    plan::Step,
    wish::{Stack, Wish, default_attributes},
};
use crate::{
    api::{
        self,
        call::Call,
        elbv2::{self, Found, Listener, LoadBalancer, Target, TargetGroup},
        failure::{Answer, Failure},
        wire::Wire,
    },
    tags::Tags,
};

/// What there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    /// The load balancer.
    pub(crate) balancer: LoadBalancer,
    /// Tags of the load balancer and its groups by ARN; none if the credential may not read them.
    pub(crate) tags: Option<BTreeMap<String, Tags>>,
    /// Its listeners.
    pub(crate) listeners: Vec<Listener>,
    /// Its target groups.
    pub(crate) groups: Vec<TargetGroup>,
    /// Targets by group.
    pub(crate) targets: BTreeMap<String, BTreeSet<Target>>,
    /// Its attributes.
    pub(crate) attributes: BTreeMap<String, String>,
    /// Attributes by group; read only if the Service sets any.
    pub(crate) group_attributes: BTreeMap<String, BTreeMap<String, String>>,
    /// The security group that was made for it.
    pub(crate) managed_group: Option<String>,
}

impl Observed {
    /// Of a load balancer that was made this moment.
    pub(crate) fn fresh(balancer: LoadBalancer) -> Self {
        Self { balancer, attributes: default_attributes(), ..Self::default() }
    }

    /// Looks at a load balancer: two rounds of calls.
    ///
    /// # Errors
    /// If AWS cannot be asked.
    pub(crate) fn look(wire: &dyn Wire, balancer: LoadBalancer, wish: &Wish) -> Result<Self> {
        let arn = balancer.load_balancer_arn.clone();
        let calls = [elbv2::groups_of(&arn), elbv2::listeners(&arn), elbv2::attributes(&arn)];
        // What AWS does not list is as it is at first.
        let mut observed = Self { balancer, attributes: default_attributes(), ..Self::default() };
        let mut answers = send(wire, &calls).into_iter();
        observed.groups = answers.next().map(elbv2::groups).transpose()?.unwrap_or_default();
        for found in answers {
            let found = found?;
            observed.listeners.extend(found.listeners);
            observed.attributes.extend(found.attributes);
        }
        let groups: Vec<String> = observed.groups.iter().map(|group| group.target_group_arn.clone()).collect();
        let tagged: Vec<&str> = [arn.as_str()].into_iter().chain(groups.iter().map(String::as_str)).collect();
        let mut calls: Vec<Call> = tagged.chunks(elbv2::TAGGED).map(|part| elbv2::tags(part.iter().copied())).collect();
        let (tags, targets) = (calls.len(), groups.len());
        calls.extend(groups.iter().map(|group| elbv2::targets(group)));
        if !wish.group_attributes.is_empty() {
            calls.extend(groups.iter().map(|group| elbv2::group_attributes(group)));
        }
        let mut answers = send(wire, &calls).into_iter();
        observed.tags = read_tags(answers.by_ref().take(tags))?;
        for (group, found) in groups.iter().zip(answers.by_ref().take(targets)) {
            observed.targets.insert(group.clone(), found?.targets.into_iter().collect());
        }
        for (group, found) in groups.iter().zip(answers) {
            observed.group_attributes.insert(group.clone(), found?.attributes);
        }
        Ok(observed)
    }

    /// Puts to it what a step has changed.
    pub(crate) fn absorb(&mut self, step: &Step, found: Found) {
        match step {
            Step::CreateGroup(_) => self.groups.extend(found.groups),
            Step::Register(group, targets) => {
                self.targets.entry(group.clone()).or_default().extend(targets.iter().cloned());
            }
            Step::Deregister(group, targets) => {
                self.targets.entry(group.clone()).or_default().retain(|target| !targets.contains(target));
            }
            Step::CreateListener(..) => self.listeners.extend(found.listeners),
            Step::ModifyListener(arn, front, group) => {
                for listener in self.listeners.iter_mut().filter(|listener| listener.listener_arn == *arn) {
                    super::steps::as_modified(listener, front, group);
                }
            }
            Step::DeleteListener(arn) => self.listeners.retain(|listener| listener.listener_arn != *arn),
            Step::DeleteGroup(arn) => self.groups.retain(|group| group.target_group_arn != *arn),
            Step::ModifyGroup(arn, wanted) => {
                for group in self.groups.iter_mut().filter(|group| group.target_group_arn == *arn) {
                    super::steps::as_checked(group, &wanted.health);
                }
            }
            Step::SetAttributes(set) => self.attributes.extend(set.clone()),
            Step::SetGroupAttributes(arn, set) => {
                self.group_attributes.entry(arn.clone()).or_default().extend(set.clone());
            }
            Step::AddTags(arns, tags) => {
                for arn in arns {
                    self.tags.get_or_insert_default().entry(arn.clone()).or_default().extend(tags.clone());
                }
            }
            Step::SetSecurityGroups(groups) => self.balancer.security_groups = groups.clone().into(),
            Step::SetIpAddressType(kind) => (*kind).clone_into(&mut self.balancer.ip_address_type),
        }
    }
}

impl Stack {
    /// The address type asked for; none if it is left as it is.
    pub(crate) fn fixed(self) -> Option<&'static str> {
        match self {
            Self::Left | Self::Preferred => None,
            Self::Ipv4 => Some("ipv4"),
            Self::Dual => Some("dualstack"),
        }
    }
}

/// Sends calls at once. AWS takes none of the targets if a machine of one is stopped; then the others are sent again.
pub(crate) fn send(wire: &dyn Wire, calls: &[Call]) -> Vec<Answer<Found>> {
    let answers = wire.send(calls);
    let answers = calls.iter().zip(answers).map(|(call, answer)| match answer {
        Err(failure) if failure.code() == "InvalidTarget" => without_stopped(wire, call, failure),
        answer => elbv2::read(call, &answer?),
    });
    answers.collect()
}

/// Registers the targets that the refusal does not name. The others come when their machines run again: the host leaves nodes of stopped
/// machines out, and tells when they are back.
fn without_stopped(wire: &dyn Wire, call: &Call, failure: Failure) -> Answer<Found> {
    match elbv2::without_targets(call, &failure.to_string()) {
        Some(rest) if rest == *call => Err(failure),
        Some(rest) => elbv2::read(&rest, &api::one(wire, &rest)?),
        None => Ok(Found::default()),
    }
}

/// Tags by ARN; none if the credential may not read them: the official provider's policy does not ask for that right.
///
/// # Errors
/// If AWS cannot be asked.
pub(crate) fn read_tags(answers: impl Iterator<Item = Answer<Found>>) -> Answer<Option<BTreeMap<String, Tags>>> {
    let mut tags = BTreeMap::new();
    for answer in answers {
        match answer {
            Ok(found) => tags.extend(found.tags),
            Err(Failure::Refused { code, .. }) if code == "AccessDenied" || code == "UnauthorizedOperation" => {
                log::warn(
                    "tags",
                    "the credential has no right to elasticloadbalancing:DescribeTags: tags are not checked",
                );
                return Ok(None);
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(Some(tags))
}
