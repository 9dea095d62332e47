//! Warnings about rules that are valid but may not do what was intended.

use super::GuestAuth;
use crate::{
    address::is_local,
    grant::Grant,
    rule::{Host, Scheme},
};

/// Returns the warnings, as sentences for the log.
pub(crate) fn warnings(grants: &[Grant]) -> Vec<String> {
    let mut all = Vec::new();
    for (at, grant) in grants.iter().enumerate() {
        let before = grants.iter().take(at);
        all.extend(alone(grant).into_iter().map(|what| format!("egress rule `{}`: {what}", grant.name)));
        all.extend(before.filter_map(|first| against(first, grant)));
    }
    all
}

fn alone(grant: &Grant) -> Vec<String> {
    let mut all = Vec::new();
    for net in &grant.addresses.opened {
        if is_local(net) {
            all.push(format!("`addresses` opens {net}, which is this machine or the wire it is on"));
        } else if net.prefix_len() < 8 {
            all.push(format!("`addresses` opens {net}, which is every private network in it"));
        }
    }
    if let Some(target) = grant.to.exact()
        && let Host::Address(address) = target.host
        && grant.addresses.check((address, target.port).into(), &crate::Closed::default()).is_err()
    {
        all.push(format!(
            "{address} is not a public address, and `addresses` does not open it: every request will be refused"
        ));
    }
    if grant.to.scheme() == Scheme::Http {
        if grant.credential.is_some() {
            all.push("its credential goes over the network in the clear, since `to` is http".to_owned());
        }
        if grant.guest_auth == GuestAuth::Allowed {
            all.push(
                "what the plugin authenticates with goes over the network in the clear, since `to` is http".to_owned(),
            );
        }
    }
    if grant.credential.is_some() && grant.guest_auth == GuestAuth::Allowed {
        all.push("it has a credential, and the plugin's own authentication goes out beside it".to_owned());
    }
    all
}

fn against(first: &Grant, second: &Grant) -> Option<String> {
    let (one, two) = (&first.name, &second.name);
    if first.covers(second) {
        return Some(format!(
            "egress rule `{two}` decides about nothing: rule `{one}` before it permits all it permits"
        ));
    }
    (first.overlaps(second) && !first.acts_like(second)).then(|| {
        format!("egress rules `{one}` and `{two}` permit some of the same requests, and differ in how they are sent: `{one}` decides")
    })
}
