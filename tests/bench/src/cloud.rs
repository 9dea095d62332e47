//! What the clouds of both sides, `plugin` and `peer`, say of a node: it follows from its name.

use std::collections::BTreeMap;

/// Name of Skydock's annotation with the labels that are the cloud's own, and the only one.
pub(crate) const OWN_LABELS: (&str, &str) = ("node.skydock.dev/labels", "bench.skydock.dev/rack");

/// A machine.
pub(crate) struct Instance {
    pub(crate) provider_id: String,
    /// Each with its type, in the cloud's order.
    pub(crate) addresses: [(&'static str, String); 3],
    /// All labels that a node has of its cloud.
    pub(crate) labels: BTreeMap<&'static str, String>,
}

impl Instance {
    /// The machine behind the node of this name, which ends with a number.
    pub(crate) fn of(name: &str) -> Self {
        let number: u16 = name.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or_default();
        let [third, fourth] = number.to_be_bytes();
        let zone = ["bench-1a", "bench-1b", "bench-1c"].get(usize::from(number % 3)).copied().unwrap_or_default();
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
    fn a_machine_is_what_its_number_says() {
        let instance = Instance::of("node-1000");
        assert_eq!(instance.provider_id, "bench://node-1000");
        let addresses = instance.addresses.map(|(kind, address)| format!("{kind} {address}"));
        assert_eq!(addresses, ["InternalIP 10.0.3.232", "ExternalIP 198.18.3.232", "Hostname node-1000"]);
        assert_eq!(instance.labels.get("topology.kubernetes.io/zone").unwrap(), "bench-1b");
        assert_eq!(instance.labels.get("bench.skydock.dev/rack").unwrap(), "r0");
    }
}
