//! Takes Services from the queue: an attempt at the goal of each, and its next check.

use std::sync::Arc;

use async_trait::async_trait;
use skydock_controller_base::controller::context::{Runner, spawn_joined};
use skydock_kube::queue::Priority;
use tokio_util::sync::CancellationToken;

use crate::{
    ServiceController,
    known::state::State,
    plan::{goal, schedule},
};

#[async_trait]
impl Runner for ServiceController {
    /// Checks all Services. Those that are not in the desired state go first: the new plugin may
    /// fix them.
    fn recheck(&self) {
        let known = self.known.all();
        self.queue.pace(self.options.pace(known.len()));

        for (key, known) in &known {
            known.forget_provider();
            self.queue.add(key.clone(), known.read(State::recheck));
        }

        // Services that still wait for their first attempt are not known yet.
        for entry in self.services.list() {
            let key = entry.key();
            if let Some(priority) = schedule::appeared(&entry.object, &self.options.classes)
                .filter(|_| self.known.get(&key).is_none())
            {
                self.queue.add(key, priority);
            }
        }
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let this = &self;
        let workers = self.options.concurrent_syncs;

        let sync = |key: String, priority| {
            let this = Arc::clone(this);
            spawn_joined(async move { this.sync(&key, priority).await })
        };

        if shutdown.run_until_cancelled(self.restore()).await.is_none() {
            return;
        }

        tokio::join!(
            self.queue.run_workers(workers, &shutdown, sync),
            self.node_queue
                .run_workers(workers, &shutdown, |work, _| this.work_nodes(work)),
            self.keep_records(&shutdown),
        );
        self.keep_last_record().await;
    }
}

impl ServiceController {
    /// Asks the plan for the goal, and attempts it.
    async fn sync(&self, key: &str, priority: Priority) {
        let entry = self.services.get(key);
        if let Some(old) = self.known.get(key)
            && let Some(goal) = goal::goal_if_gone(
                &old.entry().object,
                entry.as_ref().map(|entry| &entry.object),
            )
        {
            self.attempt(key, &old, goal, None, priority).await;
            // Its successor waits until it is deleted or set aside.
            if self.known.get(key).is_some() {
                return;
            }
        }

        // Read again, because the attempt may have removed it.
        let is_known = self.known.get(key).is_some();
        let goal = entry
            .as_ref()
            .and_then(|entry| goal::goal(&entry.object, &self.options.classes, is_known));

        let (Some(entry), Some(goal)) = (entry, goal) else {
            // Nothing is to be done, so that earlier failures do not matter.
            return self.queue.forget(&key.to_owned());
        };

        let known = self.known.remember(key, &entry);
        self.attempt(key, &known, goal, Some(entry), priority).await;
    }
}
