//! Outages in which the cloud reports all instances as absent.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;
use skydock_controllers::{constants::ANNOTATION_ALLOW_DELETION, lifecycle::brake::BrakeOptions};
use tokio::time::sleep;

use super::World;

/// How long decisions made in an outage can take to be carried out: an answer that is on its way,
/// and a request until its deadline.
const AFTERMATH: Duration = Duration::from_secs(120);

impl World {
    /// Stops the kubelets one after the other while the cloud reports that there are no instances,
    /// as with the credentials of another account. Then everything is restored, and kubelets whose
    /// node was deleted register again.
    ///
    /// Some nodes are deleted, but never more than the brake allows.
    pub(super) async fn outage(&mut self, time: Duration) -> Result<(), String> {
        let before: Vec<_> = self
            .list_nodes()
            .await?
            .iter()
            .filter_map(ResourceExt::uid)
            .collect();
        let most = BrakeOptions::default().most(before.len());
        let ready: Vec<_> = self
            .nodes
            .iter()
            .filter(|(_, model)| model.ready)
            .map(|(name, _)| *name)
            .collect();
        let claimed: Vec<_> = before
            .iter()
            .filter(|uid| self.cloud.release(uid))
            .collect();
        self.cloud.blind(true);
        let step = time / u32::try_from(ready.len() + 1).unwrap_or(1);
        for name in &ready {
            self.silence(name)?;
            sleep(step).await;
        }
        sleep(step).await;
        self.cloud.blind(false);
        sleep(AFTERMATH).await;

        let left: Vec<_> = self
            .list_nodes()
            .await?
            .iter()
            .filter_map(ResourceExt::uid)
            .collect();
        claimed
            .into_iter()
            .filter(|uid| left.contains(uid))
            .for_each(|uid| self.cloud.claim(uid));
        let gone: Vec<_> = before
            .into_iter()
            .filter(|uid| !left.contains(uid))
            .collect();
        if gone.len() > most {
            self.wrongs.push(format!(
                "{} nodes were deleted in an outage, and {most} may be",
                gone.len()
            ));
        }
        for model in self.nodes.values_mut() {
            model.uid.take_if(|uid| gone.contains(uid));
        }
        for name in ready {
            self.wake(name).await?;
        }
        Ok(())
    }

    /// Allows deletions as an operator, because no node is deleted if more instances are gone than
    /// the brake allows.
    pub(super) async fn allow_deletions(&self) -> Result<(), String> {
        let nodes = self.list_nodes().await?;
        let held: Vec<_> = nodes.iter().filter(|node| self.is_left(node)).collect();
        if held.len() > BrakeOptions::default().most(nodes.len()) {
            let api = Api::<Node>::all(self.operator.clone());
            let patch = Patch::Merge(
                json!({"metadata": {"annotations": {ANNOTATION_ALLOW_DELETION: "true"}}}),
            );
            for node in held {
                let patched = api
                    .patch(&node.name_any(), &PatchParams::default(), &patch)
                    .await;
                patched.map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }
}
