//! Tunnels through an HTTP proxy.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    request_error::{Cause, Code, RequestError},
    target::Target,
};

/// Maximum size of a proxy's answer to CONNECT.
const MAX_ANSWER: usize = 8 * 1024;

/// Asks the proxy to connect to the address that was checked.
///
/// # Errors
/// [`Code::ConnectionRefused`] if the proxy does not connect.
pub(super) async fn tunnel(
    mut tcp: TcpStream,
    to: SocketAddr,
    proxy: &Target,
) -> Result<TcpStream, RequestError> {
    let failed = |why: &dyn std::fmt::Display| {
        let sentence = format!("proxy {proxy} cannot connect to {to}: {why}");
        RequestError::new(Code::ConnectionRefused, Cause::Connect, sentence)
    };

    let request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n");
    tcp.write_all(request.as_bytes())
        .await
        .map_err(|error| failed(&error))?;

    let mut answer = Vec::with_capacity(256);
    // Reads single bytes so that no data after the answer is consumed. The answer is short and read
    // once per connection.
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() >= MAX_ANSWER {
            return Err(failed(&"its answer is too long"));
        }
        answer.push(tcp.read_u8().await.map_err(|error| failed(&error))?);
    }

    let line = answer
        .split(|byte| *byte == b'\r')
        .next()
        .unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');

    match (words.next(), words.next()) {
        (Some("HTTP/1.1" | "HTTP/1.0"), Some("200")) => Ok(tcp),
        // Only the number: the rest is untrusted text.
        (_, status) => {
            let status: String = status
                .unwrap_or_default()
                .chars()
                .filter(char::is_ascii_digit)
                .take(3)
                .collect();
            Err(failed(&format!("it answered {status}")))
        }
    }
}
