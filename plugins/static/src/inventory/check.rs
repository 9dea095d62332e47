//! Checks of an inventory beyond its structure.

use std::{collections::HashMap, net::IpAddr};

use serde_saphyr::{Location, Spanned};

use super::{API_VERSION, Inventory, KIND, file, is_under};
use crate::{
    machine::{AddressType, Key, Machine, Machines},
    pools::{
        pool::{Pool, Pools},
        range::{Range, unusable},
    },
    problem::{Problem, Problems},
    syntax,
};

/// Maximum number of addresses, and of labels, of one machine (limits of the plugin contract).
const PER_MACHINE: usize = 64;

/// Maximum number of provider ID prefixes (a limit of the host).
const PREFIXES: usize = 64;

/// Values that must be unique, each with the position of its first occurrence.
type Seen = HashMap<String, Location>;

/// Converts the file into an inventory and collects the problems.
#[derive(Default)]
struct Checker {
    problems: Vec<Problem>,
    machine_names: Seen,
    node_names: Seen,
    provider_ids: Seen,
    pool_names: Seen,
    /// Addresses of machines, with their position and the name of the machine.
    addresses: HashMap<IpAddr, (Location, String)>,
}

/// Converts the file into an inventory.
///
/// # Errors
/// Returns all problems, in the order of the file.
pub(super) fn check(file: file::File) -> Result<Inventory, Problems> {
    let mut checker = Checker::default();
    let inventory = checker.inventory(file);
    if checker.problems.is_empty() {
        return Ok(inventory);
    }
    // Each value is reported once, even if it breaks several rules.
    checker
        .problems
        .sort_by_key(|problem| (problem.line, problem.column));
    checker
        .problems
        .dedup_by_key(|problem| (problem.line, problem.column));
    Err(Problems(checker.problems))
}

impl Checker {
    fn inventory(&mut self, file: file::File) -> Inventory {
        self.fixed(&file.api_version, "apiVersion", API_VERSION);
        self.fixed(&file.kind, "kind", KIND);

        let mut prefixes = vec![crate::SCHEME.to_owned()];
        for prefix in file.provider_id_prefixes {
            if !syntax::is_provider_id_prefix(&prefix.value) {
                let reason = format!(
                    "`{}` is not a valid provider ID prefix: it must be SCHEME:// or longer",
                    prefix.value
                );
                self.problem(prefix.referenced, reason);
            } else if !prefixes.contains(&prefix.value) {
                prefixes.push(prefix.value);
            }
        }

        let machines = file.machines.map(|machines| {
            machines
                .into_iter()
                .map(|entry| self.machine(entry))
                .collect()
        });
        for machine in machines.iter().flat_map(Vec::as_slice) {
            // If a listed prefix covers the provider ID, only that prefix is used, because it may
            // be narrower than the scheme on purpose.
            let uncovered = machine
                .provider_id
                .as_deref()
                .filter(|id| !is_under(&prefixes, id));
            prefixes.extend(uncovered.and_then(syntax::scheme).map(str::to_owned));
        }

        if prefixes.len() > PREFIXES {
            let reason = format!(
                "provider IDs have {} prefixes, but at most {PREFIXES} are allowed",
                prefixes.len()
            );
            self.problem(Location::UNKNOWN, reason);
        }

        let pools = self.pools(file.address_pools);
        Inventory {
            provider_id_prefixes: prefixes,
            machines: machines.map(Machines::new),
            pools,
        }
    }

    fn machine(&mut self, entry: file::Machine) -> Machine {
        let name = entry.name.value.clone();
        self.dns_name(&entry.name, "the name of a machine");
        self.unique(
            |seen| &mut seen.machine_names,
            &name,
            entry.name.referenced,
            "machine",
        );

        let mut provider_id = entry.provider_id;
        let key = self.key(entry.key, &entry.name, &mut provider_id);

        // A node that was initialized before the machine got its `providerID` keeps this one.
        let own_id = format!("{}{name}", crate::SCHEME);
        if provider_id.as_ref().is_none_or(|id| id.value != own_id) {
            self.unique(
                |seen| &mut seen.provider_ids,
                &own_id,
                entry.name.referenced,
                "provider ID",
            );
        }

        if let Some(id) = &provider_id {
            self.provider_id(id);
        }

        let labels = self.labels(entry.labels, entry.name.referenced);
        let mut label = |value: Option<Spanned<String>>| value.map(|value| self.label_value(value));
        let instance_type = label(entry.instance_type);
        let zone = label(entry.zone);
        let region = label(entry.region);

        let addresses = self.addresses(entry.addresses, &entry.name);
        let provider_id = provider_id.map(|id| id.value);
        Machine {
            name,
            key,
            provider_id,
            instance_type,
            zone,
            region,
            addresses,
            labels,
            state: entry.state,
        }
    }

