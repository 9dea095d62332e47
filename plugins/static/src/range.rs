//! Address ranges, written as `FIRST-LAST`, as a CIDR, or as a single address.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use ipnet::IpNet;

/// The IP family of an address or a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Returns the family of this address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() {
            Self::V4
        } else {
            Self::V6
        }
    }
}

/// Formats the family as `IPv4` or `IPv6`, as in `spec.ipFamilies`.
impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// All addresses from the first to the last, both included. Both have the same family, and the
/// first is not after the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    first: IpAddr,
    last: IpAddr,
}

/// The reason why a text is not a range that load balancers can use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// The text has none of the three forms.
    #[error(
        "`{0}` is not a valid address, CIDR or range: expected for example 192.0.2.10, 192.0.2.0/28 or 192.0.2.10-192.0.2.20"
    )]
    Syntax(String),
    /// The address of a CIDR is not the first address of its network.
    #[error("`{0}` has host bits set: use {1} for the complete network, or a range")]
    HostBits(String, IpNet),
    /// The first and the last address have different families.
    #[error("`{0}` mixes IP families")]
    MixedFamilies(String),
    /// The last address is before the first.
    #[error("`{0}` ends before it starts")]
    Reversed(String),
    /// The range contains addresses that cannot be assigned.
    #[error("`{0}` contains {1} addresses, which load balancers cannot have")]
    Unusable(String, &'static str),
}

/// Addresses that neither load balancers nor machines can have (IANA special-purpose registries,
/// and multicast).
const UNUSABLE: &[(Range, &str)] = &[
    (v4([0, 0, 0, 0], [0, 255, 255, 255]), "unspecified"),
    (v4([127, 0, 0, 0], [127, 255, 255, 255]), "loopback"),
    (v4([169, 254, 0, 0], [169, 254, 255, 255]), "link-local"),
    (v4([224, 0, 0, 0], [239, 255, 255, 255]), "multicast"),
    (v4([255, 255, 255, 255], [255, 255, 255, 255]), "broadcast"),
    (v6(0, 1), "unspecified or loopback"),
    (v6(2, 0xffff_ffff), "IPv4-compatible"),
    (v6(0xffff_0000_0000, 0xffff_ffff_ffff), "IPv4-mapped"),
    (v6(0xfe80 << 112, (0xfec0 << 112) - 1), "link-local"),
    (v6(0xff00 << 112, u128::MAX), "multicast"),
];

const fn v4(first: [u8; 4], last: [u8; 4]) -> Range {
    let [a, b, c, d] = first;
    let [e, f, g, h] = last;
    Range {
        first: IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
        last: IpAddr::V4(Ipv4Addr::new(e, f, g, h)),
    }
}

const fn v6(first: u128, last: u128) -> Range {
    Range {
        first: IpAddr::V6(Ipv6Addr::from_bits(first)),
        last: IpAddr::V6(Ipv6Addr::from_bits(last)),
    }
}

/// Returns the kind of this address if it cannot be assigned.
#[must_use]
pub fn unusable(address: IpAddr) -> Option<&'static str> {
    UNUSABLE
        .iter()
        .find(|(range, _)| range.contains(address))
        .map(|(_, what)| *what)
}

impl Range {
    /// Returns the family of the addresses.
    #[must_use]
    pub fn family(&self) -> Family {
        Family::of(self.first)
    }

    /// Returns the last address.
    #[must_use]
    pub fn last(&self) -> IpAddr {
        self.last
    }

    /// Returns true if the address is in the range.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        // `IpAddr` orders all IPv4 addresses before all IPv6 addresses, so this comparison also
        // separates the families.
        self.first <= address && address <= self.last
    }

    /// Returns true if the ranges have an address in common.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// Iterates over the addresses from first to last. A range can be too large to collect.
    pub fn addresses(self) -> impl Iterator<Item = IpAddr> {
        let mut next = Some(self.first);
        std::iter::from_fn(move || {
            let address = next?;
            next = after(address).filter(|following| *following <= self.last);
            Some(address)
        })
    }
}

/// Returns the next address of the same family.
fn after(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => address
            .to_bits()
            .checked_add(1)
            .map(|bits| Ipv4Addr::from_bits(bits).into()),
        IpAddr::V6(address) => address
            .to_bits()
            .checked_add(1)
            .map(|bits| Ipv6Addr::from_bits(bits).into()),
    }
}

impl From<IpNet> for Range {
    fn from(net: IpNet) -> Self {
        Self {
            first: net.network(),
            last: net.broadcast(),
        }
    }
}

impl FromStr for Range {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let range = parse(text)?;
        match UNUSABLE
            .iter()
            .find(|(unusable, _)| unusable.overlaps(&range))
        {
            Some((_, what)) => Err(RangeError::Unusable(text.to_owned(), what)),
            None => Ok(range),
        }
    }
}

