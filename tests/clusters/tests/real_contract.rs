//! The contract with the API server, on a real control plane.

#[path = "contract/contract.rs"]
mod contract;

use anyhow::Result;
use skydock_clusters::RealPlane;

#[tokio::test]
async fn the_contract_holds_on_a_real_control_plane() -> Result<()> {
    contract::holds_on(&RealPlane::start().await?).await
}
