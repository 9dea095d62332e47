//! `cargo xtask hot`: records the functions that Skydock executes, for the linker.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::{build, console};

/// The list that `host/manager/build.rs` reads.
const LIST: &str = "deploy/hot-functions.txt";

/// Builds the host with symbols, runs the benchmark of clouds with it, and writes the names of all functions that were executed.
///
/// # Errors
/// If something does not build, or the benchmark does not run.
pub(crate) fn run(root: &Path) -> Result<()> {
    let folder = build::release(root, "skydock-bench-clouds")?;
    let recorder = build::recorder(root)?;
    let host = build::image(root, &["--config", "profile.dist.strip=false"])?;
    let work = build::target()?.join("hot-functions");
    let (names, script) = (work.join("names"), work.join("skydock"));
    // Names of an earlier recording are not kept.
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work).with_context(|| format!("cannot create {}", work.display()))?;
    let paths = (recorder.display(), names.display(), host.display());
    let text = format!("#!/bin/sh\nexec '{}' '{}' '{}' \"$@\"\n", paths.0, paths.1, paths.2);
    fs::write(&script, text).context("cannot write the script")?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).context("cannot make the script executable")?;
    let mut benchmark = build::with_plugins(root, &folder.join("skydock-bench-clouds"), &script)?;
    let status =
        benchmark.args(["--side", "skydock", "--rest", "60s"]).status().context("cannot start the benchmark")?;
    ensure!(status.success(), "the benchmark failed: {status}");
    let recorded = fs::read_to_string(&names).context("nothing was recorded")?;
    let list: BTreeSet<_> = recorded.lines().filter_map(pattern).collect();
    ensure!(!list.is_empty(), "nothing was recorded");
    let text: String = list.iter().map(|name| format!("{name}\n")).collect();
    fs::write(root.join(LIST), text).with_context(|| format!("cannot write {LIST}"))?;
    console::note(format_args!("{} functions written to {LIST}", list.len()));
    Ok(())
}

/// Returns a pattern for the symbol, in which `*` stands for what depends on versions and features: the disambiguators of crates, and
/// the numbers that LLVM appends to copies. Returns nothing for symbols of other languages, whose functions have no sections of their
/// own.
fn pattern(symbol: &str) -> Option<String> {
    let (name, copy) = symbol.split_once('.').map_or((symbol, ""), |(name, _)| (name, ".*"));
    let mut rest = name.strip_prefix("_R")?;
    let mut pattern = String::from("_R");
    while let Some((before, after)) = rest.split_once("Cs") {
        let end = after.find('_').unwrap_or_default();
        let (disambiguator, after) = after.split_at(end);
        let is_disambiguator = !disambiguator.is_empty() && disambiguator.bytes().all(|it| it.is_ascii_alphanumeric());
        pattern.push_str(before);
        pattern.push_str("Cs");
        pattern.push_str(if is_disambiguator { "*" } else { disambiguator });
        rest = after;
    }
    Some(pattern + rest + copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_any_version_of_a_crate() {
        let symbol = "_RNvMNtCsa9_4http7requestINtB2_7RequestNtNtCsjJ2Vr_5hyper4body8IncomingE3newCs1_7skydock";
        let expected = "_RNvMNtCs*_4http7requestINtB2_7RequestNtNtCs*_5hyper4body8IncomingE3newCs*_7skydock";
        assert_eq!(pattern(symbol).as_deref(), Some(expected));
        assert_eq!(pattern("_RNvC7skydock4main.llvm.17").as_deref(), Some("_RNvC7skydock4main.*"));
        assert_eq!(pattern("_RNvC7skydock2Cs").as_deref(), Some("_RNvC7skydock2Cs"));
        assert_eq!(pattern("ring_core_0_17_14__aes_hw_encrypt"), None);
    }
}
