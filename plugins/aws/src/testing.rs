//! Helpers of unit tests.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    time::Duration,
};

use skydock_sdk::types::{Service, ServicePort, Transport};

use crate::{
    client::api::{call::Call, failure::Failure, wire::Wire},
    cloud::Setup,
    load_balancing::common::annotation,
    store::Store,
};

pub(crate) type Answer = Result<String, Failure>;

/// A connection to AWS with answers that the test defines.
pub(crate) struct Scripted<F> {
    answer: F,
    /// The calls that were sent.
    pub(crate) sent: RefCell<Vec<Call>>,
}

impl<F: Fn(&Call) -> Answer> Scripted<F> {
    pub(crate) fn new(answer: F) -> Self {
        Self {
            answer,
            sent: RefCell::default(),
        }
    }

    /// Returns a parameter of each call of an action, in order.
    pub(crate) fn all(&self, action: &str, key: &str) -> Vec<String> {
        let sent = self.sent.borrow();
        let calls = sent.iter().filter(|call| call.action == action);
        calls
            .flat_map(|call| &call.params)
            .filter(|(name, _)| name == key)
            .map(|(_, value)| value.clone())
            .collect()
    }
}

impl<F: Fn(&Call) -> Answer> Wire for Scripted<F> {
    fn send(&self, calls: &[Call]) -> Vec<Answer> {
        let answer = |call: &Call| {
            self.sent.borrow_mut().push(call.clone());
            (self.answer)(call)
        };
        calls.iter().map(answer).collect()
    }
}

/// Returns an error with this code.
pub(crate) fn rejection(call: &Call, code: &str) -> Answer {
    Err(Failure::Rejected {
        action: call.action,
        status: 400,
        code: code.into(),
        message: "words".into(),
    })
}

/// Returns an empty answer.
pub(crate) fn nothing(call: &Call) -> Answer {
    Ok(format!("<{}Response/>", call.action))
}

/// Returns an answer of a load balancer API with this result.
pub(crate) fn result(call: &Call, text: &str) -> Answer {
    let action = call.action;
    Ok(format!(
        "<{action}Response><{action}Result>{text}</{action}Result></{action}Response>"
    ))
}

/// Returns the configuration of cluster `c` in VPC `v`.
pub(crate) fn setup() -> Setup {
    Setup::read(
        "[Global]\nRegion = eu-west-1\nVPC = v\nKubernetesClusterID = c\n",
        "f",
        &[],
    )
    .unwrap()
}

/// A store in whose time nothing happens until the test waits.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    now: Cell<Duration>,
    /// Texts, and when they expire.
    entries: RefCell<BTreeMap<String, (String, Duration)>>,
}

impl Memory {
    /// Stores a text that does not expire.
    pub(crate) fn keep(&self, key: &str, text: &str) {
        self.set(key, text, Duration::MAX / 2);
    }

    /// Lets this time pass.
    pub(crate) fn wait(&self, time: Duration) {
        let now = self.now.get() + time;
        self.now.set(now);
        self.entries.borrow_mut().retain(|_, (_, end)| *end > now);
    }

    /// Returns true if a key contains this text.
    pub(crate) fn has(&self, part: &str) -> bool {
        self.entries.borrow().keys().any(|key| key.contains(part))
    }
}

impl Store for Memory {
    fn get(&self, key: &str) -> Option<String> {
        self.entries.borrow().get(key).map(|(text, _)| text.clone())
    }

    fn set(&self, key: &str, text: &str, lifetime: Duration) {
        self.entries
            .borrow_mut()
            .insert(key.to_owned(), (text.to_owned(), self.now.get() + lifetime));
    }

    fn reserve(&self, key: &str, text: &str, lifetime: Duration) -> bool {
        if !self.entries.borrow().contains_key(key) {
            self.set(key, text, lifetime);
        }
        self.get(key).as_deref() == Some(text)
    }

    fn remove(&self, key: &str) {
        self.entries.borrow_mut().remove(key);
    }
}

/// Returns a Service with these ports: name, transport, port, node port.
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

/// Adds load balancer annotations.
pub(crate) fn annotated(mut service: Service, pairs: &[(&str, &str)]) -> Service {
    service.annotations.extend(
        pairs
            .iter()
            .map(|(name, value)| (annotation::key(name), (*value).to_owned())),
    );
    service
}
