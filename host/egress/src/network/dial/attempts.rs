//! Connection attempts to several addresses of a host (based on RFC 8305).

use std::{net::SocketAddr, time::Duration};

use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::{net::TcpStream, time::sleep};

use crate::{
    request_error::{Cause, Code, RequestError},
    target::Target,
};

/// Delay before the next address is tried, unless the previous attempt fails earlier (RFC 8305,
/// section 5).
const STAGGER: Duration = Duration::from_millis(250);

/// Connects to the first address that accepts the connection.
///
/// # Errors
/// [`Code::ConnectionRefused`] if no address does.
pub(super) async fn connect(
    target: &Target,
    addresses: &[SocketAddr],
) -> Result<TcpStream, RequestError> {
    let mut waiting = alternate(addresses).into_iter();
    let mut running = FuturesUnordered::new();
    let mut failure = nowhere(target);

    loop {
        if running.is_empty() {
            let Some(address) = waiting.next() else {
                return Err(failure);
            };
            running.push(TcpStream::connect(address));
        }

        tokio::select! {
            Some(result) = running.next() => match result {
                Ok(stream) => return Ok(stream),
                Err(error) => {
                    let sentence = format!("cannot connect to {target}: {error}");
                    failure = RequestError::new(Code::ConnectionRefused, Cause::Connect, sentence);
                    // The delay is for attempts that may still succeed.
                    running.extend(waiting.next().map(TcpStream::connect));
                }
            },
            () = sleep(STAGGER), if waiting.len() > 0 => running.extend(waiting.next().map(TcpStream::connect)),
        }
    }
}

/// Returns the error for a host without addresses.
pub(super) fn nowhere(target: &Target) -> RequestError {
    RequestError::new(
        Code::DnsError,
        Cause::Dns,
        format!("{target} has no address"),
    )
}

/// Returns the addresses in the resolver's order, but alternating between IPv4 and IPv6, so that a
/// family that does not work costs one attempt.
fn alternate(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let Some(first) = addresses.first() else {
        return Vec::new();
    };

    let (same, other): (Vec<_>, Vec<_>) = addresses
        .iter()
        .copied()
        .partition::<Vec<SocketAddr>, _>(|it| it.is_ipv4() == first.is_ipv4());
    let mut same = same.into_iter();
    let mut other = other.into_iter();

    let mut all = Vec::with_capacity(addresses.len());
    while all.len() < addresses.len() {
        all.extend(same.next());
        all.extend(other.next());
    }

    all
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::target::{Host, Scheme};

    fn target() -> Target {
        Target {
            scheme: Scheme::Http,
            host: Host::parse("a.example").unwrap(),
            port: 80,
        }
    }

    #[test]
    fn address_families_alternate() {
        let all = ["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1"].map(|it| it.parse().unwrap());
        assert_eq!(alternate(&all), [all[0], all[3], all[1], all[2]]);
        assert!(alternate(&[]).is_empty());
    }

    #[tokio::test]
    async fn tries_the_next_address_if_one_fails() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let closed = {
            TcpListener::bind("127.0.0.1:0")
                .await
                .unwrap()
                .local_addr()
                .unwrap()
        };

        let open = listener.local_addr().unwrap();
        let stream = connect(&target(), &[closed, open]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), open);
        let error = connect(&target(), &[closed]).await.unwrap_err();
        assert_eq!(error.code(), Code::ConnectionRefused);
        assert_eq!(
            connect(&target(), &[]).await.unwrap_err().code(),
            Code::DnsError
        );
    }
}
