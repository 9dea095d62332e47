//! Where the SDKs deviate from the contract on purpose, and how things are called.

/// Words for a value in messages, for those that are not the name of the field.
const WORDS: [(&str, &str); 18] = [
    ("attachments.attach-volumes", "context of an attachment"),
    ("driver-info.name", "name of the driver"),
    ("ingress.hostname", "host name"),
    ("ingress.ip", "IP address"),
    ("plugin-info.max-batch", "max_batch"),
    ("plugin-info.unused", "unused capability"),
    ("port-status.error", "error of a port"),
    ("route-page.next", "token of the next page"),
    ("route.destination-cidr", "destination of a route"),
    ("route.name", "name of a route"),
    ("route.target-node", "node of a route"),
    ("snapshot-page.next", "token of the next page"),
    ("snapshot.id", "ID of a snapshot"),
    ("volume-expansion.expand-volumes", "size of a volume"),
    ("volume-page.next", "token of the next page"),
    ("volume.context", "context of a volume"),
    ("volume.id", "ID of a volume"),
    ("volume.topology", "topology of a volume"),
];

/// Functions of the host whose results the SDKs convert by hand.
pub(crate) const BY_HAND: [&str; 1] = ["[method]node-set.packed-targets"];

/// The error of elements about volumes and snapshots, which has more cases than that of a call.
pub(crate) const STORAGE_ERROR: &str = "storage-error";

/// The interface that every plugin exports.
pub(crate) const BASE: &str = "plugin";
/// The interface with objects of Kubernetes: its enums have the values that they have there.
pub(crate) const KUBERNETES: &str = "types";

/// Types that some SDKs give another name.
pub(crate) const CLASSES: [(&str, &str); 1] = [("plugin-info", "Info")];
/// Fields that some SDKs give another name.
pub(crate) const FIELDS: [(&str, &str); 2] = [
    ("node.creation-timestamp", "created"),
    ("snapshot.creation-timestamp", "created"),
];
/// Seconds since 1970.
const DATES: &[&str] = &["node.creation-timestamp", "snapshot.creation-timestamp"];
/// Milliseconds, although the name does not say so.
const MILLISECONDS: &[&str] = &["maintenance.maintain"];

/// A place of a value: a field of a record, or a function for what it returns.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    /// The record or the interface.
    owner: &'a str,
    /// The field or the function.
    name: &'a str,
    /// Whether it is an element of the list in this place.
    is_element: bool,
}

impl<'a> Place<'a> {
    pub(crate) fn new(owner: &'a str, name: &'a str) -> Self {
        let is_element = false;
        Self {
            owner,
            name,
            is_element,
        }
    }

    /// Returns the place of the elements of a list.
    pub(crate) fn elements(self) -> Self {
        let is_element = true;
        Self { is_element, ..self }
    }

    /// Returns what a table has for this place.
    pub(crate) fn lookup(self, table: &[(&str, &'static str)]) -> Option<&'static str> {
        let found = table.iter().find(|(place, _)| self.is_in(&[place]));
        found.map(|(_, value)| *value)
    }

    /// Whether a list has this place.
    pub(crate) fn is_in(self, places: &[&str]) -> bool {
        places.contains(&&*format!("{}.{}", self.owner, self.name))
    }

    /// Whether the number in this place is a time.
    pub(crate) fn is_date(self) -> bool {
        self.is_in(DATES)
    }

    /// Whether the number in this place is a duration in milliseconds.
    pub(crate) fn is_milliseconds(self) -> bool {
        self.name.ends_with("-ms") || self.is_in(MILLISECONDS)
    }

    /// Whether the number in this place is a duration in seconds.
    pub(crate) fn is_seconds(self) -> bool {
        self.name.ends_with("-seconds")
    }

    /// Returns the words for the value in messages.
    pub(crate) fn words(self) -> String {
        if let Some(words) = self.lookup(&WORDS) {
            return words.to_owned();
        }
        let one = singular(self.name);
        let name = if self.is_element { one } else { self.name };
        spaced(name)
    }
}

/// `provider-id` as `provider ID`.
pub(crate) fn spaced(name: &str) -> String {
    let words = name.split('-').map(|it| match it {
        "id" => "ID",
        "ip" => "IP",
        other => other,
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the name of one element.
pub(crate) fn singular(name: &str) -> &str {
    let has_es = name.ends_with("xes");
    let suffix = if has_es { "es" } else { "s" };
    name.strip_suffix(suffix).unwrap_or(name)
}

/// Returns the name of a function without that of its interface: `list` for `list-routes`.
pub(crate) fn short<'a>(function: &'a str, interface: &str) -> &'a str {
    let object = function.strip_suffix(interface);
    object
        .and_then(|it| it.strip_suffix('-'))
        .unwrap_or(function)
}

/// `load-balancers` as `load_balancers`.
pub(crate) fn snake(name: &str) -> String {
    name.replace('-', "_")
}

/// `load-balancers` as `LoadBalancers`.
pub(crate) fn pascal(name: &str) -> String {
    name.split('-').map(capitalized).collect()
}

/// `load-balancers` as `loadBalancers`.
pub(crate) fn camel(name: &str) -> String {
    let (first, rest) = name.split_once('-').unwrap_or((name, ""));
    format!("{first}{}", pascal(rest))
}

/// `internal-ip` as `InternalIP`: as Kubernetes, and Go, write names.
pub(crate) fn kubernetes(name: &str) -> String {
    let word = |word: &str| match word {
        "cidrs" | "ips" => singular(word).to_uppercase() + "s",
        "cidr" | "dns" | "id" | "ip" | "os" | "uid" | "uuid" => word.to_uppercase(),
        "sctp" | "tcp" | "udp" | "vip" => word.to_uppercase(),
        "ipv4" => "IPv4".to_owned(),
        "ipv6" => "IPv6".to_owned(),
        other => capitalized(other),
    };
    name.split('-').map(word).collect()
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_field_or_of_the_table() {
        for (owner, name, expected) in [
            ("instance", "provider-id", "provider ID"),
            ("route-page", "next", "token of the next page"),
        ] {
            assert_eq!(Place::new(owner, name).words(), expected);
        }
        let prefixes = Place::new("plugin-info", "provider-id-prefixes");
        assert_eq!(prefixes.elements().words(), "provider ID prefix");
    }

    #[test]
    fn names_have_the_form_of_their_language() {
        assert_eq!(camel("load-balancers"), "loadBalancers");
        assert_eq!(kubernetes("internal-dns"), "InternalDNS");
        assert_eq!(kubernetes("pod-cidrs"), "PodCIDRs");
        assert_eq!(short("list-routes", "routes"), "list");
        assert_eq!(short("routes", "routes"), "routes");
    }
}
