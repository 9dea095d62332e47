//! The interface `load-balancers`: get, ensure, update, ensure deleted, and the status in answers.

use skydock_cloud::{self as cloud, Holder};
use wasmtime::component::Resource;

use super::Guest;
use crate::{
    answers::{
        AnswerError, Checked, MAX_LIST, Rejected, count,
        ingress::{self, Judge},
        names::StandsFor,
        value,
    },
    call_error::CallError,
    contract::{
        Running,
        v0_1::{
            bindings::skydock::provider::{node_sets::NodeSet, types as wit},
            from_guest::single_answer,
            to_guest,
        },
    },
    imports::PluginData,
    words::keys::is_qualified,
};

impl<'a, 's> Guest<'a, 's> {
    /// Calls `load-balancers.get`.
    pub(crate) fn get_load_balancer(
        self,
        service: &'s cloud::Service,
    ) -> Running<'a, Option<cloud::LoadBalancerStatus>> {
        let Self {
            functions, store, ..
        } = self;
        let record = to_guest::service(service);

        Box::pin(async move {
            let answer = call!(functions, store, Get: load_balancers.call_get(&record));

            let judge = judge(&store.data().shared, service);
            Ok(single_answer(answer)
                .and_then(|status| status.map(|it| status_of(it, service, &judge)).transpose()))
        })
    }

    /// Calls `load-balancers.ensure` with the nodes of the call.
    pub(crate) fn ensure_load_balancer(
        self,
        service: &'s cloud::Service,
    ) -> Running<'a, cloud::LoadBalancerStatus> {
        let Self {
            functions, store, ..
        } = self;
        let record = to_guest::service(service);

        Box::pin(async move {
            let answer =
                call!(functions, store, Ensure: load_balancers.call_ensure(&record) lent lent());

            let judge = judge(&store.data().shared, service);
            Ok(single_answer(answer).and_then(|status| status_of(status, service, &judge)))
        })
    }

    /// Calls `load-balancers.update-nodes` with the nodes of the call.
    pub(crate) fn update_load_balancer(self, service: &cloud::Service) -> Running<'a, ()> {
        let Self {
            functions, store, ..
        } = self;
        let record = to_guest::service(service);

        Box::pin(async move {
            let answer = call!(functions, store, UpdateNodes: load_balancers.call_update_nodes(&record) lent lent());

            Ok(single_answer(answer))
        })
    }

    /// Calls `load-balancers.ensure-deleted`.
    pub(crate) fn ensure_load_balancer_deleted(self, service: &cloud::Service) -> Running<'a, ()> {
        let Self {
            functions, store, ..
        } = self;
        let record = to_guest::service(service);

        Box::pin(async move {
            let answer =
                call!(functions, store, EnsureDeleted: load_balancers.call_ensure_deleted(&record));

            Ok(single_answer(answer))
        })
    }
}

/// Returns the handle of a call's nodes. A call has at most one set, so the handle contains no
/// data. If a guest keeps it after the call, wasmtime ends the guest.
fn lent() -> Resource<NodeSet> {
    Resource::new_borrow(0)
}

/// Returns the check of an address or a name of the load balancer of this Service.
fn judge(
    shared: &PluginData,
    service: &cloud::Service,
) -> impl Fn(StandsFor<'_>) -> Result<(), Rejected> {
    |stands_for| match stands_for {
        StandsFor::Address(address) => {
            let mut taken = shared.taken(address);
            taken.holders.retain(|holder| !is_own(holder, service));
            shared.ingress.load_balancer(address, service, &taken)
        }
        StandsFor::Name(name) => {
            let mut holders = shared.named(name);
            holders.retain(|holder| !is_own(holder, service));
            shared.ingress.load_balancer_name(holders)
        }
        StandsFor::Service { namespace, name } => shared.no_service(namespace, name),
    }
}

/// Returns true for the load balancer of this Service. If its class has changed, it has the address
/// of its load balancer until that is deleted.
fn is_own(holder: &Holder, service: &cloud::Service) -> bool {
    matches!(holder, Holder::LoadBalancer { namespace, name }
        if (namespace, name) == (&service.namespace, &service.name))
}

fn status_of(
    status: wit::LoadBalancerStatus,
    service: &cloud::Service,
    judge: &Judge<'_>,
) -> Result<cloud::LoadBalancerStatus, CallError> {
    load_balancer(status, service, judge).map_err(CallError::BadAnswer)
}

