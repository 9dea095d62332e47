//! Free ports.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// Returns an address on loopback with a port that nobody uses at this moment, for a program that
/// is told its address.
///
/// # Errors
/// Fails if there is none.
pub fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
