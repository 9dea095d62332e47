//! The answers of the clouds of both sides, `plugin` and `peer`, for a node. They depend only on
//! its name.

use std::collections::BTreeMap;

/// Skydock's annotation that lists the labels set by the cloud, and the only such label.
pub(crate) const OWN_LABELS: (&str, &str) = ("node.skydock.dev/labels", "bench.example/rack");

/// An instance.
pub(crate) struct Instance {
    pub(crate) provider_id: String,
    /// The addresses with their types, in the cloud's order.
    pub(crate) addresses: [(&'static str, String); 3],
    /// All labels that the cloud sets on a node.
    pub(crate) labels: BTreeMap<&'static str, String>,
}

impl Instance {
    /// Returns the instance of the node with this name, which ends with a number.
    pub(crate) fn of(name: &str) -> Self {
        let number: u16 = name
            .rsplit('-')
            .next()
            .and_then(|number| number.parse().ok())
            .unwrap_or_default();
        let [third, fourth] = number.to_be_bytes();
        let zone = ["bench-1a", "bench-1b", "bench-1c"]
            .get(usize::from(number % 3))
            .copied()
            .unwrap_or_default();
        let labels = [
            ("node.kubernetes.io/instance-type", "bench.large"),
            ("beta.kubernetes.io/instance-type", "bench.large"),
            ("topology.kubernetes.io/zone", zone),
            ("failure-domain.beta.kubernetes.io/zone", zone),
            ("topology.kubernetes.io/region", "bench-1"),
            ("failure-domain.beta.kubernetes.io/region", "bench-1"),
            (OWN_LABELS.1, &format!("r{}", number % 40)),
        ];
        Self {
            provider_id: format!("bench://{name}"),
            addresses: [
                ("InternalIP", format!("10.0.{third}.{fourth}")),
                ("ExternalIP", format!("198.18.{third}.{fourth}")),
                ("Hostname", name.to_owned()),
            ],
            labels: labels.map(|(key, value)| (key, value.to_owned())).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instance_data_follows_from_its_number() {
        let instance = Instance::of("node-1000");
        assert_eq!(instance.provider_id, "bench://node-1000");
        let addresses = instance
            .addresses
            .map(|(kind, address)| format!("{kind} {address}"));
        assert_eq!(
            addresses,
            [
                "InternalIP 10.0.3.232",
                "ExternalIP 198.18.3.232",
                "Hostname node-1000"
            ]
        );
        assert_eq!(
            instance.labels.get("topology.kubernetes.io/zone").unwrap(),
            "bench-1b"
        );
        assert_eq!(instance.labels.get("bench.example/rack").unwrap(), "r0");
    }
}
