//! Which objects of the cluster have an IP address or a name. The caches are indexed, because each answer of a
//! provider with an address asks, and a cluster has thousands of objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Service;
use parking_lot::{Mutex, MutexGuard};
use skydock_cloud::{Holder, Node};
use skydock_kube::informer::{Change, Entry, Informer, Kind};

use crate::objects::kinds::{NodeKind, ServiceKind};

type Handler = Box<dyn Fn(String) + Send>;

/// The objects that have addresses.
#[derive(Default)]
pub struct AddressHolders {
    index: Mutex<Index>,
    handlers: Mutex<Vec<Handler>>,
    left_to_others: Arc<LeftToOthers>,
}

/// Keys of the Services that the provider leaves to another implementation, although their class is
/// served.
#[derive(Default)]
pub struct LeftToOthers(Mutex<BTreeSet<String>>);

impl LeftToOthers {
    /// Adds a Service. Returns true if it is new.
    fn add(&self, key: &str) -> bool {
        self.all().insert(key.to_owned())
    }

    /// Removes a Service, by its key.
    pub fn remove(&self, key: &str) {
        self.all().remove(key);
    }

    /// Returns true if it has the Service with this key.
    pub fn has(&self, key: &str) -> bool {
        self.all().contains(key)
    }

    fn all(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock()
    }
}

#[derive(Default)]
struct Index {
    addresses: BTreeSet<(AddressOrName, Owner)>,
    /// Pod CIDRs, each with its nodes.
    pods: BTreeSet<(IpNet, Arc<str>)>,
    /// Number of Pod CIDRs of each prefix length: there are few lengths.
    lengths: BTreeMap<u8, usize>,
}

/// An address, or a name in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AddressOrName {
    Address(IpAddr),
    Name(Arc<str>),
}

/// The key of an object, and for what it has the address or the name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    ClusterIp(Arc<str>),
    ExternalIp(Arc<str>),
    LoadBalancer(Arc<str>),
    Node(Arc<str>),
    NodeName(Arc<str>),
}

/// The addresses of one version of an object.
#[derive(Debug, Default, PartialEq)]
struct Claims {
    addresses: Vec<(AddressOrName, Owner)>,
    pods: Vec<(IpNet, Arc<str>)>,
}

impl Claims {
    fn of_node(node: &Node) -> Self {
        let name: Arc<str> = node.name.as_str().into();
        let own = (named(&node.name), Owner::NodeName(Arc::clone(&name)));

        // A kubelet may write any host name into its Node, so only the name of the Node is its name.
        let addresses = node.addresses.iter().map(|it| {
            // Some clouds use IP addresses as names.
            let place = parsed(&it.address).unwrap_or_else(|| named(&it.address));
            (place, Owner::Node(Arc::clone(&name)))
        });

        Self {
            addresses: addresses.chain([own]).collect(),
            pods: node
                .pod_cidrs
                .iter()
                .filter_map(|cidr| cidr.parse::<IpNet>().ok())
                .filter(is_of_one_node)
                .map(|net| (net.trunc(), Arc::clone(&name)))
                .collect(),
        }
    }

    fn of_service(key: &str, service: &Service) -> Self {
        let key: Arc<str> = key.into();
        let spec = service.spec.as_ref();

        // Old API servers set only the first.
        let one = spec.and_then(|spec| spec.cluster_ip.as_ref());
        let all = spec.and_then(|spec| spec.cluster_ips.as_deref());
        let cluster_ips = one.into_iter().chain(all.unwrap_or_default());

        // A Service of another type has no load balancer, whatever its status says.
        let has_balancer = spec.is_some_and(|spec| spec.type_.as_deref() == Some("LoadBalancer"));
        let status = service.status.as_ref().filter(|_| has_balancer);
        let ingress = status
            .and_then(|status| status.load_balancer.as_ref()?.ingress.as_deref())
            .unwrap_or_default()
            .iter()
            .flat_map(|ingress| {
                let address = ingress.ip.as_deref().and_then(parsed);
                address
                    .into_iter()
                    .chain(ingress.hostname.as_deref().map(named))
            });

        let cluster_ips = cluster_ips
            .filter_map(|text| parsed(text))
            .map(|address| (address, Owner::ClusterIp(Arc::clone(&key))));

        // kube-proxy serves them on every node, like those of load balancers.
        let external_ips = spec.and_then(|spec| spec.external_ips.as_deref());
        let external_ips = external_ips
            .unwrap_or_default()
            .iter()
            .filter_map(|text| parsed(text))
            .map(|address| (address, Owner::ExternalIp(Arc::clone(&key))));
        let ingress = ingress.map(|place| (place, Owner::LoadBalancer(Arc::clone(&key))));

        Self {
            addresses: cluster_ips.chain(external_ips).chain(ingress).collect(),
            pods: Vec::new(),
        }
    }
}

