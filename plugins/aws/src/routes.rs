//! Routes to the Pods of each node, in the cluster's route table.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use skydock_sdk::{
    Result,
    routes::{NewRoute, Route, RoutePage},
    types::{CloudError, Node, NodeAddress},
};

use crate::{
    client::{
        api::{
            call::Call,
            ec2::{
                self,
                network::{self, RouteTable},
            },
        },
        endpoint::Api,
    },
    cloud::{Cloud, invalid},
    instances::{
        lookup::{self, Found},
        reference::{self, Reference},
    },
    tags::LEGACY_CLUSTER,
};

/// The target of an existing route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RouteTarget<'a> {
    /// An instance.
    Instance(&'a str),
    /// An instance that does not exist.
    Blackhole,
    /// A gateway, another network, or an unattached interface: this plugin does not create such
    /// routes.
    Other,
}

fn target(route: &network::Route) -> RouteTarget<'_> {
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
        RouteTarget::Other
    } else if route.state == "blackhole" {
        RouteTarget::Blackhole
    } else if route.instance_id.is_empty() {
        RouteTarget::Other
    } else {
        RouteTarget::Instance(&route.instance_id)
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
    let by_instance: BTreeMap<&str, &str> = nodes
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
            RouteTarget::Instance(id) => by_instance.get(id).copied(),
            RouteTarget::Blackhole => None,
            RouteTarget::Other => return None,
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
            blackhole: target(route) == RouteTarget::Blackhole,
        })
    };

    table.route_set.items.iter().filter_map(ours).collect()
}

/// What has to be done for a route.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RouteChange {
    /// The route exists.
    Exists,
    /// The route is created.
    Create,
    /// The existing route has another target, or none, and is replaced in one step.
    Replace,
}

fn change(table: &RouteTable, net: IpNet, instance: &str) -> Result<RouteChange> {
    let there = table
        .route_set
        .items
        .iter()
        .find(|route| destination(route) == Some(net));

    match there.map(target) {
        None => Ok(RouteChange::Create),
        Some(RouteTarget::Instance(id)) if id == instance => Ok(RouteChange::Exists),
        Some(RouteTarget::Instance(_) | RouteTarget::Blackhole) => Ok(RouteChange::Replace),
        Some(RouteTarget::Other) => Err(CloudError::internal(format!(
            "route table {} has a route to {net} that does not lead to an instance; it is not changed: delete it",
            table.route_table_id
        ))),
    }
}

/// What a route to a node leads to. EC2 rejects the ID of an instance that has several network
/// interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NextHop<'a> {
    Instance(&'a str),
    Interface(&'a str),
}

impl<'a> NextHop<'a> {
    /// Returns the instance, or the one of its several interfaces that has the node's address,
    /// otherwise the primary one. The second value is true if it rejects traffic for Pods.
    fn to(instance: &'a ec2::Instance, addresses: &[NodeAddress]) -> (Self, bool) {
        let interfaces = instance.interfaces();
        let named = addresses.iter().find_map(|address| {
            let mut interfaces = interfaces.iter();
            interfaces.find(|interface| interface.has(&address.address))
        });

        match named.or(interfaces.first()) {
            Some(interface) if instance.network_interface_set.items.len() > 1 => (
                Self::Interface(&interface.network_interface_id),
                interface.source_dest_check != Some(false),
            ),
            _ => (
                Self::Instance(&instance.instance_id),
                instance.source_dest_check != Some(false),
            ),
        }
    }

    fn named_in(self, call: Call) -> Call {
        match self {
            Self::Instance(id) => call.with("InstanceId", id),
            Self::Interface(id) => call.with("NetworkInterfaceId", id),
        }
    }

    /// Returns the request that lets it receive traffic for other addresses than its own.
    fn source_dest_check_off(self) -> Call {
        let action = match self {
            Self::Instance(_) => "ModifyInstanceAttribute",
            Self::Interface(_) => "ModifyNetworkInterfaceAttribute",
        };
        self.named_in(Call::new(Api::Ec2, action))
            .with("SourceDestCheck.Value", false)
    }
}

/// What has to be done for a route to a node.
struct Plan<'a> {
    net: IpNet,
    next_hop: NextHop<'a>,
    /// True if the hop rejects traffic for Pods.
    is_closed: bool,
    change: RouteChange,
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
        // Only a search by name needs the cluster, to tell apart instances with the same name.
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

        let planned = routes.iter().zip(&references).map(|(route, reference)| {
            let net = parsed(&route.destination_cidr)?;
            let instance = match found.of(reference)? {
                Found::Instance(instance) => instance,
                Found::Gone => {
                    return Err(CloudError::not_found(format!(
                        "node {} has no instance",
                        route.target_node
                    )));
                }
            };

            let (next_hop, is_closed) = NextHop::to(instance, &route.target_addresses);
            Ok(Plan {
                net,
                next_hop,
                is_closed,
                change: change(&table, net, &instance.instance_id)?,
            })
        });

        // A route to an instance that still rejects traffic for Pods would lose it.
        let planned: Vec<Result<Plan<'_>>> = planned.collect();
        let closed = self.open(&planned);
        self.carry_out(&table.route_table_id, planned, &closed)
    }

    fn reference(&self, route: &NewRoute) -> Reference {
        let node = Node {
            name: route.target_node.clone(),
            provider_id: route.target_provider_id.clone(),
            ..Node::default()
        };
        reference::of(&node, &self.config.region)
    }

    /// Lets hops receive traffic for Pods. Returns the errors.
    fn open<'a>(&self, planned: &[Result<Plan<'a>>]) -> BTreeMap<NextHop<'a>, CloudError> {
        let closed = planned.iter().flatten().filter(|plan| plan.is_closed);
        let closed: BTreeSet<NextHop<'_>> = closed.map(|plan| plan.next_hop).collect();
        let calls: Vec<Call> = closed
            .iter()
            .map(|next_hop| next_hop.source_dest_check_off())
            .collect();
        let answers = closed.into_iter().zip(self.wire.send(&calls));
        answers
            .filter_map(|(next_hop, answer)| Some((next_hop, answer.err()?.into())))
            .collect()
    }

    fn carry_out(
        &self,
        table: &str,
        planned: Vec<Result<Plan<'_>>>,
        closed: &BTreeMap<NextHop<'_>, CloudError>,
    ) -> Vec<Result<()>> {
        let mut calls = Vec::new();
        // Each outcome is done, failed, or the index of the answer to wait for.
        let outcomes: Vec<Result<Option<usize>>> = planned
            .into_iter()
            .map(|plan| {
                let Plan {
                    net,
                    next_hop,
                    change,
                    ..
                } = plan?;
                if let Some(error) = closed.get(&next_hop) {
                    return Err(error.clone());
                }
                let action = match change {
                    RouteChange::Exists => return Ok(None),
                    RouteChange::Create => "CreateRoute",
                    RouteChange::Replace => "ReplaceRoute",
                };
                calls.push(next_hop.named_in(on_route(action, table, net)));
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

        // Calls that were not sent have no answer.
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
