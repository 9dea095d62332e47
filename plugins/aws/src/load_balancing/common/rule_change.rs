//! Changes the rules of one security group so that no client loses access that it keeps.

use std::cell::Cell;

use crate::{
    client::api::{
        self,
        ec2::permission::{self, Rule, Rules, Source},
        failure::{Answer, Failure},
        partly::{self, Outcome},
    },
    cloud::Cloud,
};

/// The number of rules of each address family that AWS allows in a security group by default.
const QUOTA: usize = 60;

/// The changes of one security group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleChange {
    /// The ID of the group.
    pub(crate) group: String,
    /// The rules of the group.
    pub(crate) there: Rules,
    /// The rules to add.
    pub(crate) grant: Rules,
    /// The rules to remove.
    pub(crate) revoke: Rules,
}

/// What happened to the changes of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    /// The group has the rules.
    Done,
    /// Another client has changed the group in the meantime. AWS then changes none of the rules of
    /// a call.
    Raced,
}

impl RuleChange {
    /// Returns true if nothing changes.
    pub(crate) fn is_empty(&self) -> bool {
        self.grant.is_empty() && self.revoke.is_empty()
    }

    /// Returns the rules to remove that no rule to add replaces, and the others. A rule replaces
    /// another one for the same protocol and ports.
    fn split(&self) -> (Rules, Rules) {
        let is_replaced = |rule: &Rule| {
            let same = |other: &Rule| other.protocol == rule.protocol && other.ports == rule.ports;
            self.grant.keys().any(same)
        };
        let revoke = self.revoke.clone().into_iter();
        let (replaced, idle) = revoke.partition(|(rule, _)| is_replaced(rule));
        (idle, replaced)
    }

    /// Returns true if the rules to add fit once the others are removed, although the group is full.
    fn swap_helps(&self) -> bool {
        [false, true].into_iter().all(|v6| {
            let count = |rules: &Rules| rules.keys().filter(|rule| counts(rule, v6)).count();
            let there = count(&self.there);
            let grant = count(&self.grant);
            let revoke = count(&self.revoke);
            grant == 0 || (there >= QUOTA && revoke >= grant)
        })
    }
}

/// Returns true if a rule counts for the quota of this address family.
fn counts(rule: &Rule, v6: bool) -> bool {
    match &rule.source {
        Source::V4(_) => !v6,
        Source::V6(_) => v6,
        Source::Group(_) | Source::Prefix(_) => true,
    }
}

fn is_full(answer: &Answer<Changed>) -> bool {
    let full = |failure: &Failure| failure.code() == "RulesPerSecurityGroupLimitExceeded";
    answer.as_ref().is_err_and(full)
}

impl Cloud<'_> {
    /// Adds rules, and then removes others. A rule that AWS rejects does not keep out the others.
    /// If the group is full, rules that are not replaced are removed first, and then, if that makes
    /// enough room, also the others.
    ///
    /// # Errors
    /// Fails if a request to AWS fails. Rules whose replacement is missing are kept.
    pub(crate) fn change_rules(&self, change: &RuleChange) -> Answer<Changed> {
        let (idle, replaced) = change.split();
        let mut revoke = &change.revoke;
        let mut granted = self.grant(&change.group, &change.grant);

        if is_full(&granted) && !idle.is_empty() {
            if self.revoke(&change.group, &idle)? == Changed::Raced {
                return Ok(Changed::Raced);
            }
            revoke = &replaced;
            granted = self.grant(&change.group, &change.grant);
        }

        if is_full(&granted) && change.swap_helps() {
            return self.swap(change, revoke);
        }

        if granted? == Changed::Raced {
            return Ok(Changed::Raced);
        }
        self.revoke(&change.group, revoke)
    }

    /// Removes rules before their replacements are added. If that fails, they are restored.
    fn swap(&self, change: &RuleChange, revoke: &Rules) -> Answer<Changed> {
        if self.revoke(&change.group, revoke)? == Changed::Raced {
            return Ok(Changed::Raced);
        }
        self.grant(&change.group, &change.grant).inspect_err(|_| {
            // If this fails too, the error above leads to a retry.
            _ = self.grant(&change.group, revoke);
        })
    }

    fn grant(&self, group: &str, rules: &Rules) -> Answer<Changed> {
        if rules.is_empty() {
            return Ok(Changed::Done);
        }
        let send = |rules: &Rules| raced(api::one(self.wire, &permission::authorize(group, rules)));
        // If the group does not exist, no part of the rules can be added.
        let failure = match send(rules) {
            Err(failure) if failure.may_be_about_one() && !failure.is_not_found() => failure,
            answer => return answer,
        };

        let all: Vec<(Rule, String)> = rules.clone().into_iter().collect();
        let has_raced = Cell::new(false);
        let part = |part: &[(Rule, String)]| {
            let changed = send(&part.iter().cloned().collect())?;
            has_raced.set(has_raced.get() || changed == Changed::Raced);
            Ok(())
        };
        let Outcome { rejected, failed } = partly::without_rejected(&all, failure, &|_| "", &part);

        match failed.or_else(|| rejected.into_iter().next().map(|(_, failure)| failure)) {
            Some(failure) => Err(failure),
            None if has_raced.get() => Ok(Changed::Raced),
            None => Ok(Changed::Done),
        }
    }

    fn revoke(&self, group: &str, rules: &Rules) -> Answer<Changed> {
        if rules.is_empty() {
            return Ok(Changed::Done);
        }
        raced(api::one(self.wire, &permission::revoke(group, rules)))
    }
}

