//! The machine's own addresses.

use std::{io, net::IpAddr};

/// Returns the addresses of all interfaces of this machine, including loopback, for
/// [`ClusterAddresses::own`](crate::ClusterAddresses::own).
///
/// # Errors
/// If the operating system returns an error.
pub fn own_addresses() -> io::Result<Vec<IpAddr>> {
    Ok(if_addrs::get_if_addrs()?
        .into_iter()
        .map(|interface| interface.ip())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_include_loopback() {
        assert!(own_addresses().unwrap().iter().any(IpAddr::is_loopback));
    }
}
