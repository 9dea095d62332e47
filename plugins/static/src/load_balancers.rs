//! How allocations are reported on a Service: its status, its events, its errors.

use skydock_sdk::types::{CloudError, Ingress, IpMode, LoadBalancerStatus, Service};

use crate::{
    desired_load_balancer,
    pools::{
        allocate::{Allocation, Rejection},
        pool::Pools,
    },
};

/// An event on a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// True if the event is a warning.
    pub warning: bool,
    /// The reason, in CamelCase.
    pub reason: &'static str,
    /// The message, one sentence.
    pub message: String,
}

/// Returns the status of a Service with these addresses.
#[must_use]
pub fn status(addresses: impl Iterator<Item = std::net::IpAddr>) -> LoadBalancerStatus {
    let ingress = |address: std::net::IpAddr| Ingress {
        ip: Some(address.to_string()),
        // The default of the API server. It is set explicitly so that the status read back equals
        // the status written.
        ip_mode: Some(IpMode::Vip),
        ..Ingress::default()
    };
    LoadBalancerStatus {
        ingress: addresses.map(ingress).collect(),
    }
}

/// Returns the part of the Service's status whose addresses are in the inventory's pools, if there
/// is any.
#[must_use]
pub fn own_status(pools: &Pools, service: &Service) -> Option<LoadBalancerStatus> {
    let own = status(
        desired_load_balancer::current(service)
            .into_iter()
            .filter(|address| pools.of(*address).is_some()),
    );
    Some(own).filter(|own| !own.ingress.is_empty())
}

/// Returns the events about an allocation.
#[must_use]
pub fn allocation_events(allocation: &Allocation) -> Vec<Event> {
    let lost = allocation.lost.iter().map(|lost| {
        let keeper =
            lost.keeper.as_deref().map_or_else(|| "another Service".to_owned(), |name| format!("Service {name}"));
        let message = format!(
            "Address {} is also used by {keeper}, which keeps it; this Service gets another address",
            lost.address
        );
        Event { warning: true, reason: "AddressConflict", message }
    });

    let assigned = allocation
        .assigned
        .iter()
        .filter(|assigned| !assigned.is_current)
        .map(|assigned| {
            let message = format!(
                "Allocated address {} from pool {}",
                assigned.address, assigned.pool
            );
            Event {
                warning: false,
                reason: "AddressAllocated",
                message,
            }
        });

    lost.chain(assigned).collect()
}

/// Returns the event about a rejection, in addition to the error itself.
#[must_use]
pub fn rejection_event(rejection: &Rejection) -> Option<Event> {
    matches!(rejection, Rejection::Exhausted { .. }).then(|| Event {
        warning: true,
        reason: "AddressPoolExhausted",
        message: rejection.to_string(),
    })
}

/// Converts the rejection into an error for the host: retryable if the rejection passes by itself,
/// otherwise retried when the Service or the inventory changes.
#[must_use]
pub fn error(rejection: &Rejection) -> CloudError {
    if rejection.is_temporary() {
        CloudError::unavailable(rejection.to_string())
    } else {
        CloudError::invalid(rejection.to_string())
    }
}