fn parse(text: &str) -> Result<Range, RangeError> {
    let syntax = || RangeError::Syntax(text.to_owned());
    if text.contains('/') {
        let net: IpNet = text.trim().parse().map_err(|_| syntax())?;
        return match net.trunc() {
            whole if whole == net => Ok(net.into()),
            whole => Err(RangeError::HostBits(text.to_owned(), whole)),
        };
    }

    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let first: IpAddr = first.trim().parse().map_err(|_| syntax())?;
    let last: IpAddr = last.trim().parse().map_err(|_| syntax())?;

    if Family::of(first) != Family::of(last) {
        return Err(RangeError::MixedFamilies(text.to_owned()));
    }
    if last < first {
        return Err(RangeError::Reversed(text.to_owned()));
    }
    Ok(Range { first, last })
}

/// Formats the range as it is written in an inventory.
impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            self.first.fmt(f)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> Range {
        text.parse().unwrap()
    }

    #[test]
    fn parses_addresses_ranges_and_cidrs() {
        assert_eq!(
            range("192.0.2.10-192.0.2.20").to_string(),
            "192.0.2.10-192.0.2.20"
        );
        assert_eq!(
            range("192.0.2.10 - 192.0.2.20"),
            range("192.0.2.10-192.0.2.20")
        );
        assert_eq!(
            range("198.51.100.0/28").to_string(),
            "198.51.100.0-198.51.100.15"
        );
        assert_eq!(
            range("2001:db8::/120").to_string(),
            "2001:db8::-2001:db8::ff"
        );
        assert_eq!(range("192.0.2.1").to_string(), "192.0.2.1");
    }

    #[test]
    fn rejects_invalid_ranges_with_a_reason() {
        for (text, reason) in [
            ("", "is not a valid address"),
            ("nonsense", "is not a valid address"),
            ("192.0.2.1-", "is not a valid address"),
            ("192.0.2.1-192.0.2.2-192.0.2.3", "is not a valid address"),
            ("192.0.2.0/33", "is not a valid address"),
            ("192.0.2.5/28", "use 192.0.2.0/28"),
            ("192.0.2.1-2001:db8::1", "mixes IP families"),
            ("192.0.2.9-192.0.2.1", "ends before it starts"),
            ("127.0.0.1", "loopback"),
            ("100.0.0.0-200.0.0.0", "loopback"),
            ("0.0.0.0/0", "unspecified"),
            ("224.0.0.9", "multicast"),
            ("255.255.255.255", "broadcast"),
            ("::1", "loopback"),
            ("fe80::1", "link-local"),
            ("::ffff:192.0.2.1", "IPv4-mapped"),
            ("ff02::1", "multicast"),
        ] {
            let error = text.parse::<Range>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn addresses_next_to_reserved_ranges_are_usable() {
        for (inside, outside) in [
            ("febf:ffff::", "fec0::"),
            ("169.254.255.255", "169.255.0.0"),
            ("::2", "::1:0:0"),
        ] {
            assert!(unusable(inside.parse().unwrap()).is_some(), "{inside}");
            assert_eq!(unusable(outside.parse().unwrap()), None, "{outside}");
        }
    }

    #[test]
    fn a_range_includes_its_ends_and_only_its_family() {
        let range = range("192.0.2.10-192.0.2.20");
        for (address, inside) in [
            ("192.0.2.9", false),
            ("192.0.2.10", true),
            ("192.0.2.20", true),
            ("192.0.2.21", false),
            ("::", false),
            ("::c000:20a", false),
        ] {
            assert_eq!(
                range.contains(address.parse().unwrap()),
                inside,
                "{address}"
            );
        }
    }

    #[test]
    fn ranges_that_share_an_address_overlap() {
        for (one, other, overlap) in [
            ("192.0.2.0/28", "192.0.2.15-192.0.2.20", true),
            ("192.0.2.0/28", "192.0.2.16-192.0.2.20", false),
            ("192.0.2.0/24", "192.0.2.7", true),
            ("192.0.2.0/24", "2001:db8::/64", false),
        ] {
            assert_eq!(range(one).overlaps(&range(other)), overlap, "{one} {other}");
            assert_eq!(range(other).overlaps(&range(one)), overlap, "{other} {one}");
        }
    }

    #[test]
    fn a_range_at_the_end_of_the_address_space_ends() {
        assert_eq!(range("203.0.113.255").addresses().count(), 1);
        let last = Range {
            first: IpAddr::V6(Ipv6Addr::from_bits(u128::MAX - 1)),
            last: IpAddr::V6(u128::MAX.into()),
        };
        assert_eq!(last.addresses().count(), 2);
    }

    #[test]
    fn a_huge_range_is_iterated_lazily() {
        assert_eq!(
            range("2001:db8::/32").addresses().nth(2),
            Some("2001:db8::2".parse().unwrap())
        );
    }
}
