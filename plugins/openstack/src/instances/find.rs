//! Which server is a node's: many nodes with few requests.

use std::collections::BTreeMap;

use serde::Deserialize;
use skydock_sdk::{
    Result,
    http::{self, Method},
    types::{CloudError, Node},
};

use crate::{
    cloud::{Cloud, Kind, send_all},
    compute::Server,
    provider_id::{self, Machine},
};

/// So many nodes are each looked up by ID; more are looked for in lists first.
const FEW: usize = 2;

/// If so many are not found by name, all servers are listed.
const MANY: usize = 8;

/// What a look-up has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The server.
    Server(Box<Server>),
    /// Nova says of the ID that there is no such server.
    Gone,
    /// There is no server of this name.
    Unknown,
}

impl Found {
    /// The server, if there is one.
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

/// The servers of these nodes, one answer each.
pub(super) fn find(cloud: &Cloud<'_>, nodes: &[Node]) -> Result<Vec<Result<Found>>> {
    let wanted: Vec<Option<Machine<'_>>> = nodes
        .iter()
        .map(|node| {
            node.provider_id.as_deref().filter(|id| !id.is_empty()).map(|id| provider_id::read(cloud.config, id))
        })
        .collect();
    let ids: Vec<&str> = wanted.iter().filter_map(|machine| id(machine.as_ref())).collect();
    let known = wanted.iter().zip(nodes);
    let names = known.filter(|(machine, _)| machine.is_none() || ids.len() > FEW).map(|(_, node)| node.name.as_str());
    let mut servers = by_name(cloud, &names.collect::<Vec<_>>())?;
    let missing = |servers: &BTreeMap<String, Server>| {
        ids.iter().copied().filter(|id| !servers.contains_key(*id)).collect::<Vec<_>>()
    };
    if missing(&servers).len() > MANY {
        let all: Vec<Server> = cloud.list(Kind::Compute, "/servers/detail", vec![])?;
        servers.extend(all.into_iter().map(|server| (server.id.clone(), server)));
    }
    let each = by_id(cloud, &missing(&servers))?;
    let answer = |(machine, node): (Option<Machine<'_>>, &Node)| match machine {
        Some(Machine::NotOurs) => Err(CloudError::ImplementedElsewhere),
        Some(Machine::Server(id)) => match (servers.get(id), each.get(id)) {
            (Some(server), _) => Ok(Found::Server(Box::new(server.clone()))),
            (None, Some(found)) => found.clone(),
            (None, None) => Err(CloudError::internal(format!("server `{id}` was not looked up"))),
        },
        None => named(&servers, &node.name),
    };
    Ok(wanted.into_iter().zip(nodes).map(answer).collect())
}

fn id<'a>(machine: Option<&Machine<'a>>) -> Option<&'a str> {
    match machine {
        Some(Machine::Server(id)) => Some(id),
        Some(Machine::NotOurs) | None => None,
    }
}

/// The only server of this name. Databases differ in the case of letters, and a kubelet's name is in lower case.
fn named(servers: &BTreeMap<String, Server>, name: &str) -> Result<Found> {
    let mut found = servers.values().filter(|server| server.name.eq_ignore_ascii_case(name));
    match (found.next(), found.next()) {
        (None, _) => Ok(Found::Unknown),
        (Some(server), None) => Ok(Found::Server(Box::new(server.clone()))),
        (Some(_), Some(_)) => {
            Err(CloudError::internal(format!("Nova has more than one server `{name}`: give the node its provider ID")))
        }
    }
}

/// The servers with one of these names, and perhaps others, by ID.
fn by_name(cloud: &Cloud<'_>, names: &[&str]) -> Result<BTreeMap<String, Server>> {
    let patterns = patterns(names);
    let name = |pattern| ("name", pattern);
    let query = patterns.iter().map(|pattern| Some(pattern.as_str()).filter(|pattern| !pattern.is_empty()));
    let queries: Vec<_> = query.map(|pattern| pattern.map(name).into_iter().collect()).collect();
    let found: Vec<Vec<Server>> = cloud.lists(Kind::Compute, "/servers/detail", &queries)?;
    Ok(found.into_iter().flatten().map(|server| (server.id.clone(), server)).collect())
}

/// Regular expressions that match all of these names: each by itself if they are few, else by what they all begin with. Nova takes
/// no alternatives: it escapes `|`.
fn patterns(names: &[&str]) -> Vec<String> {
    let escaped = |name: &str| name.replace('.', r"\.");
    if names.len() <= FEW {
        return names.iter().map(|name| format!("^{}$", escaped(name))).collect();
    }
    let common =
        |one: &str, other: &str| one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    let first = names.first().copied().unwrap_or_default();
    let length = names.iter().map(|name| common(first, name)).min().unwrap_or_default();
    let shared = first.get(..length).unwrap_or_default();
    vec![if shared.is_empty() { String::new() } else { format!("^{}", escaped(shared)) }]
}

/// One look-up each.
fn by_id(cloud: &Cloud<'_>, ids: &[&str]) -> Result<BTreeMap<String, Result<Found>>> {
    let ask = |id: &&str| {
        let path = format!("/servers/{}", http::segment(id)?);
        cloud.ask(Method::Get, Kind::Compute, &path, format!("cannot read server `{id}`"))
    };
    let asks = ids.iter().map(ask).collect::<Result<_>>()?;
    let found = |answer: Result<http::Response>| match answer {
        Ok(answer) => Ok(Found::Server(Box::new(answer.json::<Answer>()?.server))),
        Err(CloudError::NotFound(_)) => Ok(Found::Gone),
        Err(error) => Err(error),
    };
    Ok(ids.iter().map(|id| (*id).to_owned()).zip(send_all(asks).into_iter().map(found)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_names_are_matched_whole_and_many_by_their_beginning() {
        assert_eq!(patterns(&["a.b", "c"]), [r"^a\.b$", "^c$"]);
        assert_eq!(patterns(&[]), Vec::<String>::new());
        assert_eq!(patterns(&["k8s.w-1", "k8s.w-22", "k8s.w-3"]), [r"^k8s\.w-"]);
        assert_eq!(patterns(&["w-1", "w-2", "cp-1"]), [""]);
    }

    #[test]
    fn two_servers_of_a_name_are_no_answer() {
        let server = |id: &str, name: &str| {
            (id.to_owned(), Server { id: id.to_owned(), name: name.to_owned(), ..Server::default() })
        };
        let servers = BTreeMap::from([server("1", "Node"), server("2", "twin"), server("3", "twin")]);
        assert_eq!(named(&servers, "node").unwrap().server().unwrap().id, "1");
        assert_eq!(named(&servers, "none"), Ok(Found::Unknown));
        assert!(matches!(named(&servers, "twin"), Err(CloudError::Internal(_))));
    }
}
