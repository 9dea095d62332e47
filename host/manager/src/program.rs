//! Subcommands that are separate programs: tools for developers are not part of the image.

use std::{env, ffi::OsString, io, os::unix::process::CommandExt as _, path::Path, process::Command};

use anyhow::anyhow;

/// Replaces this process with `skydock-NAME`, which is in the same directory or in `PATH`. Returns only if this fails.
#[must_use]
pub(crate) fn go_on_as(name: &str, arguments: &[OsString]) -> anyhow::Error {
    let program = format!("skydock-{name}");
    let here = env::current_exe().ok();
    let beside = here.as_deref().and_then(Path::parent).map(|folder| folder.join(&program));
    let found = beside.filter(|file| file.is_file()).unwrap_or_else(|| program.clone().into());
    let error = Command::new(found).args(arguments).exec();
    if error.kind() == io::ErrorKind::NotFound {
        return anyhow!(
            "`skydock {name}` needs the program {program}, which is neither next to skydock nor in PATH: build it with \
             `cargo build --release -p {program}`"
        );
    }
    anyhow!(error).context(format!("cannot start {program}"))
}
