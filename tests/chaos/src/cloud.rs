//! A cloud that keeps its state in memory, and is as unreliable as it is told to be.

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

/// A service with this annotation asks for what this cloud cannot do.
pub(crate) const REFUSE: &str = "sim.example/refuse";
/// Something that a load balancer takes over from its service.
pub(crate) const NOTE: &str = "sim.example/note";
/// Begins every provider ID.
pub(crate) const PREFIX: &str = "sim://";

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Name of the node it is to be.
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
    /// Ports it listens on.
    pub ports: Vec<u16>,
    /// The service's annotation [`NOTE`].
    pub note: String,
    /// Names and provider IDs of the nodes behind it.
    pub nodes: BTreeSet<(String, Option<String>)>,
    /// Not whole: some parts were never made, or are gone already. It does not show, and costs money all the same.
    pub whole: bool,
}

/// The cloud. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Cloud {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    /// By provider ID.
    machines: BTreeMap<String, Machine>,
    /// By UID of the service.
    balancers: BTreeMap<String, Balancer>,
    routes: Vec<routes::Entry>,
    trouble: Trouble,
    chance: StdRng,
    calls: Vec<String>,
    /// How often each mishap has happened.
    met: BTreeMap<&'static str, u64>,
    /// Numbers machines and addresses.
    made: u32,
    /// Machines about which the last answer was a lie.
    lied: BTreeSet<String>,
    /// No machine can be seen.
    blind: bool,
    /// UIDs of services that at some time did not want their load balancer any more, and of nodes that did not want their
    /// routes.
    released: BTreeSet<String>,
    wrongs: Vec<String>,
}

impl Cloud {
    /// A cloud with nothing in it but routes of others, in which chance comes from this seed.
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
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Starts a machine for the node of this name, and gives its provider ID.
    #[must_use]
    pub fn add_machine(&self, name: &str) -> String {
        let mut state = self.lock();
        let address = state.address("10.0");
        let id = format!("{PREFIX}{name}-{}", state.made);
        state.machines.insert(id.clone(), Machine { name: name.to_owned(), running: true, address });
        id
    }

    /// Switches a machine on or off.
    pub fn power(&self, id: &str, running: bool) {
        if let Some(machine) = self.lock().machines.get_mut(id) {
            machine.running = running;
        }
    }

    /// Gives a machine another address.
    pub fn readdress(&self, id: &str) {
        let mut state = self.lock();
        let address = state.address("10.0");
        if let Some(machine) = state.machines.get_mut(id) {
            machine.address = address;
        }
    }

    /// Takes a machine away for ever.
    pub fn remove_machine(&self, id: &str) {
        self.lock().machines.remove(id);
    }

    /// Says of all machines that they are gone, or does not any more.
    pub fn blind(&self, blind: bool) {
        self.lock().blind = blind;
    }

    /// From now on a load balancer of this service may be deleted, or the routes to this node.
    /// False if so it was already.
    pub fn release(&self, uid: &str) -> bool {
        self.lock().released.insert(uid.to_owned())
    }

    /// From now on none of it may be deleted again.
    pub fn claim(&self, uid: &str) {
        self.lock().released.remove(uid);
    }

    /// From now on this goes wrong, and nothing else.
    pub fn trouble(&self, trouble: Trouble) {
        self.lock().trouble = trouble;
    }

    /// The machine of this provider ID.
    #[must_use]
    pub fn machine(&self, id: &str) -> Option<Machine> {
        self.lock().machines.get(id).cloned()
    }

    /// All load balancers, whole or not, by UID of their service.
    #[must_use]
    pub fn balancers(&self) -> BTreeMap<String, Balancer> {
        self.lock().balancers.clone()
    }

    /// Every call there was, in short.
    #[must_use]
    pub fn calls(&self) -> Vec<String> {
        self.lock().calls.clone()
    }

    /// How often each mishap has happened, by [`Mishap::name`], and `destination taken`: a route was asked for where another
    /// one was still in its place.
    #[must_use]
    pub fn met(&self) -> BTreeMap<&'static str, u64> {
        self.lock().met.clone()
    }

    /// What the host has asked for that it must never ask for.
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

    /// The machine of a node: by provider ID, or by name if it has none yet.
    fn machine_of(&self, node: &skydock_cloud::Node) -> Option<(&String, &Machine)> {
        match &node.provider_id {
            Some(id) => self.machines.get_key_value(id),
            None => self.machines.iter().rfind(|(_, machine)| machine.name == node.name),
        }
    }

    fn coin(&mut self) -> bool {
        self.chance.random_bool(0.5)
    }
}