/// Checks the status of the load balancer of this Service.
fn load_balancer(
    status: wit::LoadBalancerStatus,
    service: &cloud::Service,
    judge: &Judge<'_>,
) -> Checked<cloud::LoadBalancerStatus> {
    count("ingress points", status.ingress.len(), MAX_LIST)?;

    let ingress = status
        .ingress
        .into_iter()
        .map(|it| ingress(it, service, judge))
        .collect::<Checked<_>>()?;
    Ok(cloud::LoadBalancerStatus { ingress })
}

fn ingress(
    ingress: wit::Ingress,
    service: &cloud::Service,
    judge: &Judge<'_>,
) -> Checked<cloud::Ingress> {
    let address = ingress.ip.filter(|text| !text.is_empty());
    let address = address.map(|ip| ingress::address(&ip, judge)).transpose()?;

    let hostname = ingress.hostname.filter(|text| !text.is_empty());
    if let Some(name) = &hostname {
        ingress::check_name(name, &service.namespace, judge)?;
    }

    if address.is_none() && hostname.is_none() {
        return Err(AnswerError::Missing(
            "an address or a host name of an ingress point",
        ));
    }

    count(
        "port states of an ingress point",
        ingress.ports.len(),
        service.ports.len(),
    )?;

    // The API server rejects a mode without an address.
    let ip_mode = ingress
        .ip_mode
        .filter(|_| address.is_some())
        .map(|mode| match mode {
            wit::IpMode::Vip => cloud::IpMode::Vip,
            wit::IpMode::Proxy => cloud::IpMode::Proxy,
        });

    Ok(cloud::Ingress {
        ip: address.map(|address| address.to_string()),
        hostname,
        ip_mode,
        ports: ingress
            .ports
            .into_iter()
            .map(port_status)
            .collect::<Checked<_>>()?,
    })
}

