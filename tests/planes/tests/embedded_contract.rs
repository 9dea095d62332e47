//! The contract with the API server, on the embedded control plane.

#[path = "contract/contract.rs"]
mod contract;

use anyhow::Result;
use skydock_planes::EmbeddedPlane;

#[tokio::test]
async fn the_contract_holds_on_the_embedded_control_plane() -> Result<()> {
    contract::holds_on(&EmbeddedPlane::start().await?).await
}
