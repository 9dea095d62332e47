//! A cloud with routes, for tests: it behaves like a real one unless told to fail.

use std::{
    collections::{HashMap, VecDeque},
    sync::Mutex,
};

use skydock_cloud::{Answers, CloudError, NewRoute, Route};

/// The routes of a cloud, which behaves like a real one unless told to fail.
#[derive(Default)]
pub struct RouteTable {
    routes: Mutex<Vec<Route>>,
    /// True if the cloud knows the addresses that a route was created with.
    pub knows_addresses: std::sync::atomic::AtomicBool,
    /// Errors by destination of the route, or `list`; each is returned once.
    errors: Mutex<HashMap<String, VecDeque<CloudError>>>,
    /// A batch that contains this destination fails as a whole.
    poison: Mutex<Option<String>>,
    /// If set, changes wait for a permit.
    gate: Mutex<Option<std::sync::Arc<tokio::sync::Semaphore>>>,
    /// If set, only changes to this destination wait.
    slow: Mutex<Option<String>>,
    /// Maximum number of routes.
    pub limit: Mutex<Option<usize>>,
    /// Time that a list takes.
    pub list_takes: Mutex<std::time::Duration>,
    /// Number of changes in progress, and its maximum so far.
    in_flight: Mutex<(usize, usize)>,
}

impl RouteTable {
    pub fn has(&self, route: Route) {
        self.routes.lock().unwrap().push(route);
    }

    pub fn fails(&self, what: &str, error: CloudError) {
        self.errors
            .lock()
            .unwrap()
            .entry(what.to_owned())
            .or_default()
            .push_back(error);
    }

    pub fn is_poisoned_by(&self, cidr: &str) {
        *self.poison.lock().unwrap() = Some(cidr.to_owned());
    }

    pub fn gated(&self) -> std::sync::Arc<tokio::sync::Semaphore> {
        let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
        *self.gate.lock().unwrap() = Some(gate.clone());
        gate
    }

    /// Like [`Self::gated`], for changes to this destination.
    pub fn slow(&self, cidr: &str) -> std::sync::Arc<tokio::sync::Semaphore> {
        *self.slow.lock().unwrap() = Some(cidr.to_owned());
        self.gated()
    }

    pub fn most_in_flight(&self) -> usize {
        self.in_flight.lock().unwrap().1
    }

    /// Returns `TARGET CIDR` for each route, sorted.
    pub fn all(&self) -> Vec<String> {
        let routes = self.routes.lock().unwrap();
        let text = |route: &Route| {
            format!(
                "{} {}",
                route.target_node.as_deref().unwrap_or("?"),
                route.destination_cidr
            )
        };
        let mut all: Vec<_> = routes.iter().map(text).collect();
        all.sort();
        all
    }

    fn error(&self, what: &str) -> Option<CloudError> {
        self.errors.lock().unwrap().get_mut(what)?.pop_front()
    }

    pub fn list(&self) -> Result<Vec<Route>, CloudError> {
        self.error("list")
            .map_or_else(|| Ok(self.routes.lock().unwrap().clone()), Err)
    }

    async fn wait<'a>(&self, mut cidrs: impl ExactSizeIterator<Item = &'a String>) {
        let count = cidrs.len();
        {
            let mut in_flight = self.in_flight.lock().unwrap();
            in_flight.0 += count;
            in_flight.1 = in_flight.1.max(in_flight.0);
        }
        let gate = self.gate.lock().unwrap().clone();
        let slow = self.slow.lock().unwrap().clone();
        if let Some(gate) = gate.filter(|_| slow.is_none_or(|slow| cidrs.any(|cidr| *cidr == slow)))
        {
            gate.acquire().await.unwrap().forget();
        }
        self.in_flight.lock().unwrap().0 -= count;
    }

    fn poisoned<'a>(&self, mut cidrs: impl Iterator<Item = &'a str>) -> Result<(), CloudError> {
        let poison = self.poison.lock().unwrap();
        match poison
            .as_deref()
            .filter(|poison| cidrs.any(|cidr| cidr == *poison))
        {
            Some(_) => Err(CloudError::Internal("trap".into())),
            None => Ok(()),
        }
    }

    pub async fn create(&self, new: &[NewRoute]) -> Result<Answers<()>, CloudError> {
        self.wait(new.iter().map(|new| &new.destination_cidr)).await;
        self.poisoned(new.iter().map(|new| new.destination_cidr.as_str()))?;
        let create = |new: &NewRoute| {
            if let Some(error) = self.error(&new.destination_cidr) {
                return Err(error);
            }
            let mut routes = self.routes.lock().unwrap();
            if routes
                .iter()
                .any(|route| route.destination_cidr == new.destination_cidr)
            {
                return Err(CloudError::Invalid(
                    "there is another route for this destination".into(),
                ));
            }
            let knows = self
                .knows_addresses
                .load(std::sync::atomic::Ordering::Relaxed);
            routes.push(Route {
                name: format!("{}-{}", new.target_node, new.destination_cidr),
                target_node: Some(new.target_node.clone()),
                target_addresses: knows.then(|| new.target_addresses.clone()),
                destination_cidr: new.destination_cidr.clone(),
                blackhole: false,
            });
            Ok(())
        };
        Ok(new.iter().map(create).collect())
    }

    pub async fn delete(&self, old: &[Route]) -> Result<Answers<()>, CloudError> {
        self.wait(old.iter().map(|old| &old.destination_cidr)).await;
        self.poisoned(old.iter().map(|old| old.destination_cidr.as_str()))?;
        let delete = |old: &Route| {
            if let Some(error) = self.error(&old.destination_cidr) {
                return Err(error);
            }
            self.routes
                .lock()
                .unwrap()
                .retain(|route| route.name != old.name);
            Ok(())
        };
        Ok(old.iter().map(delete).collect())
    }
}