/// Returns true for a Pod CIDR that is not too large for a node. If nobody else does, a kubelet may
/// write any into its Node, also that of all addresses.
#[must_use]
pub fn is_of_one_node(net: &IpNet) -> bool {
    match net {
        IpNet::V4(net) => net.prefix_len() >= 16,
        IpNet::V6(net) => net.prefix_len() >= 48,
    }
}

/// Parses an address. Headless Services have `None`.
fn parsed(text: &str) -> Option<AddressOrName> {
    let address = text.parse::<IpAddr>().ok()?;
    Some(AddressOrName::Address(address.to_canonical()))
}

fn named(text: &str) -> AddressOrName {
    AddressOrName::Name(text.trim_end_matches('.').to_ascii_lowercase().into())
}

impl Index {
    fn replace(&mut self, old: &Claims, new: Claims) {
        // Most changes are of something else.
        if *old == new {
            return;
        }

        for claim in &old.addresses {
            self.addresses.remove(claim);
        }
        for claim in &old.pods {
            if self.pods.remove(claim) {
                self.count(claim.0.prefix_len(), |count| count.saturating_sub(1));
            }
        }

        self.addresses.extend(new.addresses);
        for claim in new.pods {
            let length = claim.0.prefix_len();
            if self.pods.insert(claim) {
                self.count(length, |count| count.saturating_add(1));
            }
        }
    }

    fn count(&mut self, length: u8, change: impl Fn(usize) -> usize) {
        let count = self.lengths.entry(length).or_default();
        *count = change(*count);
        if *count == 0 {
            self.lengths.remove(&length);
        }
    }

    /// Returns the keys of Services whose load balancers have one of these addresses, although it is
    /// a cluster IP, an external IP, or that of a load balancer that the provider leaves to another
    /// implementation. Other load balancers do not count: two could disturb each other without end.
    fn conflicting(
        &self,
        claims: &[(AddressOrName, Owner)],
        left_to_others: &LeftToOthers,
    ) -> BTreeSet<Arc<str>> {
        let is_taken = |address: &&AddressOrName| {
            let mut owners = self.owners(address);
            owners.any(|owner| match owner {
                Owner::ClusterIp(_) | Owner::ExternalIp(_) => true,
                Owner::LoadBalancer(key) => left_to_others.has(key),
                Owner::Node(_) | Owner::NodeName(_) => false,
            })
        };

        let taken = claims.iter().map(|(address, _)| address);
        let owners = taken
            .filter(is_taken)
            .flat_map(|address| self.owners(address));
        let balanced = owners.filter_map(|owner| match owner {
            Owner::LoadBalancer(key) if !left_to_others.has(key) => Some(Arc::clone(key)),
            _ => None,
        });

        balanced.collect()
    }

    fn owners<'a>(&'a self, place: &'a AddressOrName) -> impl Iterator<Item = &'a Owner> {
        // The least owner: the first variant, with the first of all keys.
        let first = (place.clone(), Owner::ClusterIp("".into()));
        self.addresses
            .range(first..)
            .take_while(move |(it, _)| it == place)
            .map(|(_, owner)| owner)
    }

    fn pods(&self, address: IpAddr) -> impl Iterator<Item = &(IpNet, Arc<str>)> {
        let around = self
            .lengths
            .keys()
            .filter_map(move |length| Some(IpNet::new(address, *length).ok()?.trunc()));
        around.flat_map(|net| {
            self.pods
                .range((net, "".into())..)
                .take_while(move |(it, _)| *it == net)
        })
    }
}

