//! The story of a cluster with a plugin, step by step, checked through the API.
//!
//! The same chapters run as the demo on the embedded control plane, and as end-to-end tests on the
//! embedded and on a real control plane. Everything is done as by a user: the `skydock` binary as a
//! process, files on disk, objects in the API.

#![forbid(unsafe_code)]

mod chapters;
pub mod figures;
pub mod image;
mod inventory;
pub mod kubelet;
pub mod narrator;
mod stage;

pub use stage::Stage;

use narrator::Narrator;

/// The plugins that the story needs, as `cargo xtask guests` names them.
pub const PLUGINS: [&str; 4] = [
    "static",
    "hostile/good",
    "hostile/traps_in_configure",
    "hostile/wrong_type",
];

/// Runs the whole story.
///
/// # Errors
/// Returns the first step that failed.
pub async fn tell(stage: &mut Stage, narrator: &mut Narrator) -> anyhow::Result<()> {
    chapters::nodes::tell(stage, narrator).await?;
    chapters::services::tell(stage, narrator).await?;
    chapters::machines::tell(stage, narrator).await?;
    chapters::swaps::tell(stage, narrator).await?;
    chapters::leaders::tell(stage, narrator).await?;
    chapters::hostile::tell(stage, narrator).await?;
    chapters::routes::tell(stage, narrator).await?;
    chapters::dry_run::tell(stage, narrator).await?;
    chapters::repair::tell(stage, narrator).await?;
    chapters::brake::tell(stage, narrator).await?;
    chapters::rejections::tell(stage, narrator).await?;
    Ok(())
}
