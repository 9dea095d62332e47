//! Free ports.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;

/// Ports that the system gives to nobody who asks for any: those of Linux begin at 32768.
const PORTS: Range<u16> = 20_000..32_000;

/// Returns an address on loopback with a port that nobody uses at this moment, for a program that
/// is told its address.
///
/// # Errors
/// Fails if there is none.
pub fn free_address() -> io::Result<SocketAddr> {
    // Anywhere in the range, because other processes choose at the same time.
    let start = RandomState::new().build_hasher().finish() % u64::from(PORTS.end - PORTS.start);
    let (before, after): (Vec<_>, Vec<_>) =
        PORTS.partition(|port| u64::from(port - PORTS.start) < start);

    for port in after.into_iter().chain(before) {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            bound => return bound?.local_addr(),
        }
    }
    Err(ErrorKind::AddrInUse.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_is_not_one_for_connections() {
        let address = free_address().unwrap();
        assert!(PORTS.contains(&address.port()), "{address}");
        let taken = TcpListener::bind(address).unwrap();
        assert_ne!(free_address().unwrap(), taken.local_addr().unwrap());
    }
}
