//! Watches, which send changes as long as a client listens.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures::stream;
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, timeout_at};

use crate::message::Node;
use crate::plane::{Cluster, Plane};
use crate::shelf::{Change, Happened};
use crate::wire;

/// The maximum number of changes in one chunk of the answer.
const PIECE: usize = 64;

/// The watched kind of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watched {
    Nodes,
    Services,
}

struct Watch {
    plane: Arc<Plane>,
    watched: Watched,
    /// The revision up to which changes have been sent.
    given: u64,
    changes: Receiver<u64>,
    end: Instant,
}

/// Returns the changes after a revision as a body, or `None` if the history does not have them.
pub(crate) fn watch(
    plane: &Arc<Plane>,
    watched: Watched,
    after: u64,
    lasts: Duration,
) -> Option<Body> {
    let changes = plane.changes();
    let watch = Watch {
        watched,
        given: after,
        changes,
        end: Instant::now() + lasts,
        plane: Arc::clone(plane),
    };
    plane.read(|cluster| watch.next(cluster).map(drop))?;
    plane.write(|cluster| cluster.stats.watches += 1);
    Some(Body::from_stream(stream::unfold(watch, Watch::piece)))
}

impl Watch {
    async fn piece(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        loop {
            self.changes.mark_unchanged();
            let plane = Arc::clone(&self.plane);
            let next = plane.read(|cluster| self.next(cluster))?;
            if let Some((piece, given)) = next.encoded() {
                self.given = given;
                if self.watched == Watched::Nodes {
                    plane.write(|cluster| cluster.given = given);
                }
                return Some((Ok(piece), self));
            }
            timeout_at(self.end, self.changes.changed())
                .await
                .ok()?
                .ok()?;
        }
    }

    fn next(&self, cluster: &Cluster) -> Option<Next> {
        Some(match self.watched {
            Watched::Nodes => Next::Nodes(cluster.nodes.since(self.given, PIECE)?),
            Watched::Services => Next::Services(cluster.services.since(self.given, PIECE)?),
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.plane
            .write(|cluster| cluster.stats.watches = cluster.stats.watches.saturating_sub(1));
    }
}

enum Next {
    Nodes(Vec<Change<Node>>),
    Services(Vec<Change<Value>>),
}

impl Next {
    /// Returns the encoded changes, and the revision of the last one.
    fn encoded(self) -> Option<(Bytes, u64)> {
        let mut piece = BytesMut::new();
        let last = match &self {
            Self::Nodes(changes) => {
                changes
                    .iter()
                    .for_each(|change| wire::event(&mut piece, change.happened, &change.object));
                changes.last().map(|change| change.revision)
            }
            Self::Services(changes) => {
                changes
                    .iter()
                    .for_each(|change| line(&mut piece, change.happened, &change.object));
                changes.last().map(|change| change.revision)
            }
        };
        Some((piece.freeze(), last?))
    }
}

fn line(into: &mut BytesMut, happened: Happened, object: &Value) {
    let line = json!({"type": happened.name(), "object": object});
    into.extend_from_slice(line.to_string().as_bytes());
    into.extend_from_slice(b"\n");
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use skydock_bench_scale::Order;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_watch_sends_past_and_new_changes_until_its_timeout() {
        let plane = Arc::new(Plane::default());
        plane.write(|cluster| cluster.obey(&Order::Expose(0..200)));
        let body = watch(&plane, Watched::Services, 100, Duration::from_secs(9)).unwrap();
        assert_eq!(plane.read(|cluster| cluster.stats().watches), 1);
        let body = tokio::spawn(to_bytes(body, usize::MAX));
        tokio::time::sleep(Duration::from_secs(1)).await;
        plane.write(|cluster| cluster.obey(&Order::Expose(200..210)));
        let body = body.await.unwrap().unwrap();
        let lines: Vec<Value> = body
            .split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect();
        assert_eq!(lines.len(), 110);
        assert_eq!(lines[109]["object"]["metadata"]["resourceVersion"], "210");
        assert_eq!(plane.read(|cluster| cluster.stats().watches), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_lag_of_the_node_watch_is_reported() {
        let plane = Arc::new(Plane::default());
        plane.write(|cluster| cluster.obey(&Order::Register(0..100)));
        assert_eq!(plane.read(|cluster| cluster.stats().behind), 100);
        let body = watch(&plane, Watched::Nodes, 40, Duration::from_secs(9)).unwrap();
        to_bytes(body, usize::MAX).await.unwrap();
        assert_eq!(plane.read(|cluster| cluster.stats().behind), 0);
    }
}
