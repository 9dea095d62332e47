//! A cloud that keeps its state in memory and fails on request.

mod provider;
mod routes;
mod trouble;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

pub(crate) use self::routes::CLUSTER_CIDRS;
pub use self::trouble::{Mishap, Trouble};

/// Annotation of services that request something that this cloud does not support.
pub(crate) const REJECT: &str = "sim.example/reject";
/// Annotation whose value the load balancer takes over from its service.
pub(crate) const NOTE: &str = "sim.example/note";
/// The prefix of every provider ID.
pub(crate) const PREFIX: &str = "sim://";

/// An instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The name of its node.
    pub name: String,
    /// Whether it runs.
    pub running: bool,
    /// Its address.
    pub address: String,
}

/// A load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balancer {
    /// `NAMESPACE/NAME` of its service.
    pub service: String,
    /// Its address.
    pub address: String,
    /// The ports it listens on.
    pub ports: Vec<u16>,
    /// The value of the service's annotation `NOTE`.
    pub note: String,
    /// Names and provider IDs of the nodes behind it.
    pub nodes: BTreeSet<(String, Option<String>)>,
    /// False if parts were never created, or are already deleted. An incomplete load balancer is
    /// not listed, but still costs money.
    pub whole: bool,
}

/// The cloud. Clones share the same state.
#[derive(Clone, Debug)]
pub struct Cloud {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    /// Instances by provider ID.
    machines: BTreeMap<String, Machine>,
    /// Load balancers by UID of the service.
    balancers: BTreeMap<String, Balancer>,
    routes: Vec<routes::Entry>,
    trouble: Trouble,
    chance: StdRng,
    calls: Vec<String>,
    /// How often each mishap has happened.
    met: BTreeMap<&'static str, u64>,
    /// Counter for names of instances and addresses.
    made: u32,
    /// Instances about which the last answer was a lie.
    lied: BTreeSet<String>,
    /// True if all instances are reported as absent.
    blind: bool,
    /// UIDs of services whose load balancer may be deleted because they did not need it at some
    /// time, and of nodes whose routes may be deleted.
    released: BTreeSet<String>,
    wrongs: Vec<String>,
}

impl Cloud {
    /// Creates an empty cloud, except for routes of others. Random choices depend on this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let state = State {
            machines: BTreeMap::new(),
            balancers: BTreeMap::new(),
            routes: routes::others(),
            trouble: Trouble::default(),
            chance: StdRng::seed_from_u64(seed),
            calls: Vec::new(),
            met: BTreeMap::new(),
            made: 0,
            lied: BTreeSet::new(),
            blind: false,
            released: BTreeSet::new(),
            wrongs: Vec::new(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Starts an instance for the node with this name and returns its provider ID.
    #[must_use]
    pub fn add_machine(&self, name: &str) -> String {
        let mut state = self.lock();
        let address = state.address("10.0");
        let id = format!("{PREFIX}{name}-{}", state.made);
        state.machines.insert(
            id.clone(),
            Machine {
                name: name.to_owned(),
                running: true,
                address,
            },
        );
        id
    }

    /// Starts or stops an instance.
    pub fn power(&self, id: &str, running: bool) {
        if let Some(machine) = self.lock().machines.get_mut(id) {
            machine.running = running;
        }
    }

    /// Changes the address of an instance.
    pub fn readdress(&self, id: &str) {
        let mut state = self.lock();
        let address = state.address("10.0");
        if let Some(machine) = state.machines.get_mut(id) {
            machine.address = address;
        }
    }

    /// Deletes an instance permanently.
    pub fn remove_machine(&self, id: &str) {
        self.lock().machines.remove(id);
    }

    /// Sets whether all instances are reported as absent.
    pub fn blind(&self, blind: bool) {
        self.lock().blind = blind;
    }

    /// Allows the deletion of the load balancer of this service, or of the routes to this node.
    /// Returns false if it was already allowed.
    pub fn release(&self, uid: &str) -> bool {
        self.lock().released.insert(uid.to_owned())
    }

    /// Forbids the deletion again.
    pub fn claim(&self, uid: &str) {
        self.lock().released.remove(uid);
    }

    /// Replaces the configured trouble.
    pub fn trouble(&self, trouble: Trouble) {
        self.lock().trouble = trouble;
    }

    /// Returns the instance with this provider ID.
    #[must_use]
    pub fn machine(&self, id: &str) -> Option<Machine> {
        self.lock().machines.get(id).cloned()
    }

    /// Returns all load balancers by UID of their service, including incomplete ones.
    #[must_use]
    pub fn balancers(&self) -> BTreeMap<String, Balancer> {
        self.lock().balancers.clone()
    }

    /// Returns short descriptions of all calls.
    #[must_use]
    pub fn calls(&self) -> Vec<String> {
        self.lock().calls.clone()
    }

    /// Returns how often each mishap has happened, by [`Mishap::name`]. `destination taken` counts
    /// requests for a route whose destination was still used by another route.
    #[must_use]
    pub fn met(&self) -> BTreeMap<&'static str, u64> {
        self.lock().met.clone()
    }

    /// Returns requests of the host that are never allowed.
    #[must_use]
    pub fn wrongs(&self) -> Vec<String> {
        self.lock().wrongs.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn address(&mut self, network: &str) -> String {
        self.made += 1;
        format!("{network}.{}.{}", self.made / 250, self.made % 250 + 1)
    }

    /// Returns the instance of a node: by provider ID, or by name if it has none yet.
    fn machine_of(&self, node: &skydock_cloud::Node) -> Option<(&String, &Machine)> {
        match &node.provider_id {
            Some(id) => self.machines.get_key_value(id),
            None => self
                .machines
                .iter()
                .rfind(|(_, machine)| machine.name == node.name),
        }
    }

    fn coin(&mut self) -> bool {
        self.chance.random_bool(0.5)
    }
}
