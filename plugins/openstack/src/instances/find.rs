//! Finds the servers of many nodes with few requests.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use skydock_sdk::{
    Result,
    http::{self, Method},
    types::{CloudError, Node},
};

use crate::{
    cloud::{Cloud, Kind, send_all_for},
    provider_id::{self, Reference},
    services::compute::Server,
};

/// Up to this number, nodes are looked up individually by ID. More are searched in lists first.
const FEW: usize = 2;

/// If more servers than this are not found by name, all servers are listed.
const MANY: usize = 8;

/// Number of leading characters of names that the pattern distinguishes. With 40 characters per
/// set, they take a fifth of a URL.
const PLACES: usize = 40;

/// Number of servers in one answer, with 2 to 10 KiB each.
const PAGE: (&str, &str) = ("limit", "500");

/// The result of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The server exists.
    Server(Box<Server>),
    /// Nova reports that the ID does not exist.
    Gone,
    /// No server has the name of the node.
    Unknown,
}

impl Found {
    /// Returns the server, if it exists.
    pub(super) fn server(&self) -> Option<&Server> {
        match self {
            Self::Server(server) => Some(server),
            Self::Gone | Self::Unknown => None,
        }
    }
}

#[derive(Deserialize)]
struct Answer {
    server: Server,
}

/// Returns the servers of these nodes, one result per node.
pub(super) fn find(cloud: &Cloud<'_>, nodes: &[Node]) -> Result<Vec<Result<Found>>> {
    let wanted: Vec<Option<Reference<'_>>> = nodes
        .iter()
        .map(|node| {
            node.provider_id
                .as_deref()
                .filter(|id| !id.is_empty())
                .map(|id| provider_id::read(cloud.config, id))
        })
        .collect();

    let ids: Vec<&str> = wanted
        .iter()
        .filter_map(|reference| id(reference.as_ref()))
        .collect();

    // Many nodes with IDs are searched by name, too: one pattern finds most of them at once.
    let known = wanted.iter().zip(nodes);
    let names = known
        .filter(|(reference, _)| reference.is_none() || ids.len() > FEW)
        .map(|(_, node)| node.name.as_str());

    let mut servers = by_name(cloud, &names.collect::<Vec<_>>())?;
    let missing = |servers: &BTreeMap<String, Server>| {
        ids.iter()
            .copied()
            .filter(|id| !servers.contains_key(*id))
            .collect::<Vec<_>>()
    };

    if missing(&servers).len() > MANY {
        let all: Vec<Server> = cloud.list(Kind::Compute, "/servers/detail", vec![PAGE])?;
        servers.extend(all.into_iter().map(|server| (server.id.clone(), server)));
    }

    // Lists can omit servers, so each one that is still missing is requested by ID.
    let each = by_id(cloud, &missing(&servers))?;
    let answer = |(reference, node): (Option<Reference<'_>>, &Node)| match reference {
        Some(Reference::NotOurs) => Err(CloudError::ImplementedElsewhere),
        Some(Reference::Server(id)) => match (servers.get(id), each.get(id)) {
            (Some(server), _) => Ok(Found::Server(Box::new(server.clone()))),
            (None, Some(found)) => found.clone(),
            (None, None) => Err(CloudError::internal(format!(
                "server `{id}` was not queried"
            ))),
        },
        None => named(&servers, &node.name),
    };

    Ok(wanted.into_iter().zip(nodes).map(answer).collect())
}

fn id<'a>(reference: Option<&Reference<'a>>) -> Option<&'a str> {
    match reference {
        Some(Reference::Server(id)) => Some(id),
        Some(Reference::NotOurs) | None => None,
    }
}

/// Returns the only server with this name, ignoring case: databases may preserve case, and kubelets
/// use lower case.
fn named(servers: &BTreeMap<String, Server>, name: &str) -> Result<Found> {
    let mut found = servers
        .values()
        .filter(|server| server.name.eq_ignore_ascii_case(name));

    match (found.next(), found.next()) {
        (None, _) => Ok(Found::Unknown),
        (Some(server), None) => Ok(Found::Server(Box::new(server.clone()))),
        (Some(_), Some(_)) => Err(CloudError::denied(format!(
            "Nova has more than one server `{name}`: set the provider ID of the node"
        ))),
    }
}

