//! What a file tells without running it (`skydock plugin inspect`), and machine code that is
//! prepared for later (`precompile`).

use std::{path::PathBuf, time::Duration};

use crate::{
    execution::{code::Code, runtime::Runtime},
    load::{
        error::{LoadError, Stage},
        info::Stopwatch,
        inspect::ComponentType,
        source::PluginSource,
    },
    plugin::read,
};

/// A component that has been read, but does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Imports and exports.
    pub typed: ComponentType,
    /// Size in bytes.
    pub size: usize,
    /// SHA-256 in hexadecimal.
    pub digest: String,
}

impl Outline {
    /// Reads a component.
    ///
    /// # Errors
    /// If it cannot be read, is not a component, or exceeds the limits of a plugin.
    pub async fn read(runtime: &Runtime, component: PathBuf) -> Result<Self, LoadError> {
        let files = read(&PluginSource {
            component,
            ..PluginSource::default()
        })
        .await?;

        let limits = runtime.limits().clone();
        let reading = tokio::task::spawn_blocking(move || {
            let typed = ComponentType::read(&files.component, &limits)?;
            Ok(Self {
                typed,
                size: files.component.len(),
                digest: files.digests.component,
            })
        });

        reading
            .await
            .unwrap_or_else(|error| Err(LoadError::new(Stage::Type, error)))
    }
}

impl Runtime {
    /// Compiles a component into the cache directory unless it contains the machine code already,
    /// and returns the SHA-256 of the component and how long it took.
    ///
    /// # Errors
    /// [`LoadError`] with the stage that failed.
    pub async fn precompile(&self, component: PathBuf) -> Result<(String, Duration), LoadError> {
        let files = read(&PluginSource {
            component,
            ..PluginSource::default()
        })
        .await?;

        let mut watch = Stopwatch::start(files.took);
        let code = Code::make(
            self,
            "precompiled",
            files.component,
            files.digests.component,
            &mut watch,
        )
        .await?;

        Ok((
            code.digest,
            watch.stages.iter().map(|(_, took)| *took).sum(),
        ))
    }
}
