//! Which addresses a service gets. Decides by values alone, and by reservations, which order calls that run at the same
//! time.
//!
//! 1. An address that the service asks for by name is given, or refused; never another one in its place.
//! 2. Else an address in the status stays, for the life of the service: through restarts, swaps and changes of the
//!    inventory. If it is in no pool any more, the service is refused rather than moved, because a slip in the inventory must not
//!    renumber a cluster; asking for a pool or an address moves it. An address that was given and that the status does not
//!    show yet stays too.
//! 3. Else the first free address of the pool asked for, or of the pools that assign by themselves, in the order of the
//!    inventory.
//!
//! No address is shared. If two services have one address in their status (somebody has written there), the one whose
//! reservation is alive keeps it, else the first by namespace and name; the other gets a new one.

use std::net::IpAddr;

use crate::{
    holders::{Holder, Holders},
    pool::{Pool, Pools},
    range::Family,
    request::Request,
};

/// Claims on addresses by uid that end by themselves. They bridge the time between an answer and its appearance in the status
/// of the service.
pub trait Reservations {
    /// Uid of the service that has the address reserved.
    fn holder(&self, address: IpAddr) -> Option<String>;

    /// Reserves the address for the service that is being worked on, or prolongs its reservation. False if another
    /// service has it.
    fn reserve(&mut self, address: IpAddr) -> bool;
}

/// An address for a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The address.
    pub address: IpAddr,
    /// Name of its pool.
    pub pool: String,
    /// True if it is in the status already, or on its way there.
    pub kept: bool,
}

/// An address in the status that another service keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The address.
    pub address: IpAddr,
    /// `NAMESPACE/NAME` of the service that keeps it, if it is known by its status.
    pub keeper: Option<String>,
}

/// What a service gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// At least one, at most one per family, in the order of the service's families.
    pub given: Vec<Given>,
    /// What it had and may not keep.
    pub lost: Vec<Lost>,
}

/// Why a service gets no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The pool asked for is not in the inventory.
    #[error("there is no address pool `{pool}`; pools of the inventory: {known}")]
    UnknownPool {
        /// What was asked for.
        pool: String,
        /// What there is.
        known: String,
    },
    /// The address asked for is in no pool.
    #[error("the requested address {0} is in no address pool of the inventory")]
    OutsidePools(IpAddr),
    /// The address asked for is in another pool than the one asked for.
    #[error("the requested address {address} is in address pool `{actual}`, not in the requested pool `{requested}`")]
    OtherPool {
        /// What was asked for.
        address: IpAddr,
        /// Its pool.
        actual: String,
        /// The pool asked for.
        requested: String,
    },
    /// The address in the status has left the pools.
    #[error(
        "its address {0} is in no address pool of the inventory any more: add it to a pool again, or choose a pool with the \
         annotation {pool} to move the service",
        pool = crate::request::POOL_ANNOTATION
    )]
    Stranded(IpAddr),
    /// No pool that may be used has addresses of this family.
    #[error("no address pool {scope} has {family} addresses", scope = scope(pool.as_deref()))]
    NoPool {
        /// The family that was needed.
        family: Family,
        /// The pool asked for.
        pool: Option<String>,
    },
    /// The address asked for is another service's.
    #[error("the requested address {address} is in use by {keeper}; addresses are not shared", keeper = whose(keeper.as_deref()))]
    Taken {
        /// What was asked for.
        address: IpAddr,
        /// `NAMESPACE/NAME` of the other service, if it is known by its status.
        keeper: Option<String>,
    },
    /// All addresses that may be used are in use.
    #[error("no free {family} address is left in address pool {pools}")]
    Exhausted {
        /// The family that was needed.
        family: Family,
        /// Names of the pools.
        pools: String,
    },
}

impl Refusal {
    /// True if the same request may succeed later without a change of the service or of the inventory: when another
    /// service gives an address back.
    #[must_use]
    pub fn passes(&self) -> bool {
        matches!(self, Self::Taken { .. } | Self::Exhausted { .. })
    }
}

fn scope(pool: Option<&str>) -> String {
    pool.map_or_else(|| "that assigns by itself".to_owned(), |pool| format!("`{pool}`"))
}

fn whose(name: Option<&str>) -> String {
    name.map_or_else(|| "another service".to_owned(), |name| format!("service {name}"))
}

/// Decides which addresses the service gets, and reserves them. `holders` may be older than the newest reservations, never
/// older than the oldest.
///
/// # Errors
/// If the request cannot be met; some addresses may then be reserved in vain.
pub fn allocate(
    pools: &Pools,
    request: &Request,
    holders: &Holders,
    reservations: &mut impl Reservations,
) -> Result<Allocation, Refusal> {
    if let Some(pool) = request.pool.as_deref().filter(|pool| pools.named(pool).is_none()) {
        return Err(Refusal::UnknownPool { pool: pool.to_owned(), known: pools.names() });
    }
    let mut desk = Desk { pools, request, holders, reservations, lost: Vec::new() };
    let mut given = Vec::new();
    let mut missing = None;
    for family in request.families.iter().copied() {
        match desk.serve(family) {
            Ok(address) => given.push(address),
            // PreferDualStack takes what there is.
            Err(refusal @ (Refusal::NoPool { .. } | Refusal::Exhausted { .. })) if !request.require_all => {
                missing.get_or_insert(refusal);
            }
            Err(refusal) => return Err(refusal),
        }
    }
    match missing {
        Some(refusal) if given.is_empty() => Err(refusal),
        _ => Ok(Allocation { given, lost: desk.lost }),
    }
}

