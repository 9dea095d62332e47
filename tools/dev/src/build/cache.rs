//! Where the tools are that `skydock plugin build` installs.

use std::path::PathBuf;

use anyhow::Context as _;

/// Returns the folder for what is shared between projects: `$SKYDOCK_CACHE`, or else `skydock` in
/// the user's cache directory.
///
/// # Errors
/// If no variable says where that is.
pub(super) fn folder() -> anyhow::Result<PathBuf> {
    found(|name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    })
    .context("cannot find a cache directory: set HOME or SKYDOCK_CACHE")
}

fn found(var: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    var("SKYDOCK_CACHE")
        .or_else(|| var("XDG_CACHE_HOME").map(|dir| dir.join("skydock")))
        .or_else(|| var("HOME").map(|dir| dir.join(".cache/skydock")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_in_the_cache_of_the_user() {
        let with = |set: &[&str]| {
            found(|name| {
                set.contains(&name)
                    .then(|| PathBuf::from(name.to_lowercase()))
            })
        };

        assert_eq!(with(&["HOME"]), Some(PathBuf::from("home/.cache/skydock")));
        assert_eq!(
            with(&["HOME", "XDG_CACHE_HOME"]),
            Some(PathBuf::from("xdg_cache_home/skydock"))
        );
        assert_eq!(
            with(&["HOME", "SKYDOCK_CACHE"]),
            Some(PathBuf::from("skydock_cache"))
        );
        assert_eq!(with(&[]), None);
    }
}
