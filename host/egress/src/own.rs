//! The machine's own addresses.

use std::{io, net::IpAddr};

/// Every address of every interface of this machine, loopback included, for [`Closed::own`](crate::Closed::own).
///
/// # Errors
/// If the operating system does not tell.
pub fn own_addresses() -> io::Result<Vec<IpAddr>> {
    Ok(if_addrs::get_if_addrs()?.into_iter().map(|interface| interface.ip()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_among_the_own_addresses() {
        assert!(own_addresses().unwrap().iter().any(IpAddr::is_loopback));
    }
}
