//! Which machine a node says it is.

use skydock_sdk::types::{CloudError, Node};

/// Scheme of the official provider's IDs.
pub(crate) const SCHEME: &str = "aws://";

/// What a machine is looked for by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    /// ID of an instance.
    Id(String),
    /// Private DNS name, which is the name of a node without a provider ID.
    Name(String),
    /// It cannot be looked for, and why.
    None(CloudError),
}

/// What the machine of this node is looked for by: the provider ID, else the node's name.
pub(crate) fn of(node: &Node, region: &str) -> Reference {
    match node.provider_id.as_deref().filter(|id| !id.is_empty()) {
        Some(id) => match zone_and_id(id) {
            Some((zone, _)) if !zone.is_empty() && !zone.starts_with(region) => Reference::None(CloudError::invalid(
                format!("node {} is in zone {zone}, but this plugin serves region {region}", node.name),
            )),
            Some((_, id)) if is_instance(id) => Reference::Id(id.to_owned()),
            Some((_, id)) if id.starts_with("fargate-") => Reference::None(CloudError::invalid(format!(
                "node {} is one of EKS Fargate, which EKS looks after itself",
                node.name
            ))),
            _ => Reference::None(CloudError::invalid(format!(
                "node {} has provider ID {id}, which is not aws:///ZONE/i-INSTANCE",
                node.name
            ))),
        },
        None if node.name.starts_with("i-") => {
            Reference::Id(node.name.split('.').next().unwrap_or_default().to_owned())
        }
        None => Reference::Name(node.name.clone()),
    }
}

/// ID of the instance that a provider ID names; none if it names none.
pub(crate) fn instance_id(provider_id: &str) -> Option<&str> {
    zone_and_id(provider_id).map(|(_, id)| id).filter(|id| is_instance(id))
}

/// Zone (perhaps empty) and last part of `aws:///ZONE/ID`, `aws:////ID` and the bare ID.
pub(crate) fn zone_and_id(provider_id: &str) -> Option<(&str, &str)> {
    let Some(rest) = provider_id.strip_prefix(SCHEME) else {
        return is_instance(provider_id).then_some(("", provider_id));
    };
    // What stands between the second and the third slash would be a host; there is none.
    let (_, path) = rest.split_once('/')?;
    let path = path.trim_matches('/');
    match path.rsplit_once('/') {
        Some((zone, id)) => Some((zone.rsplit('/').next().unwrap_or_default(), id)),
        None => Some(("", path)),
    }
}

fn is_instance(id: &str) -> bool {
    id.strip_prefix("i-").is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_looked_for_by_provider_id_then_by_name() {
        let id = |id: &str| Ok(Reference::Id(id.to_owned()));
        for (name, provider_id, expected) in [
            ("n", Some("aws:///eu-west-1a/i-0123"), id("i-0123")),
            ("n", Some("aws:////i-0123"), id("i-0123")),
            ("n", Some("aws:///eu-west-1-lhr-1a/i-0123"), id("i-0123")),
            ("n", Some("i-0123"), id("i-0123")),
            ("i-0123", None, id("i-0123")),
            ("i-0123.eu-west-1.compute.internal", None, id("i-0123")),
            ("ip-10-0-0-1.ec2.internal", None, Ok(Reference::Name("ip-10-0-0-1.ec2.internal".into()))),
            ("n", Some(""), Ok(Reference::Name("n".into()))),
            ("n", Some("aws:///us-east-1a/i-0123"), Err("serves region eu-west-1")),
            ("n", Some("aws:///eu-west-1a/fargate-ip-10-0-0-1.internal"), Err("Fargate")),
            ("n", Some("aws:///eu-west-1a/"), Err("provider ID")),
            ("n", Some("aws:///eu-west-1a/i-"), Err("provider ID")),
            ("n", Some("aws:///eu-west-1a/i-1&x"), Err("provider ID")),
            ("n", Some("gce://x/y/z"), Err("provider ID")),
            ("n", Some("aws://i-0123"), Err("provider ID")),
        ] {
            let node = Node { name: name.into(), provider_id: provider_id.map(Into::into), ..Node::default() };
            match (of(&node, "eu-west-1"), expected) {
                (Reference::None(CloudError::Invalid(text)), Err(word)) => assert!(text.contains(word), "{text}"),
                (found, expected) => assert_eq!(Ok(found), expected, "{name} {provider_id:?}"),
            }
        }
    }
}
