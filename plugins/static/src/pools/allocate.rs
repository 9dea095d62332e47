//! Decides which addresses a Service gets. The decision depends only on values and on reservations;
//! the reservations serialize calls that run at the same time.
//!
//! 1. An address that the Service requests explicitly is assigned, or the request is rejected. No
//!    other address is assigned instead.
//! 2. Otherwise, an address in the status is kept for the life of the Service: across restarts,
//!    swaps and changes of the inventory. If the address is not in any pool, the Service is
//!    rejected instead of moved, because a mistake in the inventory must not renumber a cluster.
//!    Requesting a pool or an address moves the Service. An address that was assigned but is not
//!    yet in the status is kept too.
//! 3. Otherwise, the first free address is assigned: of the requested pool, or of the pools with
//!    automatic assignment, in the order of the inventory.
//!
//! Addresses are not shared. If two Services have the same address in their status (somebody else
//! wrote it there), the Service whose reservation has not expired keeps it, otherwise the first one
//! by namespace and name. The other Service gets another address.

use std::net::IpAddr;

use crate::{
    desired_load_balancer::DesiredLoadBalancer,
    pools::{
        holders::{Holder, Holders},
        pool::{Pool, Pools},
        range::Family,
    },
};

/// Reservations of addresses by Service UID, which expire by themselves. They bridge the time until
/// an assigned address appears in the status of the Service.
pub trait Reservations {
    /// Returns the UID of the Service that has reserved the address.
    fn holder(&self, address: IpAddr) -> Option<String>;

    /// Reserves the address for the Service being processed, or renews its reservation. Returns
    /// false if another Service has reserved the address.
    fn reserve(&mut self, address: IpAddr) -> bool;
}

/// An address assigned to a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// The address.
    pub address: IpAddr,
    /// The name of its pool.
    pub pool: String,
    /// True if the Service already has the address in its status, or was assigned it recently.
    pub is_current: bool,
}

/// An address in the status of the Service that another Service keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The address.
    pub address: IpAddr,
    /// `NAMESPACE/NAME` of the Service that keeps it, if known from its status.
    pub keeper: Option<String>,
}

/// The addresses assigned to a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// The assigned addresses, at least one and at most one per family, in the order of the
    /// Service's families.
    pub assigned: Vec<Assigned>,
    /// Addresses in the Service's status that another Service keeps.
    pub lost: Vec<Lost>,
}

/// The reason why a Service gets no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The requested pool is not in the inventory.
    #[error("unknown address pool `{pool}`; the inventory has {known}")]
    UnknownPool {
        /// The requested pool.
        pool: String,
        /// The names of the pools in the inventory.
        known: String,
    },
    /// The requested address is in no pool.
    #[error("the requested address {0} is not in any address pool of the inventory")]
    OutsidePools(IpAddr),
    /// The requested address is in another pool than the requested one.
    #[error(
        "the requested address {address} is in address pool `{actual}`, not in the requested pool `{requested}`"
    )]
    OtherPool {
        /// The requested address.
        address: IpAddr,
        /// The pool that the address is in.
        actual: String,
        /// The requested pool.
        requested: String,
    },
    /// The address in the status is not in any pool.
    #[error(
        "its address {0} is no longer in any address pool of the inventory: add it to a pool again, or select a pool with the \
         annotation {pool} to move the Service",
        pool = crate::desired_load_balancer::POOL_ANNOTATION
    )]
    Stranded(IpAddr),
    /// No eligible pool has addresses of this family.
    #[error("no address pool {scope} has {family} addresses", scope = scope(pool.as_deref()))]
    NoPool {
        /// The required family.
        family: Family,
        /// The requested pool.
        pool: Option<String>,
    },
    /// The requested address belongs to another Service.
    #[error("the requested address {address} is in use by {keeper}; addresses cannot be shared", keeper = whose(keeper.as_deref()))]
    Taken {
        /// The requested address.
        address: IpAddr,
        /// `NAMESPACE/NAME` of the other Service, if known from its status.
        keeper: Option<String>,
    },
    /// All addresses in the eligible pools are in use.
    #[error("no free {family} address in address pool {pools}")]
    Exhausted {
        /// The required family.
        family: Family,
        /// The names of the eligible pools.
        pools: String,
    },
}

impl Rejection {
    /// Returns true if the same request can succeed later without a change of the Service or of the
    /// inventory, because another Service may release an address.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Taken { .. } | Self::Exhausted { .. })
    }
}

fn scope(pool: Option<&str>) -> String {
    pool.map_or_else(
        || "with `autoAssign: true`".to_owned(),
        |pool| format!("`{pool}`"),
    )
}

fn whose(name: Option<&str>) -> String {
    name.map_or_else(
        || "another Service".to_owned(),
        |name| format!("Service {name}"),
    )
}

/// Decides which addresses the Service gets, and reserves them. `holders` may be older than some
/// reservations, but every address assigned since it was read must still be reserved.
///
/// # Errors
/// Returns a [`Rejection`] if the request cannot be met. Some addresses may be reserved in this case
/// although they are not assigned.
pub fn allocate(
    pools: &Pools,
    desired: &DesiredLoadBalancer,
    holders: &Holders,
    reservations: &mut impl Reservations,
) -> Result<Allocation, Rejection> {
    if let Some(pool) = desired
        .pool
        .as_deref()
        .filter(|pool| pools.named(pool).is_none())
    {
        return Err(Rejection::UnknownPool {
            pool: pool.to_owned(),
            known: pools.names(),
        });
    }

    let mut allocator = Allocator {
        pools,
        desired,
        holders,
        reservations,
        lost: Vec::new(),
    };

    let mut assigned = Vec::new();
    let mut missing = None;
    for family in desired.families.iter().copied() {
        match allocator.assign(family) {
            Ok(address) => assigned.push(address),
            // PreferDualStack accepts a single family.
            Err(rejection @ (Rejection::NoPool { .. } | Rejection::Exhausted { .. }))
                if desired.allows_partial =>
            {
                missing.get_or_insert(rejection);
            }
            Err(rejection) => return Err(rejection),
        }
    }

    match missing {
        Some(rejection) if assigned.is_empty() => Err(rejection),
        _ => Ok(Allocation {
            assigned,
            lost: allocator.lost,
        }),
    }
}

