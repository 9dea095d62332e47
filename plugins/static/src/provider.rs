//! The provider: passes the host's calls to the rules and returns the results. It has no rules of
//! its own.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use skydock_sdk::{
    Configured, Instances, LoadBalancers, Plugin, Result,
    cache::{self, Reservation},
    cluster,
    events::{self, Severity},
    instances::{Instance, Presence},
    load_balancers::NodeSet,
    plugin::{PluginInfo, Settings},
    types::{CloudError, LoadBalancerStatus, Node, Service},
};

use crate::{
    desired_load_balancer::{self, DesiredLoadBalancer},
    instances,
    inventory::Inventory,
    load_balancers::{Event, allocation_events, error, own_status, rejection_event, status},
    pools::{
        allocate::{Rejection, Reservations, allocate},
        holders::Holders,
    },
};

/// How long an address stays reserved after it was assigned. This is long enough for every status
/// to be written and observed, even by a controller that has to retry, and short enough that the
/// address of a lost Service becomes free soon.
const RESERVATION: Duration = Duration::from_secs(600);

/// How long the list of addresses held by Services is cached, so that a thousand new Services do
/// not cause a thousand lists of all Services. Addresses assigned in the meantime are still
/// reserved, because this is much shorter than [`RESERVATION`].
const HOLDERS_AGE: Duration = Duration::from_secs(5);

static INVENTORY: Configured<Inventory> = Configured::new();

static HOLDERS: Mutex<Option<(Instant, Arc<Holders>)>> = Mutex::new(None);

/// The static provider.
#[derive(Clone, Copy, Debug)]
pub struct Static;

skydock_sdk::export!(Static: instances, load_balancers);
skydock_sdk::metadata! {
    name: "static",
    // The inventory can name others.
    provider_id_prefixes: ["static://", "*"],
}

impl Plugin for Static {
    fn configure(settings: Settings) -> Result<()> {
        let text = settings.cloud_config.ok_or_else(|| {
            CloudError::invalid("the static provider needs an inventory: set --cloud-config=FILE")
        })?;
        let path = settings.cloud_config_path.as_deref().unwrap_or("inventory");
        let inventory = Inventory::parse(&text)
            .map_err(|problems| CloudError::invalid(problems.in_file(path)))?;
        INVENTORY.set(inventory);
        Ok(())
    }

    fn info() -> PluginInfo {
        PluginInfo {
            name: "static".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            provider_id_prefixes: INVENTORY
                .get()
                .map(|inventory| inventory.provider_id_prefixes.clone())
                .unwrap_or_default(),
            // Answers come from memory, so the batch is as large as the host can request.
            max_batch: 1000,
            ..PluginInfo::default()
        }
    }
}

impl Instances for Static {
    fn check(nodes: Vec<Node>) -> Result<Vec<Result<Presence>>> {
        let inventory = INVENTORY.get()?;
        Ok(nodes
            .iter()
            .map(|node| instances::check(&inventory, node))
            .collect())
    }

    fn describe(nodes: Vec<Node>) -> Result<Vec<Result<Instance>>> {
        let inventory = INVENTORY.get()?;
        Ok(nodes
            .iter()
            .map(|node| instances::describe(&inventory, node))
            .collect())
    }
}

impl LoadBalancers for Static {
    fn get(service: Service) -> Result<Option<LoadBalancerStatus>> {
        // The API server clears the status of a Service whose type changes, but its reservations
        // still have to be released.
        let reserved = assigned(&service.uid);
        let reserved = (!reserved.is_empty()).then(|| status(reserved.into_iter()));
        Ok(own_status(&INVENTORY.get()?.pools, &service).or(reserved))
    }

