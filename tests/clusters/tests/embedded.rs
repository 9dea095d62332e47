//! The embedded control plane: the contract with the API server, and that the comparison of answers
//! ignores random differences.

#[path = "answers/answers.rs"]
mod answers;
#[path = "contract/contract.rs"]
mod contract;

use anyhow::Result;
use skydock_clusters::{EmbeddedPlane, Plane as _};

#[tokio::test]
async fn the_contract_holds_on_the_embedded_control_plane() -> Result<()> {
    contract::holds_on(&EmbeddedPlane::start().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_embedded_planes_give_the_same_answers() -> Result<()> {
    let (one, other) = (
        EmbeddedPlane::start_without_controllers().await?,
        EmbeddedPlane::start_without_controllers().await?,
    );
    answers::are_alike(one.client(), other.client(), 100, false).await
}