/// The state while one request is processed.
struct Allocator<'a, R> {
    pools: &'a Pools,
    desired: &'a DesiredLoadBalancer,
    holders: &'a Holders,
    reservations: &'a mut R,
    lost: Vec<Lost>,
}

impl<R: Reservations> Allocator<'_, R> {
    /// Assigns one address of this family.
    fn assign(&mut self, family: Family) -> Result<Assigned, Rejection> {
        let of_family = |address: &&IpAddr| Family::of(**address) == family;
        if let Some(address) = self.desired.addresses.iter().find(of_family) {
            return self.assign_requested(*address);
        }

        let mut stranded = None;
        for address in self.desired.current.iter().filter(of_family) {
            match self.pools.of(*address) {
                None => stranded = stranded.or(Some(*address)),
                // The Service requests another pool, so it moves.
                Some(pool) if !self.may_use(pool) => {}
                Some(pool) => match self.claim(*address) {
                    Ok(()) => return Ok(self.assigned(*address, pool)),
                    Err(keeper) => self.lost.push(Lost {
                        address: *address,
                        keeper,
                    }),
                },
            }
        }

        if let Some(address) = stranded.filter(|_| self.desired.pool.is_none()) {
            return Err(Rejection::Stranded(address));
        }
        match self.assign_again(family) {
            Some(assigned) => Ok(assigned),
            None => self.assign_free(family),
        }
    }

    /// Assigns the address of this family that was assigned before and is not yet in the status.
    fn assign_again(&mut self, family: Family) -> Option<Assigned> {
        let assigned = self
            .desired
            .assigned
            .iter()
            .filter(|address| Family::of(**address) == family);
        for address in assigned {
            let pool = self.pools.of(*address).filter(|pool| self.may_use(pool));
            if let Some(pool) = pool
                && self.claim(*address).is_ok()
            {
                return Some(self.assigned(*address, pool));
            }
        }
        None
    }

    /// Returns true if the Service may have addresses of this pool: of the requested pool, or of
    /// any pool if it requests none.
    fn may_use(&self, pool: &Pool) -> bool {
        self.desired
            .pool
            .as_ref()
            .is_none_or(|requested| *requested == pool.name)
    }

    /// Assigns the address that the Service requests.
    fn assign_requested(&mut self, address: IpAddr) -> Result<Assigned, Rejection> {
        let pool = self
            .pools
            .of(address)
            .ok_or(Rejection::OutsidePools(address))?;

        if let Some(requested) = self
            .desired
            .pool
            .clone()
            .filter(|requested| *requested != pool.name)
        {
            return Err(Rejection::OtherPool {
                address,
                actual: pool.name.clone(),
                requested,
            });
        }

        match self.claim(address) {
            Ok(()) => Ok(self.assigned(address, pool)),
            Err(keeper) => Err(Rejection::Taken { address, keeper }),
        }
    }

    /// Assigns the first free address of the eligible pools.
    fn assign_free(&mut self, family: Family) -> Result<Assigned, Rejection> {
        let pools: Vec<&Pool> = match &self.desired.pool {
            Some(name) => self.pools.named(name).into_iter().collect(),
            None => self
                .pools
                .0
                .iter()
                .filter(|pool| pool.auto_assign)
                .collect(),
        };
        let pools: Vec<&Pool> = pools.into_iter().filter(|pool| pool.has(family)).collect();

        for pool in &pools {
            for address in pool.addresses(family) {
                if self.claim(address).is_ok() {
                    return Ok(self.assigned(address, pool));
                }
            }
        }

        if pools.is_empty() {
            return Err(Rejection::NoPool {
                family,
                pool: self.desired.pool.clone(),
            });
        }

        let pools = pools
            .iter()
            .map(|pool| pool.name.as_str())
            .collect::<Vec<_>>()
            .join(", ");
        Err(Rejection::Exhausted { family, pools })
    }

    /// Reserves the address. If it belongs to another Service, the error is the name of that
    /// Service, if known.
    fn claim(&mut self, address: IpAddr) -> Result<(), Option<String>> {
        let desired = self.desired;
        let rivals = self.holders.others(address, &desired.uid);

        let rival = if !desired.current.contains(&address) {
            // An address that the Service does not have belongs to whoever has it.
            rivals.min_by(|one, other| one.name.cmp(&other.name))
        } else if self.reservations.holder(address).as_ref() == Some(&desired.uid) {
            // Of several that have it, the one whose reservation has not expired keeps it.
            None
        } else {
            // Without such a reservation, the first one by namespace and name keeps it.
            rivals
                .filter(|rival| rival.name < desired.key)
                .min_by(|one, other| one.name.cmp(&other.name))
        };

        match rival {
            Some(Holder { name, .. }) => Err(Some(name.clone())),
            None if self.reservations.reserve(address) => Ok(()),
            None => Err(self
                .holders
                .others(address, &desired.uid)
                .next()
                .map(|holder| holder.name.clone())),
        }
    }

    fn assigned(&self, address: IpAddr, pool: &Pool) -> Assigned {
        Assigned {
            address,
            pool: pool.name.clone(),
            is_current: self.desired.holds_address(address),
        }
    }
}

#[cfg(test)]
mod tests;