    fn ensure(service: Service, _: &NodeSet) -> Result<LoadBalancerStatus> {
        let pools = &INVENTORY.get()?.pools;
        if pools.0.is_empty() {
            return Err(CloudError::ImplementedElsewhere);
        }

        let desired = DesiredLoadBalancer::of(&service, assigned(&service.uid))
            .map_err(|error| CloudError::invalid(error.to_string()))?;
        let mut reservations = CachedReservations {
            uid: &desired.uid,
            reserved: Vec::new(),
        };

        let mut allocation = allocate(pools, &desired, &holders(HOLDERS_AGE), &mut reservations);
        if allocation.as_ref().is_err_and(Rejection::is_temporary) {
            // Another Service may have released an address since the list was read.
            allocation = allocate(pools, &desired, &holders(Duration::ZERO), &mut reservations);
        }

        match allocation {
            Ok(allocation) => {
                publish(&service, allocation_events(&allocation));
                remember(
                    &service.uid,
                    allocation.assigned.iter().map(|assigned| assigned.address),
                );
                Ok(status(
                    allocation.assigned.iter().map(|assigned| assigned.address),
                ))
            }
            Err(rejection) => {
                // A request that fails may have reserved some addresses.
                reservations.release(&desired);
                publish(&service, rejection_event(&rejection));
                Err(error(&rejection))
            }
        }
    }

    /// Changes nothing: the network, not this provider, routes traffic to the nodes.
    fn update_nodes(service: Service, _: &NodeSet) -> Result<()> {
        if INVENTORY.get()?.pools.0.is_empty() {
            return Err(CloudError::ImplementedElsewhere);
        }
        let name = format!("{}/{}", service.namespace, service.name);
        Self::get(service)?
            .map(drop)
            .ok_or_else(|| CloudError::not_found(format!("Service {name} has no address")))
    }

    /// Releases the reservations. The address itself becomes free when the status is cleared.
    fn ensure_deleted(service: Service) -> Result<()> {
        let reserved = [
            desired_load_balancer::current(&service),
            assigned(&service.uid),
        ]
        .concat();
        CachedReservations {
            uid: &service.uid,
            reserved,
        }
        .release(&DesiredLoadBalancer::default());
        cache::remove(&assigned_key(&service.uid));
        Ok(())
    }
}

/// Returns the addresses that Services hold, read at most this long ago.
fn holders(age: Duration) -> Arc<Holders> {
    let mut cached = HOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    match cached.as_ref() {
        Some((reserved, holders)) if reserved.elapsed() < age => Arc::clone(holders),
        _ => {
            let holders = Arc::new(Holders::of(&cluster::services()));
            *cached = Some((Instant::now(), Arc::clone(&holders)));
            holders
        }
    }
}

/// Stores the addresses assigned to a Service, for the time when they are not in its status.
fn remember(uid: &str, addresses: impl Iterator<Item = IpAddr>) {
    let text = addresses
        .map(|address| address.to_string())
        .collect::<Vec<_>>()
        .join(" ");
    // If this fails, the reservation expires later by itself.
    _ = cache::set(&assigned_key(uid), text.as_bytes(), RESERVATION);
}

/// Returns the addresses recently assigned to a Service.
fn assigned(uid: &str) -> Vec<IpAddr> {
    let text = cache::get(&assigned_key(uid))
        .and_then(|text| String::from_utf8(text).ok())
        .unwrap_or_default();
    text.split(' ')
        .filter_map(|address| address.parse().ok())
        .collect()
}

fn assigned_key(uid: &str) -> String {
    format!("given/{uid}")
}

fn publish(service: &Service, allocation_events: impl IntoIterator<Item = Event>) {
    for Event {
        warning,
        reason,
        message,
    } in allocation_events
    {
        let severity = if warning {
            Severity::Warning
        } else {
            Severity::Normal
        };
        // A lost event is not a reason to fail.
        _ = events::on_service(service, severity, reason, &message);
    }
}

/// The reservations of one Service in the host's cache.
struct CachedReservations<'a> {
    uid: &'a str,
    reserved: Vec<IpAddr>,
}

impl CachedReservations<'_> {
    /// Releases the reservations of this Service, except for the addresses that it has.
    fn release(self, desired: &DesiredLoadBalancer) {
        for address in self
            .reserved
            .iter()
            .filter(|address| !desired.holds_address(**address))
        {
            if self.holder(*address).as_deref() == Some(self.uid) {
                cache::remove(&key(*address));
            }
        }
    }
}

impl Reservations for CachedReservations<'_> {
    fn holder(&self, address: IpAddr) -> Option<String> {
        String::from_utf8(cache::get(&key(address))?).ok()
    }

    fn reserve(&mut self, address: IpAddr) -> bool {
        let held =
            cache::reserve(&key(address), self.uid.as_bytes(), RESERVATION) == Reservation::Held;
        if held {
            self.reserved.push(address);
        }
        held
    }
}

fn key(address: IpAddr) -> String {
    format!("address/{address}")
}
