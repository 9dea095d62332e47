//! `cargo xtask hot`: records the functions that Skydock executes, for the linker.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::{build, console};

/// The list that `host/manager/build.rs` reads.
const LIST: &str = "deploy/hot-functions.txt";

/// Builds the host with symbols, runs the benchmark of clouds with it, and writes the names of all
/// functions that were executed.
///
/// # Errors
/// If something does not build, or the benchmark does not run.
pub(crate) fn run(root: &Path) -> Result<()> {
    let folder = build::release(root, &["skydock-bench-clouds"])?;
    let recorder = build::recorder(root)?;
    let work = build::target()?.join("hot-functions");
    let (names, script, map) = (work.join("names"), work.join("skydock"), work.join("map"));
    // Names of an earlier recording are not kept.
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work).with_context(|| format!("cannot create {}", work.display()))?;
    let with_map = format!("link-arg=-Wl,-Map={}", map.display());
    // Of functions with the same code, the compiler keeps one, and which depends on the
    // disambiguators of crates. So all options but those of the last step must be those of the
    // image.
    let host = build::image(root, &["--codegen", "strip=none", "--codegen", &with_map])?;
    let paths = (recorder.display(), names.display(), host.display());
    let text = format!(
        "#!/bin/sh\nexec '{}' '{}' '{}' \"$@\"\n",
        paths.0, paths.1, paths.2
    );
    fs::write(&script, text).context("cannot write the script")?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))
        .context("cannot make the script executable")?;
    let mut benchmark = build::with_plugins(root, &folder.join("skydock-bench-clouds"), &script)?;
    let status = benchmark
        .args(["--side", "skydock", "--rest", "60s"])
        .status()
        .context("cannot start the benchmark")?;
    ensure!(status.success(), "the benchmark failed: {status}");
    let recorded = fs::read_to_string(&names).context("nothing was recorded")?;
    let map = fs::read_to_string(&map).context("the linker has written no map")?;
    let mut list: BTreeSet<_> = recorded.lines().filter_map(pattern).collect();
    list.extend(members(&map, &recorded.lines().collect()));
    ensure!(!list.is_empty(), "nothing was recorded");
    let text: String = list.iter().map(|name| format!("{name}\n")).collect();
    fs::write(root.join(LIST), text).with_context(|| format!("cannot write {LIST}"))?;
    console::note(format_args!("{} functions written to {LIST}", list.len()));
    Ok(())
}

/// Returns a pattern for the symbol, in which `*` stands for what depends on versions and features:
/// the disambiguators of crates, the back-references, which are positions after them, and the
/// numbers that LLVM appends to copies. Returns nothing for symbols of other languages, whose
/// functions have no sections of their own: see [`members`].
fn pattern(symbol: &str) -> Option<String> {
    let (name, copy) = symbol
        .split_once('.')
        .map_or((symbol, ""), |(name, _)| (name, ".*"));
    let mut rest = name.strip_prefix("_R")?;
    let mut pattern = String::from("_R");
    while let Some(at) = VARIABLE
        .iter()
        .filter_map(|tag| Some(rest.find(tag)? + tag.len()))
        .min()
    {
        let (before, after) = rest.split_at(at);
        let end = after.find('_').unwrap_or_default();
        let (number, after) = after.split_at(end);
        let is_number = !number.is_empty() && number.bytes().all(|it| it.is_ascii_alphanumeric());
        pattern.push_str(before);
        pattern.push_str(if is_number { "*" } else { number });
        rest = after;
    }
    Some(pattern + rest + copy)
}

/// What precedes a number that is not the same in each build: a disambiguator of a crate, a
/// back-reference. Where a name happens to contain it, the pattern fits more than the symbol.
const VARIABLE: [&str; 2] = ["Cs", "B"];

/// Returns the members of archives of other languages in which these functions are, by the linker's
/// map, as `ARCHIVE:MEMBER`.
fn members(map: &str, functions: &HashSet<&str>) -> BTreeSet<String> {
    let (mut members, mut current) = (BTreeSet::new(), None);
    for line in map.lines() {
        // Address, load address, size, alignment, and `FILE:(SECTION)` or a symbol in the section
        // of the line before.
        let Some(what) = line.split_whitespace().nth(4) else {
            continue;
        };
        if let Some((file, section)) = what.split_once(":(") {
            current = section.starts_with(".text").then(|| member(file)).flatten();
        } else if functions.contains(what) {
            members.extend(current.clone());
        }
    }
    members
}

/// Returns a pattern for a file such as `/usr/lib/libc.a(malloc.o)`, unless it is Rust's; in the
/// pattern `*` stands for hashes.
fn member(file: &str) -> Option<String> {
    let (archive, member) = file
        .rsplit('/')
        .next()?
        .strip_suffix(')')?
        .split_once('(')?;
    let is_hash = |part: &str| part.len() == 16 && part.bytes().all(|it| it.is_ascii_hexdigit());
    let stable = |name: &str| {
        let (name, extension) = name.rsplit_once('.').unwrap_or((name, ""));
        let parts: Vec<_> = name
            .split('-')
            .map(|part| if is_hash(part) { "*" } else { part })
            .collect();
        format!("{}.{extension}", parts.join("-"))
    };
    (!member.ends_with(".rcgu.o")).then(|| format!("{}:{}", stable(archive), stable(member)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_any_version_of_a_crate() {
        let symbol = "_RNvMNtCsa9_4http7requestINtB2_7RequestNtNtCsjJ2Vr_5hyper4body8IncomingE3newCs1_7skydock";
        let expected =
            "_RNvMNtCs*_4http7requestINtB*_7RequestNtNtCs*_5hyper4body8IncomingE3newCs*_7skydock";
        assert_eq!(pattern(symbol).as_deref(), Some(expected));
        assert_eq!(
            pattern("_RNvC7skydock4main.llvm.17").as_deref(),
            Some("_RNvC7skydock4main.*")
        );
        assert_eq!(
            pattern("_RNvC7skydock2Cs").as_deref(),
            Some("_RNvC7skydock2Cs")
        );
        assert_eq!(pattern("ring_core_0_17_14__aes_hw_encrypt"), None);
    }

    #[test]
    fn functions_of_other_languages_are_found_by_the_linkers_map() {
        let map = "\
             VMA              LMA     Size Align Out     In      Symbol
               1                1       10     1         /usr/lib/libc.a(fork.o):(.rodata)
               1                1       10     1                 fork
              95               95       56    16         /usr/lib/libc.a(malloc.o):(.text)
              95               95       15     1                 malloc
              99               99       56    16         /usr/lib/libc.a(free.o):(.text.evex)
              99               99       15     1                 free
             100              100       56    16         /a/libring-4281ec2c15e150a3.rlib(4f701d2e06800872-p256-x86_64-elf.o):(.text)
             100              100       15     1                 ring_core
             200              200       56    16         /a/libstd-4281ec2c15e150a3.rlib(std-4281ec2c15e150a3.rcgu.o):(.text)
             200              200       15     1                 memcpy
             300              300       56    16         /usr/lib/rcrt1.o:(.text)
             300              300       15     1                 _start
";
        let executed = ["fork", "malloc", "ring_core", "memcpy", "_start"].into();
        let expected = ["libc.a:malloc.o", "libring-*.rlib:*-p256-x86_64-elf.o"];
        assert!(
            members(map, &executed).iter().eq(expected.iter()),
            "{:?}",
            members(map, &executed)
        );
    }
}
