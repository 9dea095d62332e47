//! A server that stands in for a cloud: one thread and one request per connection.
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A received request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    /// Method, path and query.
    pub(crate) line: String,
    /// Values by name in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

/// A response, sent literally after a delay.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) after: Duration,
    pub(crate) bytes: Vec<u8>,
    /// How long the connection stays open after the response.
    pub(crate) open: Duration,
}

impl Reply {
    /// Creates a complete response.
    pub(crate) fn new(status: u16, headers: &str, body: &str) -> Self {
        let length = body.len();
        let bytes = format!(
            "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n{body}"
        );
        Self {
            after: Duration::ZERO,
            bytes: bytes.into(),
            open: Duration::ZERO,
        }
    }

    pub(crate) fn ok(body: &str) -> Self {
        Self::new(200, "", body)
    }

    pub(crate) fn raw(bytes: &str) -> Self {
        Self {
            bytes: bytes.into(),
            ..Self::ok("")
        }
    }

    pub(crate) fn after(self, after: Duration) -> Self {
        Self { after, ..self }
    }
}

/// The server. Its threads run until the test process ends.
pub(crate) struct Server {
    pub(crate) url: String,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    now: usize,
    most: usize,
    received: Vec<Received>,
}

impl Server {
    pub(crate) fn start(reply: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (seen, reply) = (Arc::<Mutex<Seen>>::default(), Arc::new(reply));
        let also_seen = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, seen, reply) =
                    (stream.unwrap(), Arc::clone(&also_seen), Arc::clone(&reply));
                // A client that closes the connection does not matter.
                std::thread::spawn(move || drop(serve(stream, &seen, &*reply)));
            }
        });
        Self { url, seen }
    }

    /// Returns the maximum number of requests that were being answered at the same time.
    pub(crate) fn most(&self) -> usize {
        self.seen.lock().unwrap().most
    }

    /// Returns all requests, in the order of their arrival.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.seen.lock().unwrap().received.clone()
    }
}

fn serve(
    mut stream: TcpStream,
    seen: &Mutex<Seen>,
    reply: &dyn Fn(&Received) -> Reply,
) -> std::io::Result<()> {
    let received = receive(&mut BufReader::new(stream.try_clone()?))?;
    let reply = reply(&received);
    {
        let mut seen = seen.lock().unwrap();
        seen.now += 1;
        seen.most = seen.most.max(seen.now);
        seen.received.push(received);
    }
    std::thread::sleep(reply.after);
    // The count decreases before the response is sent: otherwise the next request of the client
    // could arrive first.
    seen.lock().unwrap().now -= 1;
    stream.write_all(&reply.bytes)?;
    std::thread::sleep(reply.open);
    Ok(())
}

fn receive(stream: &mut impl std::io::BufRead) -> std::io::Result<Received> {
    let mut lines = stream.by_ref().lines();
    let first = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    let mut headers = BTreeMap::new();
    for line in lines {
        let line = line?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers
        .get("content-length")
        .map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(Received {
        line: first.trim_end_matches(" HTTP/1.1").to_owned(),
        headers,
        body,
    })
}