/// One request at work.
struct Desk<'a, R> {
    pools: &'a Pools,
    request: &'a Request,
    holders: &'a Holders,
    reservations: &'a mut R,
    lost: Vec<Lost>,
}

impl<R: Reservations> Desk<'_, R> {
    /// One address of this family.
    fn serve(&mut self, family: Family) -> Result<Given, Refusal> {
        let of_family = |address: &&IpAddr| Family::of(**address) == family;
        if let Some(address) = self.request.addresses.iter().find(of_family) {
            return self.give_requested(*address);
        }
        let mut stranded = None;
        for address in self.request.current.iter().filter(of_family) {
            match self.pools.of(*address) {
                None => stranded = stranded.or(Some(*address)),
                Some(pool) if !self.serves(pool) => {}
                Some(pool) => match self.take(*address) {
                    Ok(()) => return Ok(self.given(*address, pool)),
                    Err(keeper) => self.lost.push(Lost { address: *address, keeper }),
                },
            }
        }
        if let Some(address) = stranded.filter(|_| self.request.pool.is_none()) {
            return Err(Refusal::Stranded(address));
        }
        match self.give_again(family) {
            Some(given) => Ok(given),
            None => self.give_free(family),
        }
    }

    /// The address of this family that was given before, and is not in the status yet.
    fn give_again(&mut self, family: Family) -> Option<Given> {
        let given = self.request.given.iter().filter(|address| Family::of(**address) == family);
        for address in given {
            let pool = self.pools.of(*address).filter(|pool| self.serves(pool));
            if let Some(pool) = pool
                && self.take(*address).is_ok()
            {
                return Some(self.given(*address, pool));
            }
        }
        None
    }

    /// True if the service may have addresses of this pool: the one it asks for, else any.
    fn serves(&self, pool: &Pool) -> bool {
        self.request.pool.as_ref().is_none_or(|requested| *requested == pool.name)
    }

    /// The address the service asks for by name.
    fn give_requested(&mut self, address: IpAddr) -> Result<Given, Refusal> {
        let pool = self.pools.of(address).ok_or(Refusal::OutsidePools(address))?;
        if let Some(requested) = self.request.pool.clone().filter(|requested| *requested != pool.name) {
            return Err(Refusal::OtherPool { address, actual: pool.name.clone(), requested });
        }
        match self.take(address) {
            Ok(()) => Ok(self.given(address, pool)),
            Err(keeper) => Err(Refusal::Taken { address, keeper }),
        }
    }

    /// The first free address of the pools that may be used.
    fn give_free(&mut self, family: Family) -> Result<Given, Refusal> {
        let pools: Vec<&Pool> = match &self.request.pool {
            Some(name) => self.pools.named(name).into_iter().collect(),
            None => self.pools.0.iter().filter(|pool| pool.auto_assign).collect(),
        };
        let pools: Vec<&Pool> = pools.into_iter().filter(|pool| pool.has(family)).collect();
        for pool in &pools {
            for address in pool.addresses(family) {
                if self.take(address).is_ok() {
                    return Ok(self.given(address, pool));
                }
            }
        }
        if pools.is_empty() {
            return Err(Refusal::NoPool { family, pool: self.request.pool.clone() });
        }
        let pools = pools.iter().map(|pool| pool.name.as_str()).collect::<Vec<_>>().join(", ");
        Err(Refusal::Exhausted { family, pools })
    }

    /// Takes the address, unless it is another service's: then the answer is its name, if it is known.
    fn take(&mut self, address: IpAddr) -> Result<(), Option<String>> {
        let request = self.request;
        let rivals = self.holders.others(address, &request.uid);
        let rival = if !request.current.contains(&address) {
            rivals.min_by(|one, other| one.name.cmp(&other.name))
        } else if self.reservations.holder(address).as_ref() == Some(&request.uid) {
            None
        } else {
            rivals.filter(|rival| rival.name < request.name).min_by(|one, other| one.name.cmp(&other.name))
        };
        match rival {
            Some(Holder { name, .. }) => Err(Some(name.clone())),
            None if self.reservations.reserve(address) => Ok(()),
            None => Err(self.holders.others(address, &request.uid).next().map(|holder| holder.name.clone())),
        }
    }

    fn given(&self, address: IpAddr, pool: &Pool) -> Given {
        Given { address, pool: pool.name.clone(), kept: self.request.has(address) }
    }
}

#[cfg(test)]
mod tests;
