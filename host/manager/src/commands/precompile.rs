//! `skydock plugin precompile`: fills a cache of machine code, for images and init containers.

use std::io::Write;

use anyhow::Context;
use skydock_cloud::text::escape;
use skydock_controllers::service::ServiceOptions;
use skydock_sandbox::{Compiler, Runtime, RuntimeOptions};

use crate::{
    cli::{COMPILER, PrecompileArgs, plugin_limits},
    process::blocking::blocking,
};

/// Compiles the plugin into the directory, and says so.
///
/// # Errors
/// If the directory cannot be used, or the plugin cannot be compiled.
pub async fn run(args: PrecompileArgs) -> anyhow::Result<()> {
    let limits = plugin_limits::limits(
        ServiceOptions::default().concurrent_syncs,
        &args.plugin_limits,
    )?;
    let cache_dir = Some(args.cache_dir.clone());

    let options = RuntimeOptions {
        limits,
        cache_dir,
        ..RuntimeOptions::new(Compiler::this_program(COMPILER)?)
    };

    let runtime = blocking(async { Runtime::new(options) }).await;
    let runtime = runtime.context("cannot start the plugin runtime")?;
    let compiled = runtime.precompile(args.plugin.clone()).await;
    let (digest, took) =
        compiled.with_context(|| format!("{} cannot be used", args.plugin.display()))?;

    let line = format!(
        "{} {digest}: ready in {} after {:.1} s",
        args.plugin.display(),
        args.cache_dir.display(),
        took.as_secs_f64()
    );

    writeln!(std::io::stdout().lock(), "{}", escape(&line))?;
    Ok(())
}
