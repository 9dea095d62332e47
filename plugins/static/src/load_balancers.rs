//! What is said of a service's addresses: its status, its events, its failures.

use skydock_sdk::types::{CloudError, Ingress, IpMode, LoadBalancerStatus, Service};

use crate::{
    allocate::{Allocation, Refusal},
    pool::Pools,
    request,
};

/// An event on a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// True if somebody should look.
    pub warning: bool,
    /// CamelCase.
    pub reason: &'static str,
    /// One sentence.
    pub message: String,
}

/// The status of a service with these addresses.
#[must_use]
pub fn status(addresses: impl Iterator<Item = std::net::IpAddr>) -> LoadBalancerStatus {
    let ingress = |address: std::net::IpAddr| Ingress {
        ip: Some(address.to_string()),
        // What the API server would default to; said here, so that what is written is what is read back.
        ip_mode: Some(IpMode::Vip),
        ..Ingress::default()
    };
    LoadBalancerStatus { ingress: addresses.map(ingress).collect() }
}

/// The part of the service's status that is of the inventory's pools, if there is any.
#[must_use]
pub fn own_status(pools: &Pools, service: &Service) -> Option<LoadBalancerStatus> {
    let own = status(request::current(service).into_iter().filter(|address| pools.of(*address).is_some()));
    Some(own).filter(|own| !own.ingress.is_empty())
}

/// What the service's owner should hear about an allocation.
#[must_use]
pub fn news(allocation: &Allocation) -> Vec<Event> {
    let lost = allocation.lost.iter().map(|lost| {
        let keeper =
            lost.keeper.as_deref().map_or_else(|| "another service".to_owned(), |name| format!("service {name}"));
        let message = format!("Address {} stays with {keeper}, which has it too; this service moves", lost.address);
        Event { warning: true, reason: "AddressConflict", message }
    });
    let given = allocation.given.iter().filter(|given| !given.kept).map(|given| {
        let message = format!("Address {} of pool {}", given.address, given.pool);
        Event { warning: false, reason: "AddressAllocated", message }
    });
    lost.chain(given).collect()
}

/// What the service's owner should hear about a refusal, besides the failure itself.
#[must_use]
pub fn refusal_news(refusal: &Refusal) -> Option<Event> {
    matches!(refusal, Refusal::Exhausted { .. }).then(|| Event {
        warning: true,
        reason: "AddressPoolExhausted",
        message: refusal.to_string(),
    })
}

/// The refusal as the host takes it: tried again if it passes by itself, else when the service or the inventory changes.
#[must_use]
pub fn failure(refusal: &Refusal) -> CloudError {
    if refusal.passes() {
        CloudError::unavailable(refusal.to_string())
    } else {
        CloudError::invalid(refusal.to_string())
    }
}
