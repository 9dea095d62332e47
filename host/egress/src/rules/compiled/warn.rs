//! Warnings about rules that are valid but may not do what was intended.

use super::CompiledRule;
use crate::{
    rules::address::{is_local, is_never_opened},
    rules::config::{ConfigWarning, GuestAuth},
    target::{Host, Scheme},
};

/// Returns the warnings, as sentences for the log.
pub(crate) fn warnings(rules: &[CompiledRule]) -> Vec<ConfigWarning> {
    let mut all = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        // Rules in report-only mode are copies of others on purpose.
        let enforced = |first: &&CompiledRule| !first.report_only && !rule.report_only;
        let before = rules.iter().take(index).filter(enforced);
        let alone = alone(rule)
            .into_iter()
            .map(|(field, what)| (field, format!("egress rule `{}`: {what}", rule.name)));
        let against = before.filter_map(|first| Some(("", against(first, rule)?)));

        all.extend(alone.chain(against).map(|(field, sentence)| ConfigWarning {
            index,
            field,
            sentence,
        }));
    }
    all
}

/// Returns the warnings about a rule by itself, each with its field.
fn alone(rule: &CompiledRule) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    for net in &rule.addresses.opened {
        if is_never_opened(net) {
            all.push(("addresses", format!(
                "`addresses` has {net}, which has no effect: these addresses are always denied, or are judged by the IPv4 addresses in them"
            )));
        } else if is_local(net) {
            all.push(("addresses", format!("`addresses` allows {net}, which is loopback or link-local: the plugin can reach services on this machine and its network")));
        } else if net.prefix_len() < 8 {
            all.push(("addresses", format!(
                "`addresses` allows {net}, including every private network in it: list only the networks of the cloud"
            )));
        }
    }

    if let Some(target) = rule.to.exact()
        && let Host::Address(address) = target.host
        && rule
            .addresses
            .check(
                (address, target.port).into(),
                &crate::ClusterAddresses::default(),
            )
            .is_err()
    {
        all.push(("to", format!(
            "{address} is not a public address: add it to `addresses`, otherwise all requests are denied"
        )));
    }

    if rule.to.scheme() == Scheme::Http {
        if rule.credential.is_some() {
            all.push((
                "to",
                "its credential is sent unencrypted because `to` is http: use https".to_owned(),
            ));
        }
        if rule.guest_auth == GuestAuth::Allowed {
            all.push((
                "to",
                "the plugin's own credentials are sent unencrypted because `to` is http: use https"
                    .to_owned(),
            ));
        }
    }

    let signs = rule.credential.as_ref().is_some_and(|it| it.signs());
    if signs && rule.actions.is_empty() && rule.paths.is_empty() {
        all.push(("credential", "it has neither `actions` nor `paths`, so its credential signs every action of the account: list the actions that the plugin needs".to_owned()));
    }
    if rule.credential.is_some() && rule.guest_auth == GuestAuth::Allowed {
        all.push(("guestAuth", "it has a credential, and `guestAuth: allowed` also sends the plugin's own authentication: remove one of the two".to_owned()));
    }

    all
}

/// Returns the warning about a rule and an earlier one, if there is any.
fn against(first: &CompiledRule, second: &CompiledRule) -> Option<String> {
    let one = &first.name;
    let two = &second.name;

    if first.covers(second) {
        return Some(format!(
            "egress rule `{two}` has no effect: the earlier rule `{one}` allows everything that it allows"
        ));
    }
    (first.overlaps(second) && !first.acts_like(second)).then(|| {
        format!("egress rules `{one}` and `{two}` allow some of the same requests with different settings: those of `{one}` apply, because it is first")
    })
}