    fn key(
        &mut self,
        key: Option<Spanned<file::Match>>,
        name: &Spanned<String>,
        id: &mut Option<Spanned<String>>,
    ) -> Key {
        let Some(Spanned {
            value: key,
            referenced: place,
            ..
        }) = key
        else {
            return self.node_name(name);
        };

        match (key.node_name, key.provider_id, key.address) {
            (Some(node_name), None, None) => {
                self.dns_name(&node_name, "the name of a node");
                self.node_name(&node_name)
            }
            (None, Some(wanted), None) => {
                if let Some(other) = id.as_ref().filter(|id| id.value != wanted.value) {
                    let reason = format!(
                        "match has provider ID {}, but providerID is {}",
                        wanted.value, other.value
                    );
                    self.problem(wanted.referenced, reason);
                }
                *id = Some(wanted);
                Key::ProviderId
            }
            (None, None, Some(text)) => self
                .ip(&text, &name.value)
                .map_or(Key::ProviderId, Key::Address),
            _ => {
                self.problem(
                    place,
                    "match must have exactly one of nodeName, providerID and address".to_owned(),
                );
                // The file is rejected, so that this value is not used.
                Key::ProviderId
            }
        }
    }

    fn node_name(&mut self, name: &Spanned<String>) -> Key {
        self.unique(
            |seen| &mut seen.node_names,
            &name.value,
            name.referenced,
            "node name",
        );
        Key::NodeName(name.value.clone())
    }

    fn provider_id(&mut self, id: &Spanned<String>) {
        if !syntax::is_provider_id(&id.value) {
            let reason = format!(
                "`{}` is not a valid provider ID: it must be SCHEME:// followed by a name, with at most 512 printable ASCII characters",
                id.value
            );
            self.problem(id.referenced, reason);
        }

        self.unique(
            |seen| &mut seen.provider_ids,
            &id.value,
            id.referenced,
            "provider ID",
        );
    }

    fn addresses(
        &mut self,
        entries: Vec<file::Address>,
        machine: &Spanned<String>,
    ) -> Vec<(AddressType, String)> {
        self.count(entries.len(), "addresses", machine.referenced);
        let mut addresses = Vec::new();
        for file::Address { kind, address } in entries {
            let text = match kind {
                AddressType::InternalIP | AddressType::ExternalIP => {
                    match self.ip(&address, &machine.value) {
                        Some(address) => address.to_string(),
                        None => continue,
                    }
                }
                AddressType::Hostname | AddressType::InternalDNS | AddressType::ExternalDNS => {
                    self.dns_name(&address, "a host name");
                    address.value
                }
            };

            if addresses.contains(&(kind, text.clone())) {
                self.problem(
                    address.referenced,
                    format!("machine `{}` has {text} twice as {kind:?}", machine.value),
                );
            }
            addresses.push((kind, text));
        }
        addresses
    }

    fn ip(&mut self, text: &Spanned<String>, machine: &str) -> Option<IpAddr> {
        let Ok(address) = text.value.parse() else {
            self.problem(
                text.referenced,
                format!("`{}` is not a valid IP address", text.value),
            );
            return None;
        };

        if let Some(what) = unusable(address) {
            self.problem(
                text.referenced,
                format!(
                    "`{}` cannot be the address of a machine: it is {what}",
                    text.value
                ),
            );
        }

        self.unique_address(address, text.referenced, machine);
        Some(address)
    }

    fn labels(
        &mut self,
        labels: impl IntoIterator<Item = (String, Spanned<String>), IntoIter: ExactSizeIterator>,
        machine: Location,
    ) -> Vec<(String, String)> {
        let labels = labels.into_iter();
        self.count(labels.len(), "labels", machine);
        labels
            .map(|(key, value)| {
                if !syntax::is_label_key(&key) {
                    self.problem(value.referenced, format!("`{key}` is not a valid label key"));
                } else if syntax::is_kubernetes_key(&key) {
                    let reason = format!(
                        "label `{key}` is reserved by Kubernetes: use instanceType, zone or region instead (other reserved labels cannot be set here)"
                    );
                    self.problem(value.referenced, reason);
                }
                (key, self.label_value(value))
            })
            .collect()
    }