/// Returns the servers with one of these names, and possibly others, by ID.
fn by_name(cloud: &Cloud<'_>, names: &[&str]) -> Result<BTreeMap<String, Server>> {
    let patterns = patterns(names);
    let queries: Vec<_> = patterns
        .iter()
        .map(|pattern| vec![("name", pattern.as_str()), PAGE])
        .collect();

    let found: Vec<Vec<Server>> = cloud.lists(Kind::Compute, "/servers/detail", &queries)?;
    Ok(found
        .into_iter()
        .flatten()
        .map(|server| (server.id.clone(), server))
        .collect())
}

/// Returns regular expressions that match all of these names: one for each name if there are few,
/// otherwise one for all. Nova escapes `|`, so alternatives are not possible. Sets of characters
/// are used instead, one for each position that all names have, for example `^node-[01][0-9]`.
fn patterns(names: &[&str]) -> Vec<String> {
    let escaped = |name: &str| name.replace('.', r"\.");

    if names.len() <= FEW {
        return names
            .iter()
            .map(|name| format!("^{}$", escaped(name)))
            .collect();
    }
    let places = names
        .iter()
        .map(|name| name.len())
        .min()
        .unwrap_or_default();

    let mut pattern = "^".to_owned();
    for place in 0..places.min(PLACES) {
        let letters: BTreeSet<char> = names
            .iter()
            .filter_map(|name| name.chars().nth(place))
            .collect();

        // A dash at the beginning of a set is literal, and it sorts before all other characters of
        // names.
        let set: String = letters.iter().collect();
        match letters.len() {
            1 => pattern.push_str(&escaped(&set)),
            _ => pattern.push_str(&format!("[{set}]")),
        }
    }

    vec![pattern]
}

/// Looks up each server individually.
fn by_id(cloud: &Cloud<'_>, ids: &[&str]) -> Result<BTreeMap<String, Result<Found>>> {
    let request = |id: &&str| {
        let path = format!("/servers/{}", http::segment(id)?);
        cloud.request(
            Method::Get,
            Kind::Compute,
            &path,
            format!("cannot read server `{id}`"),
        )
    };

    let requests = ids.iter().map(request).collect::<Result<_>>()?;
    let found = |answer: Result<Option<http::Response>>| match answer? {
        Some(answer) => Ok(Found::Server(Box::new(answer.json::<Answer>()?.server))),
        None => Ok(Found::Gone),
    };

    Ok(ids
        .iter()
        .map(|id| (*id).to_owned())
        .zip(
            send_all_for(requests, "itemNotFound")
                .into_iter()
                .map(found),
        )
        .collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::Script;

    #[test]
    fn only_a_404_from_nova_means_that_a_server_is_deleted() {
        for (status, body, gone) in [
            (
                404,
                json!({"itemNotFound": {"code": 404, "message": "Instance a could not be found."}}),
                true,
            ),
            (404, json!({"error": "no backend"}), false),
            (404, json!("default backend - 404"), false),
            (410, json!({"gone": true}), false),
        ] {
            let script = Script::new("");
            let url = script.cloud().url(Kind::Compute, "/servers/a").unwrap();
            script.on(&format!("GET {url}"), status, body.clone());
            let found = by_id(&script.cloud(), &["a"]).unwrap().remove("a").unwrap();
            match found {
                Ok(Found::Gone) => assert!(gone, "{body}"),
                Err(CloudError::Unavailable(_)) => assert!(!gone, "{body}"),
                other => panic!("{body}: {other:?}"),
            }
        }
    }

    #[test]
    fn name_patterns_use_exact_names_or_character_classes() {
        assert_eq!(patterns(&["a.b", "c"]), [r"^a\.b$", "^c$"]);
        assert_eq!(patterns(&[]), Vec::<String>::new());
        assert_eq!(
            patterns(&["k8s.w-1", "k8s.w-22", "k8s.w-3"]),
            [r"^k8s\.w-[123]"]
        );
        assert_eq!(patterns(&["w-1", "w-2", "cp-1"]), ["^[cw][-p][-12]"]);
    }

    #[test]
    fn two_servers_with_the_same_name_are_an_error() {
        let server = |id: &str, name: &str| {
            (
                id.to_owned(),
                Server {
                    id: id.to_owned(),
                    name: name.to_owned(),
                    ..Server::default()
                },
            )
        };
        let servers = BTreeMap::from([
            server("1", "Node"),
            server("2", "twin"),
            server("3", "twin"),
        ]);
        assert_eq!(named(&servers, "node").unwrap().server().unwrap().id, "1");
        assert_eq!(named(&servers, "none"), Ok(Found::Unknown));
        assert!(matches!(
            named(&servers, "twin"),
            Err(CloudError::Denied(_))
        ));
    }
}