impl AddressHolders {
    /// Keeps the index in line with these caches.
    pub fn follow(nodes: &Informer<NodeKind>, services: &Informer<ServiceKind>) -> Arc<Self> {
        let holders = Arc::<Self>::default();
        let of_nodes = Arc::clone(&holders);
        let of_services = Arc::clone(&holders);

        nodes.subscribe(move |change| {
            // After a heartbeat, it has the same addresses.
            if !matches!(change, Change::Updated(old, new) if old.view == new.view) {
                of_nodes.change(&change, |entry| Claims::of_node(&entry.view));
            }
        });
        services.subscribe(move |change| {
            match change {
                // The provider has answered about the object that is gone, not about its successor.
                Change::Deleted(old) => of_services.left_to_others.remove(&old.key()),
                Change::Updated(old, new) if old.uid() != new.uid() => {
                    of_services.left_to_others.remove(&new.key());
                }
                _ => {}
            }
            of_services.change(&change, |entry| {
                Claims::of_service(&entry.key(), &entry.object)
            });
        });

        holders
    }

    fn change<K: Kind>(&self, change: &Change<'_, K>, claims: impl Fn(&Entry<K>) -> Claims) {
        let (old, new) = match change {
            Change::Added(new) => (Claims::default(), claims(new)),
            Change::Updated(old, new) => (claims(old), claims(new)),
            Change::Deleted(old) => (claims(old), Claims::default()),
        };

        let mut added = new.addresses.clone();
        added.retain(|claim| !old.addresses.contains(claim));

        self.index().replace(&old, new);
        self.notify(&added);
    }

    /// Adds a Service that the provider leaves to another implementation. Returns true if it is
    /// new. Load balancers may have got its addresses before that was known.
    pub fn leave(&self, service: &Entry<ServiceKind>) -> bool {
        let key = service.key();
        let is_new = self.left_to_others.add(&key);
        if is_new {
            self.notify(&Claims::of_service(&key, &service.object).addresses);
        }
        is_new
    }

    /// Calls the handlers with each Service whose load balancer has one of these addresses although
    /// another object has it.
    fn notify(&self, claims: &[(AddressOrName, Owner)]) {
        let conflicting = self.index().conflicting(claims, &self.left_to_others);

        let handlers = self.handlers();
        for (key, handler) in conflicting
            .iter()
            .flat_map(|key| handlers.iter().map(move |it| (key, it)))
        {
            handler(key.to_string());
        }
    }

    /// Returns true if the load balancer of this Service has an address that another object has.
    pub fn has_conflict(&self, service: &Entry<ServiceKind>) -> bool {
        let key = service.key();
        let claims = Claims::of_service(&key, &service.object);
        let conflicting = self
            .index()
            .conflicting(&claims.addresses, &self.left_to_others);
        conflicting.contains(key.as_str())
    }

    /// Adds a handler. It is called with the key of each Service whose load balancer has an address
    /// that another object gets.
    pub fn subscribe(&self, handler: impl Fn(String) + Send + 'static) {
        self.handlers().push(Box::new(handler));
    }

    /// Returns the Services that the provider leaves to another implementation.
    pub fn left_to_others(&self) -> Arc<LeftToOthers> {
        Arc::clone(&self.left_to_others)
    }

