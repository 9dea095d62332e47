//! A component that is read, checked, compiled and linked: everything that does not depend on a
//! configuration.

use std::{collections::BTreeSet, pin::pin, sync::Arc, time::Duration};

use skydock_cloud::Capability;
use tokio::{task::spawn_blocking, time::timeout};
use wasmtime::{Engine, component::InstancePre};

use crate::{
    execution::{
        machine_code,
        runtime::{Inner, Runtime},
    },
    imports::State,
    load::{
        artifacts::{Artifact, Key},
        compile::CompileError,
        error::{LoadError, LoadProblem, Stage},
        info::Stopwatch,
        inspect::ComponentType,
        metadata::Metadata,
    },
};

/// Time after which a compilation is reported, because somebody may be waiting for it.
const LONG: Duration = Duration::from_secs(3);

/// One component that instances can be created from. Generations with the same bytes share it.
pub(crate) struct Code {
    /// SHA-256 of the component, in hexadecimal.
    pub(crate) digest: String,
    /// Bytes of the component.
    pub(crate) size: usize,
    /// Version of the contract that it was built for.
    pub(crate) contract: Option<String>,
    pub(crate) imports: Vec<String>,
    pub(crate) capabilities: BTreeSet<Capability>,
    pub(crate) metadata: Option<Metadata>,
    pub(crate) pre: InstancePre<State>,
}

impl Code {
    /// Returns true if it was loaded by the engine of this runtime.
    pub(crate) fn is_for(&self, runtime: &Runtime) -> bool {
        Engine::same(self.pre.engine(), &runtime.inner.engine)
    }

    /// Takes a component through the stages from type to compile. `plugin` is the label of the
    /// metrics.
    ///
    /// Dropping the future ends the compiler.
    pub(crate) async fn make(
        runtime: &Runtime,
        plugin: &str,
        component: Vec<u8>,
        digest: String,
        watch: &mut Stopwatch,
    ) -> Result<Self, LoadError> {
        let size = component.len();

        let inner = Arc::clone(&runtime.inner);
        let (component, typed, capabilities) = blocking(Stage::Type, move || {
            // The compiler's time and memory depend on the shape, which is therefore checked first.
            let typed = ComponentType::read(&component, &inner.limits)?;
            let capabilities = typed.capabilities()?;
            Ok((component, typed, capabilities))
        })
        .await?;
        watch.lap(Stage::Type);

        let newer = typed.newer_imports();
        let forbidden = typed.forbidden_imports();
        if !forbidden.is_empty() {
            return Err(LoadError::new(
                Stage::Imports,
                LoadProblem::Forbidden(forbidden.iter().collect()),
            ));
        }
        watch.lap(Stage::Imports);

        let artifact = compiled(&runtime.inner, plugin, component, typed.code, &digest).await?;

        let inner = Arc::clone(&runtime.inner);
        let pre = blocking(Stage::Compile, move || {
            let component = machine_code::load(&inner.engine, &artifact)
                .map_err(|error| LoadError::new(Stage::Compile, LoadProblem::Load(error.into())))?;

            // The mapped code outlives the artifact.
            drop(artifact);
            let pre = inner.linker.instantiate_pre(&component);

            pre.map_err(|error| {
                // A newer version may add nothing that the plugin uses.
                let problem = match newer {
                    Some(imports) => LoadProblem::Newer { imports },
                    None => LoadProblem::Link(error.into()),
                };
                LoadError::new(Stage::Imports, problem)
            })
        })
        .await?;

        watch.lap(Stage::Compile);
        Ok(Self {
            digest,
            size,
            contract: typed.contract().map(Into::into),
            imports: typed.imports,
            capabilities,
            metadata: typed.metadata,
            pre,
        })
    }
}

/// Returns the machine code, compiled earlier or by this call. `code` is the size of the functions.
async fn compiled(
    runtime: &Arc<Inner>,
    plugin: &str,
    component: Vec<u8>,
    code: u64,
    digest: &str,
) -> Result<Artifact, LoadError> {
    let failed = |error: CompileError| LoadError::new(Stage::Compile, error);

    let key = Key {
        component: digest.to_owned(),
        engine: runtime.compatibility.clone(),
    };
    let inner = Arc::clone(runtime);
    let wanted = key.clone();

    if let Some(found) = blocking(Stage::Compile, move || Ok(inner.artifacts.find(&wanted))).await?
    {
        return Ok(found);
    }

    let inner = Arc::clone(runtime);
    let unfinished = blocking(Stage::Compile, move || Ok(inner.artifacts.begin())).await?;
    let unfinished = unfinished.map_err(|error| failed(CompileError::Directory(error)))?;

    let compiling =
        runtime
            .compiler
            .compile(component, &unfinished, runtime.reservation, &runtime.limits);
    let compiled = reported(compiling, plugin, code, runtime.artifacts.outlive()).await;
    runtime.metrics.compiled(plugin, compiled.is_ok());
    compiled.map_err(failed)?;

    let kept = blocking(Stage::Compile, move || Ok(unfinished.keep(&key))).await?;
    kept.map_err(|error| failed(CompileError::Lost(error)))
}

/// Waits for a compilation, and reports it if it takes long. `cached` says whether the result
/// outlives this process.
async fn reported<T>(
    compiling: impl Future<Output = T>,
    plugin: &str,
    code: u64,
    cached: bool,
) -> T {
    let mut compiling = pin!(compiling);
    // By reference, so that the compilation goes on after the report.
    match timeout(LONG, &mut compiling).await {
        Ok(compiled) => compiled,
        Err(_) => {
            let mebibytes = code.div_ceil(1 << 20);
            let cached = if cached { "; the result is cached" } else { "" };

            tracing::info!(
                plugin,
                "compiling the plugin ({mebibytes} MiB of code); this may take minutes{cached}"
            );
            compiling.await
        }
    }
}

/// Runs work that takes milliseconds per megabyte on a thread where it does not block others.
async fn blocking<T: Send + 'static>(
    stage: Stage,
    work: impl FnOnce() -> Result<T, LoadError> + Send + 'static,
) -> Result<T, LoadError> {
    spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(LoadError::new(stage, error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_thread_that_panics_says_why() {
        let work = || -> Result<(), LoadError> { panic!("the section has no end") };
        let error = blocking(Stage::Type, work).await.unwrap_err();

        assert!(error.may_pass());
        let text = error.to_string();
        assert!(text.contains("the section has no end"), "{text}");
    }
}
