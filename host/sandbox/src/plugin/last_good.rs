//! The last good build of a plugin, which serves after a restart while its file is bad.

use std::{io, sync::Arc};

use tokio::task::spawn_blocking;

use crate::{
    execution::runtime::Runtime,
    imports::ClusterSlot,
    load::{
        error::LoadError,
        source::{self, PluginSource},
    },
    plugin::{Plugin, Terms, read},
};

impl Plugin {
    /// Loads a plugin like [`Plugin::load`]. If this fails, and the operator wants it, the last good
    /// build is put into service instead, with the same configuration; the plugin's files are tried
    /// again when they change.
    ///
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`LoadError`] of the plugin, if there is no last good build or it cannot be loaded either.
    pub async fn load_or_last_good(
        runtime: &Runtime,
        source: PluginSource,
        cluster: ClusterSlot,
    ) -> Result<Arc<Self>, LoadError> {
        let error = match Self::load(runtime, source.clone(), cluster.clone()).await {
            Ok(plugin) => return Ok(plugin),
            Err(error) => error,
        };

        let plugin = source.name.clone();
        let Some(good) = last_good(runtime, &source).await else {
            return Err(error);
        };

        let good = Self::load(runtime, good, cluster).await;
        let good = good.map_err(|why| {
            tracing::error!(
                plugin,
                "the last good build of the plugin cannot be loaded: {why}"
            );
            error
        })?;

        good.serves_instead();
        // It is rejected again, reported, and retried when its files change.
        let _ = good.reconfigure(source, runtime.limits().clone()).await;
        Ok(good)
    }

    /// Puts the last good build into service instead of the current one, whose files are then tried
    /// like a replacement. Returns false if there is none, or it cannot be loaded.
    pub async fn fall_back(&self) -> bool {
        let mut swap = self.swap.lock().await;
        let terms = self.terms();
        let Some(source) = last_good(&terms.runtime, &terms.source).await else {
            return false;
        };

        let good = Terms {
            runtime: terms.runtime.clone(),
            source,
            shared: Arc::clone(&terms.shared),
        };
        let Ok(files) = read(&good.source).await else {
            return false;
        };

        // It need not be able to replace a build that was not accepted.
        let Ok(next) = self.next(&mut swap, &good, files, None).await else {
            return false;
        };

        self.publish(&mut swap, &Arc::new(next));
        self.serves_instead();

        // It is rejected and reported, and retried when its files change.
        let files = read(&terms.source).await;
        let _ = self.replace(&mut swap, files).await;
        true
    }

    fn serves_instead(&self) {
        self.shared.metrics.last_good_serves(&self.shared.plugin);
        let digest = self.generation().digest;
        tracing::warn!(
            plugin = self.name(),
            digest,
            "the last good build of the plugin is in service"
        );
    }

    /// Keeps each build that is in service as the last good one. Ends when the plugin is dropped.
    pub async fn keep_last_good(&self) {
        let mut generations = self.subscribe();
        loop {
            // Marked as seen before it is kept, so that one that comes in the meantime is kept
            // next.
            generations.borrow_and_update();
            if let Err(error) = self.keep_current().await {
                let plugin = self.name();
                tracing::warn!(plugin, %error, "cannot keep the plugin as the last good build");
            }

            if generations.changed().await.is_err() {
                return;
            }
        }
    }

    async fn keep_current(&self) -> io::Result<()> {
        let artifacts = Arc::clone(&self.terms().runtime.inner.artifacts);
        let plugin = self.name().to_owned();
        let current = self.generation();

        let keeping = spawn_blocking(move || {
            let component = source::read_component(&current.source).map_err(io::Error::other)?;
            if source::digest(&component) != current.digest {
                // It has been replaced, by a build that is tried next.
                return Ok(());
            }
            artifacts.keep_last_good(&plugin, &component)
        });

        keeping.await?
    }
}

/// Returns the source with the last good build, if there is one and the operator wants it.
async fn last_good(runtime: &Runtime, source: &PluginSource) -> Option<PluginSource> {
    if !source.last_good {
        return None;
    }
    let artifacts = Arc::clone(&runtime.inner.artifacts);
    let name = source.name.clone();
    let found = spawn_blocking(move || artifacts.last_good(&name, source::MAX_COMPONENT)).await;

    Some(PluginSource {
        component: found.ok().flatten()?,
        ..source.clone()
    })
}