    fn handlers(&self) -> MutexGuard<'_, Vec<Handler>> {
        self.handlers.lock()
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock()
    }

    /// Returns what has this address. `serves` says of the key of a Service whether its load
    /// balancer is the provider's own.
    pub fn find(&self, address: IpAddr, serves: impl Fn(&str) -> bool) -> Vec<Holder> {
        let address = address.to_canonical();
        let index = self.index();
        let place = AddressOrName::Address(address);

        let owned = index
            .owners(&place)
            .filter_map(|owner| self.held(owner, &serves));
        let pods = index.pods(address).map(|(net, node)| Holder::Pods {
            node: node.to_string(),
            cidr: net.to_string(),
        });

        owned.chain(pods).collect()
    }

    /// Returns what has this name.
    pub fn named(&self, name: &str, serves: impl Fn(&str) -> bool) -> Vec<Holder> {
        let index = self.index();
        let place = named(name);
        let owned = index
            .owners(&place)
            .filter_map(|owner| self.held(owner, &serves));
        owned.collect()
    }

    /// Returns the holder, except for a load balancer of the provider's own.
    fn held(&self, owner: &Owner, serves: impl Fn(&str) -> bool) -> Option<Holder> {
        let names = |key: &str| {
            let (namespace, name) = key.split_once('/').unwrap_or_default();
            (namespace.to_owned(), name.to_owned())
        };

        match owner {
            Owner::ClusterIp(key) => {
                let (namespace, name) = names(key);
                Some(Holder::ClusterIp { namespace, name })
            }
            Owner::ExternalIp(key) => {
                let (namespace, name) = names(key);
                Some(Holder::ExternalIp { namespace, name })
            }
            Owner::LoadBalancer(key) => {
                let (namespace, name) = names(key);
                let is_own = serves(key) && !self.left_to_others.has(key);
                (!is_own).then_some(Holder::LoadBalancer { namespace, name })
            }
            Owner::Node(name) => Some(Holder::Node(name.to_string())),
            Owner::NodeName(name) => Some(Holder::NodeName(name.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{node, service, with};

    type Caches = (Arc<Informer<NodeKind>>, Arc<Informer<ServiceKind>>);

    /// Returns caches with a node and these Services, and what has each address in them.
    fn caches(services: &[(&str, Value)]) -> (Caches, impl Fn(&str) -> Vec<String> + use<>) {
        let caches: Caches = Default::default();
        let (nodes, all) = &caches;
        nodes.apply(with(
            &node("n1"),
            &json!({
                "spec": {"podCIDRs": ["10.244.1.0/24", "fd00:10:244:1::/64"]},
                "status": {"addresses": [
                    {"type": "Hostname", "address": "n1"},
                    {"type": "InternalIP", "address": "10.0.0.1"},
                    {"type": "ExternalIP", "address": "2001:db8::1"},
                ]},
            }),
        ));
        let holders = AddressHolders::follow(nodes, all);
        for (name, change) in services {
            all.apply(with(&service(name), change));
        }
        let find = move |text: &str| {
            let found = holders.find(text.parse().unwrap(), |key| key == "ns/ours");
            found.iter().map(ToString::to_string).collect()
        };
        (caches, find)
    }

    // Holds: SEC-16
    #[test]
    fn a_load_balancer_is_checked_again_when_another_object_gets_its_address() {
        let (nodes, services) = Caches::default();
        let (holders, reported) = (
            AddressHolders::follow(&nodes, &services),
            Arc::<Mutex<Vec<String>>>::default(),
        );
        let notifying = Arc::clone(&reported);
        holders.subscribe(move |key| notifying.lock().push(key));
        let apply = |name: &str, change: &Value| {
            services.apply(with(&service(name), change));
            std::mem::take(&mut *reported.lock())
        };
        let balanced = |version: &str, ip: &str| {
            json!({
                "metadata": {"resourceVersion": version},
                "spec": {"clusterIPs": ["10.96.0.2"]},
                "status": {"loadBalancer": {"ingress": [{"ip": ip}]}},
            })
        };
        assert_eq!(apply("web", &balanced("1", "10.96.0.50")), [""; 0]);
        assert_eq!(apply("web", &balanced("2", "10.96.0.50")), [""; 0]);
        let bank = |version: &str| {
            json!({
                "metadata": {"resourceVersion": version},
                "spec": {"clusterIPs": ["10.96.0.50"]},
            })
        };
        assert_eq!(apply("bank", &bank("1")), ["ns/web"]);
        assert_eq!(apply("bank", &bank("2")), [""; 0], "only once");
        let external = json!({"spec": {"externalIPs": ["10.96.0.50", "10.96.0.51"]}});
        assert_eq!(apply("outside", &external), ["ns/web"]);
        let rival = json!({"status": {"loadBalancer": {"ingress": [{"ip": "10.96.0.50"}]}}});
        assert_eq!(
            apply("rival", &rival),
            ["ns/rival", "ns/web"],
            "its status was written late"
        );
        let (own, other) = (balanced("1", "10.96.0.60"), balanced("1", "10.96.0.60"));
        assert_eq!(apply("one", &own), [""; 0]);
        assert_eq!(
            apply("two", &other),
            [""; 0],
            "no load balancer disturbs another"
        );
    }

    // Holds: SEC-16
    #[test]
    fn every_address_of_the_cluster_has_its_holder() {
        let balanced = |ip: &str| {
            json!({
                "spec": {"clusterIPs": ["10.96.0.10"], "loadBalancerClass": "x"},
                "status": {"loadBalancer": {"ingress": [{"ip": ip}, {"hostname": "a.example"}]}},
            })
        };
        let plain = |clusters: &[&str]| {
            let first = clusters.first();
            json!({"spec": {"type": "ClusterIP", "clusterIP": first, "clusterIPs": clusters}})
        };
        let old = json!({
            "spec": {"type": "NodePort", "clusterIP": "10.96.0.7", "externalIPs": ["198.51.100.7"]},
        });
        let (_caches, find) = caches(&[
            ("dns", plain(&["10.96.0.1", "fd00:96::1"])),
            ("headless", plain(&["None"])),
            ("old", old),
            ("ours", balanced("192.0.2.1")),
            ("theirs", balanced("192.0.2.2")),
        ]);
        let none: &[&str] = &[];
        let table = [
            ("10.96.0.1", &["a cluster IP of Service ns/dns"][..]),
            ("fd00:96::1", &["a cluster IP of Service ns/dns"]),
            ("::ffff:10.96.0.1", &["a cluster IP of Service ns/dns"]),
            ("10.96.0.7", &["a cluster IP of Service ns/old"]),
            ("198.51.100.7", &["an external IP of Service ns/old"]),
            (
                "10.96.0.10",
                &[
                    "a cluster IP of Service ns/ours",
                    "a cluster IP of Service ns/theirs",
                ],
            ),
            ("192.0.2.1", none),
            (
                "192.0.2.2",
                &["the load balancer address of Service ns/theirs"],
            ),
            ("10.0.0.1", &["an address of node n1"]),
            ("2001:db8::1", &["an address of node n1"]),
            ("10.244.1.0", &["in the Pod CIDR 10.244.1.0/24 of node n1"]),
            (
                "10.244.1.255",
                &["in the Pod CIDR 10.244.1.0/24 of node n1"],
            ),
            (
                "fd00:10:244:1::9",
                &["in the Pod CIDR fd00:10:244:1::/64 of node n1"],
            ),
            ("10.244.2.0", none),
            ("10.0.0.2", none),
        ];
        for (address, holders) in table {
            assert_eq!(find(address), holders, "{address}");
        }
    }

    // Holds: SEC-16
    #[test]
    fn every_name_of_the_cluster_has_its_holder() {
        let (nodes, services) = Caches::default();
        nodes.apply(with(
            &node("n1"),
            &json!({"status": {"addresses": [
                {"type": "Hostname", "address": "10.0.0.222"},
                {"type": "Hostname", "address": "Host-1"},
                {"type": "InternalDNS", "address": "n1.corp.example."},
            ]}}),
        ));
        let holders = AddressHolders::follow(&nodes, &services);
        let balanced = |name: &str| json!({"status": {"loadBalancer": {"ingress": [{"hostname": format!("{name}.example")}]}}});
        for name in ["ours", "theirs"] {
            services.apply(with(&service(name), &balanced(name)));
        }
        let serves = |key: &str| key == "ns/ours";
        let shown = |found: Vec<Holder>| found.first().map(ToString::to_string).unwrap_or_default();
        for (name, expected) in [
            ("n1", "the name of node n1"),
            ("host-1", "an address of node n1"),
            ("N1.Corp.Example", "an address of node n1"),
            (
                "theirs.example.",
                "the load balancer address of Service ns/theirs",
            ),
            ("ours.example", ""),
            ("other", ""),
        ] {
            assert_eq!(shown(holders.named(name, serves)), expected, "{name}");
        }
        let address = holders.find("10.0.0.222".parse().unwrap(), serves);
        assert_eq!(shown(address), "an address of node n1");
        nodes.delete("n1");
        assert_eq!(holders.named("host-1", serves), []);
    }

    // Holds: SEC-16
    #[test]
    fn a_service_that_the_provider_leaves_to_others_is_anothers() {
        let (nodes, services) = Caches::default();
        let holders = AddressHolders::follow(&nodes, &services);
        let status =
            json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}, {"hostname": "a.example"}]}});
        services.apply(with(&service("web"), &json!({"status": status})));
        let found = || {
            let address = holders.find("192.0.2.1".parse().unwrap(), |_| true);
            (address.len(), holders.named("a.example", |_| true).len())
        };
        let left_to_others = holders.left_to_others();
        assert_eq!(found(), (0, 0));
        assert!(left_to_others.add("ns/web") && !left_to_others.add("ns/web"));
        assert_eq!(found(), (1, 1));
        left_to_others.remove("ns/web");
        assert_eq!(found(), (0, 0));
        left_to_others.add("ns/web");
        services.delete("ns/web");
        assert!(
            left_to_others.add("ns/web"),
            "it is forgotten with its Service"
        );
    }

    // Holds: SEC-16
    #[test]
    fn load_balancers_with_the_address_of_one_that_is_anothers_are_checked_again() {
        let (nodes, services) = Caches::default();
        let (holders, notified) = (
            AddressHolders::follow(&nodes, &services),
            Arc::<Mutex<Vec<String>>>::default(),
        );
        let notifying = Arc::clone(&notified);
        holders.subscribe(move |key| notifying.lock().push(key));
        let apply = |name: &str, version: &str, ingress: &Value| {
            let change = json!({
                "metadata": {"resourceVersion": version},
                "status": {"loadBalancer": {"ingress": [ingress]}},
            });
            services.apply(with(&service(name), &change));
            std::mem::take(&mut *notified.lock())
        };
        let ip = |ip: &str| json!({"ip": ip});
        let theirs = json!({"ip": "192.0.2.1", "hostname": "a.example"});
        for (name, ingress) in [
            ("theirs", theirs),
            ("one", ip("192.0.2.1")),
            ("two", json!({"hostname": "A.example."})),
            ("other", ip("192.0.2.9")),
        ] {
            assert_eq!(apply(name, "1", &ingress), [""; 0]);
        }

        let left = services.get("ns/theirs").unwrap();
        assert!(holders.leave(&left) && !holders.leave(&left));
        let first = std::mem::take(&mut *notified.lock());
        assert_eq!(first, ["ns/one", "ns/two"], "only once");

        assert_eq!(apply("late", "1", &ip("192.0.2.1")), ["ns/late", "ns/one"]);
        assert_eq!(apply("theirs", "2", &ip("192.0.2.9")), ["ns/other"]);
        holders.left_to_others().remove("ns/theirs");
        assert_eq!(apply("free", "1", &ip("192.0.2.9")), [""; 0]);
    }

    // Holds: SEC-16
    #[test]
    fn holders_follow_changes_and_deletions() {
        let spec = |ip: &str| json!({"spec": {"type": "ClusterIP", "clusterIPs": [ip]}});
        let ((nodes, services), find) = caches(&[("a", spec("10.96.0.1"))]);
        let version = |change: Value| with(&node("n1"), &change);
        services.apply(with(
            &with(&service("a"), &spec("10.96.0.2")),
            &json!({"metadata": {"resourceVersion": "2"}}),
        ));
        nodes.apply(version(json!({
            "metadata": {"resourceVersion": "2"}, "spec": {"podCIDRs": ["10.245.0.0/16"]},
            "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.2"}]},
        })));
        let are = |expected: [bool; 6]| {
            let addresses = [
                "10.96.0.1",
                "10.0.0.1",
                "10.244.1.1",
                "10.96.0.2",
                "10.0.0.2",
                "10.245.9.9",
            ];
            assert_eq!(addresses.map(|it| !find(it).is_empty()), expected);
        };
        are([false, false, false, true, true, true]);
        nodes.delete("n1");
        services.delete("ns/a");
        are([false; 6]);
    }

    /// A kubelet may write any Pod CIDR into its Node.
    // Holds: SEC-16
    // Holds: SEC-60
    #[test]
    fn a_pod_cidr_that_is_too_large_for_a_node_is_ignored() {
        let ((nodes, _services), find) = caches(&[]);
        for (cidrs, expected) in [
            (json!(["0.0.0.0/0", "::/0"]), [0, 0]),
            (json!(["192.0.0.0/8", "2000::/3"]), [0, 0]),
            (json!(["192.0.0.0/15", "2001:db8::/47"]), [0, 0]),
            (json!(["192.0.0.0/16", "2001:db8::/48"]), [1, 1]),
        ] {
            nodes.delete("n2");
            let change = json!({"spec": {"podCIDRs": cidrs}});
            nodes.apply(with(&node("n2"), &change));
            let found = ["192.0.2.1", "2001:db8::9"].map(|it| find(it).len());
            assert_eq!(found, expected, "{change}");
        }
    }

    /// Two nodes may have the same address or Pod CIDR for a while.
    #[test]
    fn an_address_is_held_until_its_last_holder_is_gone() {
        let ((nodes, _services), find) = caches(&[]);
        let other = json!({
            "spec": {"podCIDRs": ["10.244.1.0/24"]},
            "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]},
        });
        nodes.apply(with(&node("n2"), &other));
        assert_eq!((find("10.0.0.1").len(), find("10.244.1.1").len()), (2, 2));
        nodes.delete("n1");
        assert_eq!(
            (find("10.0.0.1"), find("10.244.1.1")),
            (
                vec!["an address of node n2".to_owned()],
                vec!["in the Pod CIDR 10.244.1.0/24 of node n2".to_owned()]
            )
        );
    }
}
