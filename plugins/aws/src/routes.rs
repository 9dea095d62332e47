//! Routes to the Pods of each node, in the cluster's route table.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use skydock_sdk::{
    Result,
    routes::{NewRoute, Route, RoutePage},
    types::{CloudError, Node},
};

use crate::{
    api::{
        call::Call,
        ec2::{
            self,
            network::{self, RouteTable},
        },
    },
    cloud::{Cloud, invalid},
    endpoint::Api,
    instances::{
        lookup::{self, Found},
        reference::{self, Reference},
    },
    tags::LEGACY_CLUSTER,
};

/// The target of an existing route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target<'a> {
    /// An instance.
    Machine(&'a str),
    /// An instance that does not exist.
    Nowhere,
    /// A gateway, another network, or an unattached interface: this plugin does not create such
    /// routes.
    Elsewhere,
}

fn target(route: &network::Route) -> Target<'_> {
    let gateways = [
        &route.gateway_id,
        &route.nat_gateway_id,
        &route.transit_gateway_id,
        &route.vpc_peering_connection_id,
        &route.egress_only_internet_gateway_id,
        &route.local_gateway_id,
        &route.carrier_gateway_id,
        &route.core_network_arn,
    ];
    if gateways.iter().any(|id| !id.is_empty()) {
        Target::Elsewhere
    } else if route.state == "blackhole" {
        Target::Nowhere
    } else if route.instance_id.is_empty() {
        Target::Elsewhere
    } else {
        Target::Machine(&route.instance_id)
    }
}

fn destination(route: &network::Route) -> Option<IpNet> {
    let text = if route.destination_cidr_block.is_empty() {
        &route.destination_ipv6_cidr_block
    } else {
        &route.destination_cidr_block
    };
    text.parse::<IpNet>().ok().map(|net| net.trunc())
}

/// Returns the routes of a table that belong to this cluster: those to the Pod ranges.
fn list(table: &RouteTable, nodes: &[Node], pods: &[IpNet]) -> Vec<Route> {
    let by_machine: BTreeMap<&str, &str> = nodes
        .iter()
        .filter_map(|node| {
            Some((
                reference::instance_id(node.provider_id.as_deref()?)?,
                node.name.as_str(),
            ))
        })
        .collect();
    let ours = |route: &network::Route| {
        let net = destination(route)?;
        let node = match target(route) {
            Target::Machine(id) => by_machine.get(id).copied(),
            Target::Nowhere => None,
            Target::Elsewhere => return None,
        };
        // If the Pod ranges are unknown, only routes to nodes certainly belong to the cluster.
        let fits = if pods.is_empty() {
            node.is_some()
        } else {
            pods.iter().any(|pods| pods.contains(&net))
        };
        fits.then(|| Route {
            name: format!("{}/{net}", table.route_table_id),
            target_node: node.map(str::to_owned),
            target_addresses: None,
            destination_cidr: net.to_string(),
            blackhole: target(route) == Target::Nowhere,
        })
    };
    table.route_set.items.iter().filter_map(ours).collect()
}

/// What has to be done for a route.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Way {
    /// The route exists.
    There,
    /// The route is created.
    Create,
    /// The existing route has another target, or none, and is replaced in one step.
    Replace,
}

fn way(table: &RouteTable, net: IpNet, machine: &str) -> Result<Way> {
    let there = table
        .route_set
        .items
        .iter()
        .find(|route| destination(route) == Some(net));
    match there.map(target) {
        None => Ok(Way::Create),
        Some(Target::Machine(id)) if id == machine => Ok(Way::There),
        Some(Target::Machine(_) | Target::Nowhere) => Ok(Way::Replace),
        Some(Target::Elsewhere) => Err(CloudError::internal(format!(
            "route table {} has a route to {net} that does not lead to an instance; it is not changed: delete it",
            table.route_table_id
        ))),
    }
}

fn on_route(action: &'static str, table: &str, net: IpNet) -> Call {
    let key = if net.addr().is_ipv4() {
        "DestinationCidrBlock"
    } else {
        "DestinationIpv6CidrBlock"
    };
    Call::new(Api::Ec2, action)
        .with("RouteTableId", table)
        .with(key, net)
}

fn parsed(cidr: &str) -> Result<IpNet> {
    cidr.parse::<IpNet>()
        .map(|net| net.trunc())
        .map_err(|_| invalid(format!("{cidr} is not a valid CIDR")))
}