fn port_status(status: wit::PortStatus) -> Checked<cloud::PortStatus> {
    if let Some(error) = &status.error {
        let ok = is_qualified(error);
        value(
            "error of a port",
            error,
            "a CamelCase word or a qualified name",
            ok.then_some(()),
        )?;
    }

    let transport = match status.transport {
        wit::Transport::Tcp => cloud::Transport::Tcp,
        wit::Transport::Udp => cloud::Transport::Udp,
        wit::Transport::Sctp => cloud::Transport::Sctp,
    };

    Ok(cloud::PortStatus {
        port: status.port,
        transport,
        error: status.error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::{AddressRules, Taken};

    // Holds: SEC-16
    #[test]
    fn only_the_load_balancer_of_the_service_itself_is_its_own() {
        let service = cloud::Service {
            namespace: "ns".into(),
            name: "web".into(),
            ..cloud::Service::default()
        };
        let balancer = |namespace: &str, name: &str| Holder::LoadBalancer {
            namespace: namespace.into(),
            name: name.into(),
        };
        for (holder, expected) in [
            (balancer("ns", "web"), true),
            (balancer("ns", "other"), false),
            (balancer("other", "web"), false),
            (
                Holder::ClusterIp {
                    namespace: "ns".into(),
                    name: "web".into(),
                },
                false,
            ),
        ] {
            assert_eq!(is_own(&holder, &service), expected, "{holder}");
        }
    }

    // Holds: SEC-16
    #[test]
    fn a_load_balancer_with_a_cluster_address_is_rejected() {
        let rules = AddressRules {
            pods: vec!["10.244.0.0/16".parse().unwrap()],
            ..AddressRules::default()
        };
        let service = cloud::Service {
            namespace: "home".into(),
            cluster_ips: vec!["10.96.0.7".into()],
            ..cloud::Service::default()
        };
        let judge = |stands_for: StandsFor<'_>| match stands_for {
            StandsFor::Address(address) => {
                rules.load_balancer(address, &service, &Taken::default())
            }
            StandsFor::Name(_) => Ok(()),
            StandsFor::Service { namespace, name } => match (namespace, name) {
                ("shop" | "home", "db") => Err(Rejected::ServiceName("shop/db".into())),
                _ => Ok(()),
            },
        };
        let status = |ip: Option<&str>, hostname: Option<&str>| {
            let point = wit::Ingress {
                ip: ip.map(Into::into),
                hostname: hostname.map(Into::into),
                ip_mode: None,
                ports: Vec::new(),
            };
            wit::LoadBalancerStatus {
                ingress: vec![point],
            }
        };
        let rejected = |status| {
            load_balancer(status, &service, &judge)
                .unwrap_err()
                .to_string()
        };
        let good = status(Some("192.0.2.1"), Some("lb.example.com"));
        assert!(load_balancer(good, &service, &judge).is_ok());

        for ip in ["10.244.1.1", "10.96.0.7", "169.254.169.254"] {
            let rejected = rejected(status(Some(ip), None));
            assert!(
                rejected.starts_with(&format!("ingress address {ip} is rejected: it is ")),
                "{rejected}"
            );
        }
        for name in [
            "localhost",
            "kubernetes.default.svc",
            "10.244.257",
            "127.1",
            "db.shop",
            "db",
        ] {
            let rejected = rejected(status(None, Some(name)));
            let words = format!("ingress host name `{name}` is rejected: it is ");
            assert!(rejected.starts_with(&words), "{rejected}");
        }
    }

    #[test]
    fn load_balancer_ingress_points_are_validated() {
        let service = |ports| cloud::Service {
            ports: vec![cloud::ServicePort::default(); ports],
            ..cloud::Service::default()
        };
        let ingress = |point| ingress(point, &service(1), &|_| Ok(()));
        let point = |ip: Option<&str>, hostname: Option<&str>| wit::Ingress {
            ip: ip.map(Into::into),
            hostname: hostname.map(Into::into),
            ip_mode: Some(wit::IpMode::Vip),
            ports: Vec::new(),
        };
        let table = [
            (Some("192.0.2.1"), None, true),
            (None, Some("lb.example.com"), true),
            (Some("192.0.2.1"), Some("lb.example.com"), true),
            (None, None, false),
            (Some(""), Some(""), false),
            (Some("192.0.2.256"), None, false),
            (None, Some("192.0.2.1"), false),
            (None, Some("LB.example.com"), false),
        ];
        for (ip, hostname, expected) in table {
            assert_eq!(
                ingress(point(ip, hostname)).is_ok(),
                expected,
                "{ip:?} {hostname:?}"
            );
        }
        assert_eq!(
            ingress(point(None, Some("lb"))).unwrap().ip_mode,
            None,
            "the API server rejects a mode without address"
        );

        let many = wit::LoadBalancerStatus {
            ingress: vec![point(Some("192.0.2.1"), None); 65],
        };
        assert!(load_balancer(many, &service(1), &|_| Ok(())).is_err());

        let port = wit::PortStatus {
            port: 80,
            transport: wit::Transport::Tcp,
            error: Some("PortTaken".into()),
        };
        let with = |ports: Vec<_>| wit::Ingress {
            ports,
            ..point(Some("192.0.2.1"), None)
        };
        assert!(ingress(with(vec![port.clone()])).is_ok());
        assert!(ingress(with(vec![port.clone(), port.clone()])).is_err());
        assert!(
            ingress(with(vec![wit::PortStatus {
                error: Some("not a word".into()),
                ..port
            }]))
            .is_err()
        );
    }

    #[test]
    fn a_load_balancer_status_is_converted_completely() {
        let service = cloud::Service {
            ports: vec![cloud::ServicePort::default(); 3],
            ..cloud::Service::default()
        };
        let port = |port, transport, error: Option<&str>| wit::PortStatus {
            port,
            transport,
            error: error.map(Into::into),
        };
        let ports = vec![
            port(80, wit::Transport::Tcp, None),
            port(53, wit::Transport::Udp, Some("example.com/Taken")),
            port(9, wit::Transport::Sctp, None),
        ];
        let point = |mode| wit::Ingress {
            ip: Some("2001:DB8::1".into()),
            hostname: Some("lb.example.com".into()),
            ip_mode: mode,
            ports: ports.clone(),
        };
        let modes = [Some(wit::IpMode::Vip), Some(wit::IpMode::Proxy), None];
        let status = wit::LoadBalancerStatus {
            ingress: modes.into_iter().map(point).collect(),
        };
        let port = |port, transport, error: Option<&str>| cloud::PortStatus {
            port,
            transport,
            error: error.map(Into::into),
        };
        let ports = vec![
            port(80, cloud::Transport::Tcp, None),
            port(53, cloud::Transport::Udp, Some("example.com/Taken")),
            port(9, cloud::Transport::Sctp, None),
        ];
        let point = |ip_mode| cloud::Ingress {
            ip: Some("2001:db8::1".into()),
            hostname: Some("lb.example.com".into()),
            ip_mode,
            ports: ports.clone(),
        };
        let modes = [Some(cloud::IpMode::Vip), Some(cloud::IpMode::Proxy), None];
        let ingress = modes.into_iter().map(point).collect();

        assert_eq!(
            status_of(status, &service, &|_| Ok(())).unwrap(),
            cloud::LoadBalancerStatus { ingress }
        );
    }
}
