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
    instances,
    inventory::Inventory,
    load_balancers::{Event, failure, news, own_status, refusal_news, status},
    pools::{
        allocate::{Refusal, Reservations, allocate},
        holders::Holders,
    },
    request::{self, Request},
};

/// How long an address stays reserved after it was assigned. This is long enough for every status
/// to be written and observed, even by a controller that has to retry, and short enough that the
/// address of a lost service becomes free soon.
const RESERVATION: Duration = Duration::from_secs(600);

/// How long the list of addresses held by services is cached, so that a thousand new services do
/// not cause a thousand lists of all services. Addresses assigned in the meantime are still
/// reserved, because this is much shorter than [`RESERVATION`].
const PICTURE: Duration = Duration::from_secs(5);

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
        // The API server clears the status of a service whose type changes, but its reservations
        // still have to be released.
        let reserved = given(&service.uid);
        let reserved = (!reserved.is_empty()).then(|| status(reserved.into_iter()));
        Ok(own_status(&INVENTORY.get()?.pools, &service).or(reserved))
    }

    fn ensure(service: Service, _: &NodeSet) -> Result<LoadBalancerStatus> {
        let pools = &INVENTORY.get()?.pools;
        if pools.0.is_empty() {
            return Err(CloudError::ImplementedElsewhere);
        }

        let mut request =
            Request::of(&service).map_err(|error| CloudError::invalid(error.to_string()))?;
        request.given = given(&request.uid);
        let mut desk = Desk {
            uid: &request.uid,
            taken: Vec::new(),
        };

        let mut allocation = allocate(pools, &request, &holders(PICTURE), &mut desk);
        if allocation.as_ref().is_err_and(Refusal::passes) {
            // Another service may have released an address since the list was read.
            allocation = allocate(pools, &request, &holders(Duration::ZERO), &mut desk);
        }

        match allocation {
            Ok(allocation) => {
                publish(&service, news(&allocation));
                note(
                    &service.uid,
                    allocation.given.iter().map(|given| given.address),
                );
                Ok(status(allocation.given.iter().map(|given| given.address)))
            }
            Err(refusal) => {
                // A request that fails may have reserved some addresses.
                desk.give_back(&request);
                publish(&service, refusal_news(&refusal));
                Err(failure(&refusal))
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
        let taken = [request::current(&service), given(&service.uid)].concat();
        Desk {
            uid: &service.uid,
            taken,
        }
        .give_back(&Request::default());
        cache::remove(&given_key(&service.uid));
        Ok(())
    }
}

/// Returns the addresses that services hold, read at most this long ago.
fn holders(age: Duration) -> Arc<Holders> {
    let mut picture = HOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    match picture.as_ref() {
        Some((taken, holders)) if taken.elapsed() < age => Arc::clone(holders),
        _ => {
            let holders = Arc::new(Holders::of(&cluster::services()));
            *picture = Some((Instant::now(), Arc::clone(&holders)));
            holders
        }
    }
}

/// Stores the addresses assigned to a service, for the time when they are not in its status.
fn note(uid: &str, addresses: impl Iterator<Item = IpAddr>) {
    let text = addresses
        .map(|address| address.to_string())
        .collect::<Vec<_>>()
        .join(" ");
    // If this fails, the reservation expires later by itself.
    _ = cache::set(&given_key(uid), text.as_bytes(), RESERVATION);
}

/// Returns the addresses recently assigned to a service.
fn given(uid: &str) -> Vec<IpAddr> {
    let text = cache::get(&given_key(uid))
        .and_then(|text| String::from_utf8(text).ok())
        .unwrap_or_default();
    text.split(' ')
        .filter_map(|address| address.parse().ok())
        .collect()
}

fn given_key(uid: &str) -> String {
    format!("given/{uid}")
}

fn publish(service: &Service, news: impl IntoIterator<Item = Event>) {
    for Event {
        warning,
        reason,
        message,
    } in news
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

/// The reservations of one service in the host's cache.
struct Desk<'a> {
    uid: &'a str,
    taken: Vec<IpAddr>,
}

impl Desk<'_> {
    /// Releases the reservations of this service, except for the addresses that it has.
    fn give_back(self, request: &Request) {
        for address in self.taken.iter().filter(|address| !request.has(**address)) {
            if self.holder(*address).as_deref() == Some(self.uid) {
                cache::remove(&key(*address));
            }
        }
    }
}

impl Reservations for Desk<'_> {
    fn holder(&self, address: IpAddr) -> Option<String> {
        String::from_utf8(cache::get(&key(address))?).ok()
    }

    fn reserve(&mut self, address: IpAddr) -> bool {
        let held =
            cache::reserve(&key(address), self.uid.as_bytes(), RESERVATION) == Reservation::Held;
        if held {
            self.taken.push(address);
        }
        held
    }
}

fn key(address: IpAddr) -> String {
    format!("address/{address}")
}