impl Cloud<'_> {
    /// Returns the only route table of the cluster.
    fn route_table(&self) -> Result<RouteTable> {
        let (tables, by) = if let Some(id) = &self.config.route_table {
            (
                network::route_tables(self.wire, "route-table-id", std::slice::from_ref(id))?,
                format!("ID {id}"),
            )
        } else {
            let cluster = self.identity()?.cluster;
            let keys = [cluster.key(), LEGACY_CLUSTER.to_owned()];
            let mut tables = network::route_tables(self.wire, "tag-key", &keys)?;
            tables.retain(|table| cluster.has(&table.tags()));
            (tables, format!("tag {}", cluster.key()))
        };
        let mut tables = tables.into_iter();
        match (tables.next(), tables.next()) {
            (Some(table), None) => Ok(table),
            (None, _) => Err(CloudError::internal(format!(
                "no route table has {by}: tag it, or set RouteTableID"
            ))),
            (Some(_), Some(_)) => Err(CloudError::internal(format!(
                "several route tables have {by}: set RouteTableID"
            ))),
        }
    }

    /// Returns all routes of this cluster in one page: a table has at most 1,000.
    ///
    /// # Errors
    /// Fails if a request to AWS fails, or if the route table is ambiguous.
    pub fn list_routes(&self) -> Result<RoutePage> {
        let table = self.route_table()?;
        let pods: Vec<IpNet> = self
            .config
            .cluster_cidrs
            .iter()
            .filter_map(|cidr| cidr.parse().ok())
            .collect();
        Ok(RoutePage {
            routes: list(&table, &(self.nodes)(), &pods),
            next: None,
        })
    }

    /// Creates routes.
    #[must_use]
    pub fn create_routes(&self, routes: &[NewRoute]) -> Vec<Result<()>> {
        let failed = |error: CloudError| routes.iter().map(|_| Err(error.clone())).collect();
        let table = match self.route_table() {
            Ok(table) => table,
            Err(error) => return failed(error),
        };
        let references: Vec<Reference> = routes.iter().map(|route| self.reference(route)).collect();
        let by_name = references
            .iter()
            .any(|one| matches!(one, Reference::Name(_)));
        let found = (if by_name {
            self.identity().map(|identity| Some(identity.cluster))
        } else {
            Ok(None)
        })
        .and_then(|cluster| lookup::find(self.wire, &references, cluster.as_ref()));
        let found = match found {
            Ok(found) => found,
            Err(error) => return failed(error),
        };
        let planned: Vec<Result<(IpNet, &ec2::Instance, Way)>> = routes
            .iter()
            .zip(&references)
            .map(|(route, reference)| {
                let net = parsed(&route.destination_cidr)?;
                match found.of(reference)? {
                    Found::Machine(machine) => Ok((
                        net,
                        machine.as_ref(),
                        way(&table, net, &machine.instance_id)?,
                    )),
                    Found::Gone => Err(CloudError::not_found(format!(
                        "node {} has no instance",
                        route.target_node
                    ))),
                }
            })
            .collect();
        let open = self.open_machines(
            planned
                .iter()
                .filter_map(|plan| plan.as_ref().ok().map(|plan| plan.1)),
        );
        self.carry_out(&table.route_table_id, planned, &open)
    }

    fn reference(&self, route: &NewRoute) -> Reference {
        let node = Node {
            name: route.target_node.clone(),
            provider_id: route.target_provider_id.clone(),
            ..Node::default()
        };
        reference::of(&node, &self.config.region)
    }

    /// Allows instances to receive traffic for their Pods. Returns errors by instance ID.
    fn open_machines<'a>(
        &self,
        machines: impl Iterator<Item = &'a ec2::Instance>,
    ) -> BTreeMap<String, CloudError> {
        let closed = machines.filter(|machine| machine.source_dest_check != Some(false));
        let closed: BTreeSet<&str> = closed.map(|machine| machine.instance_id.as_str()).collect();
        let calls: Vec<Call> = closed
            .iter()
            .map(|id| ec2::source_dest_check_off(id))
            .collect();
        let answers = closed.iter().zip(self.wire.send(&calls));
        answers
            .filter_map(|(id, answer)| Some(((*id).to_owned(), answer.err()?.into())))
            .collect()
    }

    fn carry_out(
        &self,
        table: &str,
        planned: Vec<Result<(IpNet, &ec2::Instance, Way)>>,
        closed: &BTreeMap<String, CloudError>,
    ) -> Vec<Result<()>> {
        let mut calls = Vec::new();
        // Each outcome is done, failed, or the index of the answer to wait for.
        let outcomes: Vec<Result<Option<usize>>> = planned
            .into_iter()
            .map(|plan| {
                let (net, machine, way) = plan?;
                if let Some(error) = closed.get(&machine.instance_id) {
                    return Err(error.clone());
                }
                let action = match way {
                    Way::There => return Ok(None),
                    Way::Create => "CreateRoute",
                    Way::Replace => "ReplaceRoute",
                };
                calls.push(on_route(action, table, net).with("InstanceId", &machine.instance_id));
                Ok(Some(calls.len() - 1))
            })
            .collect();
        let answers: Vec<Result<()>> = self
            .wire
            .send(&calls)
            .into_iter()
            .map(|answer| answer.map(|_| ()).map_err(CloudError::from))
            .collect();
        let settled = |outcome: Result<Option<usize>>| match outcome? {
            None => Ok(()),
            Some(index) => answers.get(index).cloned().unwrap_or(Ok(())),
        };
        outcomes.into_iter().map(settled).collect()
    }

    /// Deletes routes that [`Self::list_routes`] returned.
    #[must_use]
    pub fn delete_routes(&self, routes: &[Route]) -> Vec<Result<()>> {
        let call = |route: &Route| {
            let (table, cidr) = route
                .name
                .split_once('/')
                .ok_or_else(|| invalid(format!("{} is not a valid route name", route.name)))?;
            Ok(on_route("DeleteRoute", table, parsed(cidr)?))
        };
        let calls: Vec<Result<Call>> = routes.iter().map(call).collect();
        let sent: Vec<Call> = calls
            .iter()
            .filter_map(|call| call.as_ref().ok().cloned())
            .collect();
        let mut answers = self.wire.send(&sent).into_iter();
        let settled = |call: Result<Call>| {
            call?;
            match answers.next() {
                Some(Err(failure)) if !failure.is_not_found() => Err(failure.into()),
                _ => Ok(()),
            }
        };
        calls.into_iter().map(settled).collect()
    }
}

#[cfg(test)]
mod tests;