    fn label_value(&mut self, value: Spanned<String>) -> String {
        if !syntax::is_label_value(&value.value) {
            let reason = format!(
                "`{}` is not a valid label value: at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends",
                value.value
            );
            self.problem(value.referenced, reason);
        }
        value.value
    }

    fn pools(&mut self, entries: Vec<file::Pool>) -> Pools {
        let mut ranges = Vec::new();
        let mut pools = Vec::new();
        for (
            number,
            file::Pool {
                name,
                addresses,
                auto_assign,
            },
        ) in entries.into_iter().enumerate()
        {
            self.dns_name(&name, "the name of an address pool");
            let text = name.value.clone();
            self.unique(
                |seen| &mut seen.pool_names,
                &text,
                name.referenced,
                "address pool",
            );

            if addresses.is_empty() {
                self.problem(
                    name.referenced,
                    format!("address pool `{text}` has no addresses"),
                );
            }

            for address in addresses {
                match address.value.parse::<Range>() {
                    Ok(range) => ranges.push((range, address.referenced, number)),
                    Err(error) => self.problem(address.referenced, error.to_string()),
                }
            }

            pools.push(Pool {
                name: text,
                ranges: Vec::new(),
                auto_assign,
            });
        }

        for (range, _, number) in &ranges {
            pools
                .get_mut(*number)
                .into_iter()
                .for_each(|pool| pool.ranges.push(*range));
        }

        let pools = Pools(pools);
        self.ranges_apart(ranges);
        self.machines_outside(&pools);
        pools
    }

    /// Reports addresses that are in two ranges.
    fn ranges_apart(&mut self, mut ranges: Vec<(Range, Location, usize)>) {
        ranges.sort_by_key(|(range, place, _)| (*range, place.line(), place.column()));

        // The range with the highest last address so far: a range that begins within it overlaps.
        let mut widest: Option<(Range, Location)> = None;
        for (range, place, _) in ranges {
            match widest {
                Some((other, at)) if other.overlaps(&range) => {
                    let reason = format!("{range} overlaps with {other} in line {}", at.line());
                    self.problem(place, reason);
                    if !other.contains(range.last()) {
                        widest = Some((range, place));
                    }
                }
                _ => widest = Some((range, place)),
            }
        }
    }

    /// Reports addresses of machines that are in a pool: a Service must not get them.
    fn machines_outside(&mut self, pools: &Pools) {
        let inside: Vec<_> = self
            .addresses
            .iter()
            .filter_map(|(address, (place, machine))| {
                let pool = &pools.of(*address)?.name;
                Some((
                    *place,
                    format!("address {address} of machine `{machine}` is in address pool `{pool}`"),
                ))
            })
            .collect();

        for (place, reason) in inside {
            self.problem(place, reason);
        }
    }

    fn problem(&mut self, place: Location, reason: String) {
        self.problems.push(Problem::at(place, reason));
    }

    fn fixed(&mut self, value: &Spanned<String>, field: &str, expected: &str) {
        if value.value != expected {
            self.problem(
                value.referenced,
                format!("{field} is `{}`, expected `{expected}`", value.value),
            );
        }
    }

    fn dns_name(&mut self, name: &Spanned<String>, what: &str) {
        if !syntax::is_dns_name(&name.value) {
            let reason = format!(
                "`{}` cannot be {what}: at most 253 lower-case letters, digits, `-` and `.`, with a letter or digit at both ends",
                name.value
            );
            self.problem(name.referenced, reason);
        }
    }

    fn count(&mut self, count: usize, what: &str, place: Location) {
        if count > PER_MACHINE {
            self.problem(
                place,
                format!(
                    "a machine can have at most {PER_MACHINE} {what}, but this one has {count}"
                ),
            );
        }
    }

    fn unique(&mut self, seen: fn(&mut Self) -> &mut Seen, key: &str, place: Location, what: &str) {
        let first = *seen(self).entry(key.to_owned()).or_insert(place);
        if first != place {
            self.problem(
                place,
                format!("duplicate {what} `{key}`, first in line {}", first.line()),
            );
        }
    }

    /// Reports an address that two machines use. One machine may list the same address several
    /// times: by type, and in `match`.
    fn unique_address(&mut self, address: IpAddr, place: Location, machine: &str) {
        match self.addresses.get(&address) {
            Some((first, other)) if other != machine => {
                let reason = format!(
                    "address {address} is already used by machine `{other}` in line {}",
                    first.line()
                );
                self.problem(place, reason);
            }
            Some(_) => {}
            None => _ = self.addresses.insert(address, (place, machine.to_owned())),
        }
    }
}
