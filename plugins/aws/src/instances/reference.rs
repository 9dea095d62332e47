//! References from nodes to instances.

use skydock_sdk::types::{CloudError, Node};

/// The scheme of the official provider's provider IDs.
pub(crate) const SCHEME: &str = "aws://";

/// How an instance is looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    /// By instance ID.
    Id(String),
    /// By private DNS name, which is the name of a node without a provider ID.
    Name(String),
    /// The instance cannot be looked up for this reason.
    None(CloudError),
}

/// Returns how the instance of this node is looked up: by provider ID, or otherwise by the node's
/// name.
pub(crate) fn of(node: &Node, region: &str) -> Reference {
    match node.provider_id.as_deref().filter(|id| !id.is_empty()) {
        Some(id) => match zone_and_id(id) {
            Some((zone, _)) if !zone.is_empty() && !zone.starts_with(region) => {
                Reference::None(CloudError::invalid(format!(
                    "node {} is in zone {zone}, but this plugin serves region {region}",
                    node.name
                )))
            }
            Some((_, id)) if is_instance(id) => Reference::Id(id.to_owned()),
            Some((_, id)) if id.starts_with("fargate-") => {
                Reference::None(CloudError::invalid(format!(
                    "node {} is an EKS Fargate node, which EKS manages",
                    node.name
                )))
            }
            _ => Reference::None(CloudError::invalid(format!(
                "node {} has provider ID {id}; expected aws:///ZONE/i-INSTANCE",
                node.name
            ))),
        },
        None if node.name.starts_with("i-") => {
            Reference::Id(node.name.split('.').next().unwrap_or_default().to_owned())
        }
        None => Reference::Name(node.name.clone()),
    }
}

/// Returns the instance ID in a provider ID, or `None` if it has none.
pub(crate) fn instance_id(provider_id: &str) -> Option<&str> {
    zone_and_id(provider_id)
        .map(|(_, id)| id)
        .filter(|id| is_instance(id))
}

/// Returns the zone, which can be empty, and the last part of `aws:///ZONE/ID`, `aws:////ID`, or a
/// bare ID.
pub(crate) fn zone_and_id(provider_id: &str) -> Option<(&str, &str)> {
    let Some(rest) = provider_id.strip_prefix(SCHEME) else {
        return is_instance(provider_id).then_some(("", provider_id));
    };
    // The part between the second and the third slash would be a host, which is empty.
    let (_, path) = rest.split_once('/')?;
    let path = path.trim_matches('/');
    // Between zone and ID, Fargate has a hash.
    match path.split_once('/') {
        Some((zone, rest)) => Some((zone, rest.rsplit('/').next().unwrap_or_default())),
        None => Some(("", path)),
    }
}

fn is_instance(id: &str) -> bool {
    id.strip_prefix("i-").is_some_and(|rest| {
        !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_found_by_provider_id_then_by_name() {
        let id = |id: &str| Ok(Reference::Id(id.to_owned()));
        for (name, provider_id, expected) in [
            ("n", Some("aws:///eu-west-1a/i-0123"), id("i-0123")),
            ("n", Some("aws:////i-0123"), id("i-0123")),
            ("n", Some("aws:///eu-west-1-lhr-1a/i-0123"), id("i-0123")),
            ("n", Some("i-0123"), id("i-0123")),
            ("i-0123", None, id("i-0123")),
            ("i-0123.eu-west-1.compute.internal", None, id("i-0123")),
            (
                "ip-10-0-0-1.ec2.internal",
                None,
                Ok(Reference::Name("ip-10-0-0-1.ec2.internal".into())),
            ),
            ("n", Some(""), Ok(Reference::Name("n".into()))),
            (
                "n",
                Some("aws:///us-east-1a/i-0123"),
                Err("serves region eu-west-1"),
            ),
            (
                "n",
                Some("aws:///eu-west-1a/fargate-ip-10-0-0-1.internal"),
                Err("Fargate"),
            ),
            (
                "n",
                Some("aws:///eu-west-1a/0123456789-abcdef/fargate-ip-10-0-0-1.internal"),
                Err("Fargate"),
            ),
            (
                "n",
                Some("aws:///us-east-1a/0123456789-abcdef/fargate-ip-10-0-0-1.internal"),
                Err("serves region eu-west-1"),
            ),
            ("n", Some("aws:///eu-west-1a/"), Err("provider ID")),
            ("n", Some("aws:///eu-west-1a/i-"), Err("provider ID")),
            ("n", Some("aws:///eu-west-1a/i-1&x"), Err("provider ID")),
            ("n", Some("gce://x/y/z"), Err("provider ID")),
            ("n", Some("aws://i-0123"), Err("provider ID")),
        ] {
            let node = Node {
                name: name.into(),
                provider_id: provider_id.map(Into::into),
                ..Node::default()
            };
            match (of(&node, "eu-west-1"), expected) {
                (Reference::None(CloudError::Invalid(text)), Err(word)) => {
                    assert!(text.contains(word), "{text}");
                }
                (found, expected) => assert_eq!(Ok(found), expected, "{name} {provider_id:?}"),
            }
        }
    }
}
