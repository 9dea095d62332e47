//! The embedded control plane gives the same answers to all requests as the real one.

#[path = "answers/answers.rs"]
mod answers;

use anyhow::Result;
use skydock_clusters::{EmbeddedPlane, Plane as _, RealPlane};

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_plane_answers_like_the_real_one() -> Result<()> {
    let (embedded, real) = (
        EmbeddedPlane::start_without_controllers().await?,
        RealPlane::start_without_controllers().await?,
    );
    answers::are_alike(embedded.client(), real.client(), 600, true).await
}
