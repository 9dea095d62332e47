//! Two embedded control planes answer the same: what the comparison with a real one takes for chance, is.

#[path = "answers/answers.rs"]
mod answers;

use anyhow::Result;
use skydock_planes::{EmbeddedPlane, Plane as _};

#[tokio::test(flavor = "multi_thread")]
async fn two_embedded_planes_answer_the_same() -> Result<()> {
    let (one, other) =
        (EmbeddedPlane::start_without_controllers().await?, EmbeddedPlane::start_without_controllers().await?);
    answers::are_alike(one.client(), other.client(), 100, false).await
}
