//! Subcommands that are part of another program: tools for developers are not part of the image.

use std::{
    env, ffi::OsString, io, os::unix::process::CommandExt as _, path::Path, process::Command,
};

use anyhow::anyhow;

use crate::cli::ToolCommand;

/// The program with the tools for developers.
const DEVELOPERS: &str = "skydock-dev";

/// Replaces this process with `skydock-dev`, which is in the same directory or in `PATH`. Returns
/// only if this fails. `command` is what the developer has typed.
#[must_use]
pub(crate) fn for_developers(
    command: &str,
    arguments: impl IntoIterator<Item = OsString>,
) -> anyhow::Error {
    let here = env::current_exe().ok();
    let beside = here
        .as_deref()
        .and_then(Path::parent)
        .map(|folder| folder.join(DEVELOPERS));

    let found = beside
        .filter(|file| file.is_file())
        .unwrap_or_else(|| DEVELOPERS.into());

    let error = Command::new(found).args(arguments).exec();
    if error.kind() == io::ErrorKind::NotFound {
        return anyhow!(
            "`skydock {command}` needs the program {DEVELOPERS}, which is neither next to skydock nor in PATH: build it with \
             `cargo build --release -p {DEVELOPERS}`"
        );
    }
    anyhow!(error).context(format!("cannot start {DEVELOPERS}"))
}

/// Replaces this process with a tool for plugins. Returns only if this fails.
#[must_use]
pub(crate) fn tool(tool: ToolCommand) -> anyhow::Error {
    let (tool, given) = tool.words();
    let words = tool.words();
    for_developers(
        &words.join(" "),
        words.map(OsString::from).into_iter().chain(given),
    )
}
