//! What unit tests share.

use std::{cell::RefCell, collections::BTreeMap, time::Duration};

use skydock_sdk::types::{Service, ServicePort, Transport};

use crate::{balancer::annotation, store::Store};

/// A store in which nothing ends.
#[derive(Debug, Default)]
pub(crate) struct Memory(pub(crate) RefCell<BTreeMap<String, String>>);

impl Store for Memory {
    fn get(&self, key: &str) -> Option<String> {
        self.0.borrow().get(key).cloned()
    }

    fn set(&self, key: &str, text: &str, _: Duration) {
        self.0.borrow_mut().insert(key.to_owned(), text.to_owned());
    }

    fn reserve(&self, key: &str, text: &str, _: Duration) -> bool {
        self.0.borrow_mut().entry(key.to_owned()).or_insert_with(|| text.to_owned()) == text
    }

    fn remove(&self, key: &str) {
        self.0.borrow_mut().remove(key);
    }
}

/// A Service with these ports: name, transport, port, node port.
pub(crate) fn service(ports: &[(&str, Transport, u16, u16)]) -> Service {
    let port = |(name, transport, port, node_port): &(&str, Transport, u16, u16)| ServicePort {
        name: (*name).to_owned(),
        transport: *transport,
        app_protocol: None,
        port: *port,
        target_port: "8080".into(),
        node_port: *node_port,
    };
    Service {
        namespace: "default".into(),
        name: "web".into(),
        uid: "0123abcd-4567-89ab-cdef-0123456789ab".into(),
        ports: ports.iter().map(port).collect(),
        ..Service::default()
    }
}

/// With annotations of load balancers.
pub(crate) fn annotated(mut service: Service, pairs: &[(&str, &str)]) -> Service {
    service.annotations.extend(pairs.iter().map(|(name, value)| (annotation::key(name), (*value).to_owned())));
    service
}
