//! Servers behind nodes.
use skydock_sdk::{
    Result,
    http::{Request, Response},
    instances::{Instance, Presence},
    types::{AddressKind, CloudError, Node, NodeAddress},
};

use crate::{
    api::{Page, Reach, Server, State},
    cloud::{problem, provider_id, send_all, server_id},
    config::Config,
};

/// Returns whether the servers of nodes run.
pub(crate) fn check(config: &Config, nodes: &[Node]) -> Vec<Result<Presence>> {
    let presence = |(node, found): (_, Result<Option<Server>>)| match found? {
        Some(Server {
            state: State::Running,
            ..
        }) => Ok(Presence::Running),
        Some(Server {
            state: State::Stopped,
            ..
        }) => Ok(Presence::Stopped),
        None if has_id(node) => Ok(Presence::Absent),
        // Its server may have another name.
        None => Err(no_server(node)),
    };

    nodes
        .iter()
        .zip(find(config, nodes))
        .map(presence)
        .collect()
}

/// Describes the servers of nodes.
pub(crate) fn describe(config: &Config, nodes: &[Node]) -> Vec<Result<Instance>> {
    let described = |(node, found): (_, Result<Option<Server>>)| {
        let server = found?.ok_or_else(|| no_server(node))?;
        if server.region != config.region {
            let region = &server.region;
            return Err(CloudError::not_found(format!(
                "the server {} is in another region: {region}",
                server.id
            )));
        }

        Ok(instance(server))
    };

    nodes
        .iter()
        .zip(find(config, nodes))
        .map(described)
        .collect()
}

/// Finds the server of each node: by its provider ID, or else by its name.
fn find(config: &Config, nodes: &[Node]) -> Vec<Result<Option<Server>>> {
    let request = |node: &Node| match node.provider_id.as_deref() {
        None => Ok(config.named("servers", &node.name)),
        Some(id) => {
            let server = server_id(id)
                .ok_or_else(|| CloudError::invalid(format!("{id} is not a valid provider ID")))?;
            Ok(Request::get(config.object("servers", server)?))
        }
    };
    let answers = send_all(nodes.iter().map(request).collect());

    let read = |(node, answer): (&Node, Result<Response>)| {
        let answer = answer?;

        // Only the answer to a request by ID can say that a server is gone.
        if has_id(node) {
            return if problem(&answer, 404, "not_found").is_some() {
                Ok(None)
            } else {
                answer.success()?.json().map(Some)
            };
        }

        let mut servers = answer.success()?.json::<Page<Server>>()?.items;
        match servers.len() {
            0 | 1 => Ok(servers.pop()),
            many => Err(CloudError::invalid(format!(
                "{many} servers have the name {}: rename all but one",
                node.name
            ))),
        }
    };

    nodes.iter().zip(answers).map(read).collect()
}

fn has_id(node: &Node) -> bool {
    node.provider_id.is_some()
}

fn no_server(node: &Node) -> CloudError {
    CloudError::not_found(format!("no server belongs to the node {}", node.name))
}

fn instance(server: Server) -> Instance {
    let hostname = NodeAddress {
        kind: AddressKind::Hostname,
        address: server.name,
    };

    let addresses = server.addresses.iter().map(|address| NodeAddress {
        kind: match address.kind {
            Reach::Internal => AddressKind::InternalIp,
            Reach::External => AddressKind::ExternalIp,
        },
        address: address.address.to_string(),
    });

    Instance {
        provider_id: Some(provider_id(&server.zone, &server.id)),
        instance_type: Some(server.r#type),
        addresses: addresses.chain([hostname]).collect(),
        zone: Some(server.zone),
        region: Some(server.region),
        ..Instance::default()
    }
}

#[cfg(test)]
mod tests;