fn raced(answer: Answer<String>) -> Answer<Changed> {
    match answer {
        Ok(_) => Ok(Changed::Done),
        Err(failure)
            if matches!(
                failure.code(),
                "InvalidPermission.NotFound" | "InvalidPermission.Duplicate"
            ) =>
        {
            Ok(Changed::Raced)
        }
        Err(failure) => Err(failure),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::{
        client::api::call::Call,
        testing::{Answer, Memory, Scripted, nothing, rejection, setup},
    };

    fn rules(words: &str) -> Rules {
        let rule = |word: &str| {
            let (port, range) = word.split_once(':').unwrap();
            let rule = Rule::port("tcp", port.parse().unwrap(), Source::range(range));
            (rule, String::new())
        };
        words.split_whitespace().map(rule).collect()
    }

    /// Changes a group, with this number of other rules, and returns the result and the words
    /// `+PORT:RANGE` and `-PORT:RANGE` of the accepted calls.
    fn changed(
        filler: usize,
        (there, grant, revoke): (&str, &str, &str),
        quota: usize,
    ) -> (bool, String) {
        let more: Vec<String> = (0..filler).map(|n| format!("1:10.9.{n}.0/24")).collect();
        let there = rules(&format!("{there} {}", more.join(" ")));
        let (count, log) = (RefCell::new(there.len()), RefCell::new(Vec::new()));
        let answer = |call: &Call| -> Answer {
            let get = |suffix: &str| -> Vec<&String> {
                let params = call.params.iter();
                params
                    .filter(|(key, _)| key.ends_with(suffix))
                    .map(|(_, value)| value)
                    .collect()
            };
            let words: Vec<String> = get("FromPort")
                .iter()
                .zip(get("CidrIp"))
                .map(|(port, range)| format!("{port}:{range}"))
                .collect();
            let grants = call.action.starts_with("Authorize");
            let after = if grants {
                *count.borrow() + words.len()
            } else {
                *count.borrow() - words.len()
            };
            if grants && after > quota {
                return rejection(call, "RulesPerSecurityGroupLimitExceeded");
            }
            *count.borrow_mut() = after;
            let sign = if grants { '+' } else { '-' };
            log.borrow_mut()
                .extend(words.iter().map(|word| format!("{sign}{word}")));
            nothing(call)
        };
        let (setup, store, wire, none) =
            (setup(), Memory::default(), Scripted::new(answer), Vec::new);
        let change = RuleChange {
            group: "sg".into(),
            there,
            grant: rules(grant),
            revoke: rules(revoke),
        };
        let result = Cloud::new(&setup, &wire, &store, &none, 0).change_rules(&change);
        (result.is_ok(), log.borrow().join(" "))
    }

    #[test]
    fn rules_are_added_before_others_are_removed() {
        let swap = ("80:10.1.0.0/16", "80:10.2.0.0/16", "80:10.1.0.0/16");
        let (done, log) = changed(0, swap, 60);
        assert_eq!(
            (done, log.as_str()),
            (true, "+80:10.2.0.0/16 -80:10.1.0.0/16")
        );
    }

    #[test]
    fn a_full_group_changes_only_if_its_clients_keep_access() {
        let swap = ("80:10.1.0.0/16", "80:10.2.0.0/16", "80:10.1.0.0/16");
        let (done, log) = changed(59, swap, 60);
        assert_eq!(
            (done, log.as_str()),
            (true, "-80:10.1.0.0/16 +80:10.2.0.0/16"),
            "full, and there is room afterwards"
        );

        let (done, log) = changed(0, swap, 0);
        assert_eq!(
            (done, log.as_str()),
            (false, ""),
            "not full by the known quota"
        );

        let grows = (
            "80:10.1.0.0/16",
            "80:10.2.0.0/16 80:10.3.0.0/16",
            "80:10.1.0.0/16",
        );
        let (done, log) = changed(59, grows, 60);

        assert_eq!((done, log.as_str()), (false, ""), "it would not fit");
    }

    #[test]
    fn a_rejected_rule_does_not_keep_out_the_others() {
        let granted = RefCell::new(0);
        let answer = |call: &Call| -> Answer {
            let has = |text: &str| call.params.iter().any(|(_, value)| value == text);
            if has("10.2.0.0/16") {
                return rejection(call, "InvalidParameterValue");
            }
            *granted.borrow_mut() += call
                .params
                .iter()
                .filter(|(key, _)| key.ends_with("CidrIp"))
                .count();
            nothing(call)
        };
        let (setup, store, wire, none) =
            (setup(), Memory::default(), Scripted::new(answer), Vec::new);
        let change = RuleChange {
            group: "sg".into(),
            grant: rules("80:10.1.0.0/16 80:10.2.0.0/16 80:10.3.0.0/16"),
            ..RuleChange::default()
        };
        let changed = Cloud::new(&setup, &wire, &store, &none, 0).change_rules(&change);

        assert_eq!(changed.unwrap_err().code(), "InvalidParameterValue");
        assert_eq!(*granted.borrow(), 2);
    }

    #[test]
    fn unused_rules_make_room_in_a_full_group() {
        let change = (
            "80:10.1.0.0/16 81:10.1.0.0/16",
            "80:10.2.0.0/16",
            "80:10.1.0.0/16 81:10.1.0.0/16",
        );
        let (done, log) = changed(0, change, 2);
        assert_eq!(
            (done, log.as_str()),
            (true, "-81:10.1.0.0/16 +80:10.2.0.0/16 -80:10.1.0.0/16")
        );
    }
}
