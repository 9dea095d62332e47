//! Two embedded control planes give the same answers, which shows that the comparison ignores all random differences.

#[path = "answers/answers.rs"]
mod answers;

use anyhow::Result;
use skydock_planes::{EmbeddedPlane, Plane as _};

#[tokio::test(flavor = "multi_thread")]
async fn two_embedded_planes_give_the_same_answers() -> Result<()> {
    let (one, other) =
        (EmbeddedPlane::start_without_controllers().await?, EmbeddedPlane::start_without_controllers().await?);
    answers::are_alike(one.client(), other.client(), 100, false).await
}
