//! Where a compiler for `wasm32-wasip2` comes from.
//!
//! Most machines have a rustup that downloads the target. Where rustup cannot download, Debian's packages of Rust carry the
//! sources of the standard library, and cargo can build it from those. `SKYDOCK_GUESTS=rustup` or `=debian` insists on one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::shown;
use crate::command::succeeds_within;
use crate::console;

/// What guests are compiled for.
const TARGET: &str = "wasm32-wasip2";

/// Debian's compiler, the sources of its standard library, its linker and its C library for WebAssembly.
const PACKAGES: [&str; 5] = ["rustc-web", "cargo-web", "rust-web-src", "lld-19", "wasi-libc"];

/// What those packages bring and this needs.
const FILES: [&str; 4] = [
    "/usr/bin/cargo",
    "/usr/bin/rustc",
    "/usr/lib/rustlib/src/rust/library/std/Cargo.toml",
    "/usr/lib/wasm32-wasi/libc.a",
];

/// Variable that insists on one way.
const CHOICE: &str = "SKYDOCK_GUESTS";

/// The target is 20 MB; a rustup that has not got it by then has no way out.
const RUSTUP_LIMIT: Duration = Duration::from_secs(120);

/// Some 200 MB of packages.
const APT_LIMIT: Duration = Duration::from_secs(600);

/// A way to compile guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The toolchain of the repository, with its target.
    Rustup,
    /// Debian's compiler, which builds the standard library too.
    Debian,
}

/// What can be seen on, and done to, this machine.
trait Machine {
    /// Whether this way is ready.
    fn has(&self, way: Way) -> bool;
    /// Tries to make it ready.
    fn install(&self, way: Way);
}

/// The first way that is ready, else the first that can be made ready, of those that are wanted.
fn choose(machine: &impl Machine, wanted: &[Way]) -> Option<Way> {
    let ready = wanted.iter().find(|way| machine.has(**way));
    let made_ready = || {
        wanted.iter().find(|way| {
            machine.install(**way);
            machine.has(**way)
        })
    };
    ready.or_else(made_ready).copied()
}

/// Which ways the value of the variable leaves.
fn wanted(choice: Option<&str>) -> Result<&'static [Way]> {
    match choice {
        None | Some("") => Ok(&[Way::Rustup, Way::Debian]),
        Some("rustup") => Ok(&[Way::Rustup]),
        Some("debian") => Ok(&[Way::Debian]),
        Some(other) => bail!("{CHOICE}={other}: expected `rustup` or `debian`"),
    }
}

/// A `cargo build` for guests, in the root of the workspace; the caller says what to build.
///
/// # Errors
/// If there is no way to compile for WebAssembly here; says what to install.
pub(super) fn find(root: &Path) -> Result<Command> {
    let toolchain = Toolchain::of(root)?;
    let choice = std::env::var(CHOICE).ok();
    match choose(&toolchain, wanted(choice.as_deref())?) {
        Some(Way::Rustup) => {
            let mut cargo = crate::cargo(root);
            cargo.args(["build", "--target", TARGET]);
            Ok(cargo)
        }
        Some(Way::Debian) => debian(root, &toolchain),
        None => bail!(
            "there is no compiler for {TARGET}; install one with `rustup target add {TARGET}`, or on Debian with `apt-get \
             install {}`",
            PACKAGES.join(" ")
        ),
    }
}

/// Debian's cargo, which builds the standard library from its sources and links with our toolchain's component linker.
fn debian(root: &Path, toolchain: &Toolchain) -> Result<Command> {
    let tools = toolchain.sysroot.join("lib/rustlib").join(&toolchain.host).join("bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(tools.clone()).chain(std::env::split_paths(&path)))
        .context("PATH cannot be extended")?;
    let mut cargo = Command::new("/usr/bin/cargo");
    cargo
        .current_dir(root)
        .env("PATH", path)
        .env("RUSTC", "/usr/bin/rustc")
        // The standard library is built with unstable features, and `-Z` is one.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_WASM32_WASIP2_LINKER", tools.join("wasm-component-ld"))
        .env("CARGO_TARGET_WASM32_WASIP2_RUSTFLAGS", "-L native=/usr/lib/wasm32-wasi")
        .args(["build", "-Zbuild-std=std,panic_abort", "--target", TARGET]);
    Ok(cargo)
}

/// The toolchain that `rust-toolchain.toml` names.
struct Toolchain {
    sysroot: PathBuf,
    /// Such as `x86_64-unknown-linux-gnu`.
    host: String,
    root: PathBuf,
}

impl Toolchain {
    fn of(root: &Path) -> Result<Self> {
        let sysroot = rustc(root, &["--print", "sysroot"])?.into();
        let host = rustc(root, &["--print", "host-tuple"])?;
        Ok(Self { sysroot, host, root: root.into() })
    }
}

impl Machine for Toolchain {
    fn has(&self, way: Way) -> bool {
        match way {
            Way::Rustup => self.sysroot.join("lib/rustlib").join(TARGET).join("lib").is_dir(),
            Way::Debian => FILES.iter().all(|file| Path::new(file).exists()),
        }
    }

    fn install(&self, way: Way) {
        let (program, args, limit) = match way {
            Way::Rustup => ("rustup", vec!["target", "add", TARGET], RUSTUP_LIMIT),
            Way::Debian => {
                let args = ["install", "--yes", "--no-install-recommends"];
                ("apt-get", args.into_iter().chain(PACKAGES).collect(), APT_LIMIT)
            }
        };
        let mut command = Command::new(program);
        command.args(args).current_dir(&self.root).env("DEBIAN_FRONTEND", "noninteractive");
        console::note(format_args!("no compiler for {TARGET} yet: trying {}", shown(&command)));
        if !succeeds_within(&mut command, limit) {
            console::note(format_args!("that did not work: {}", shown(&command)));
        }
    }
}

fn rustc(root: &Path, args: &[&str]) -> Result<String> {
    let output = Command::new("rustc").args(args).current_dir(root).output().context("cannot start rustc")?;
    if !output.status.success() {
        bail!("rustc {} failed: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// What is there, what can be installed, and what was tried.
    struct Fake<'a> {
        there: &'a [Way],
        installable: &'a [Way],
        tried: RefCell<Vec<Way>>,
    }

    impl Machine for Fake<'_> {
        fn has(&self, way: Way) -> bool {
            self.there.contains(&way) || (self.tried.borrow().contains(&way) && self.installable.contains(&way))
        }

        fn install(&self, way: Way) {
            self.tried.borrow_mut().push(way);
        }
    }

    #[test]
    fn what_is_there_is_taken_before_anything_is_installed_and_rustup_comes_first() {
        use Way::{Debian, Rustup};
        type Ways<'a> = &'a [Way];
        let both: Ways<'_> = &[Rustup, Debian];
        let cases: [(Ways<'_>, Ways<'_>, Ways<'_>, Option<Way>, Ways<'_>); 7] = [
            (both, &[], both, Some(Rustup), &[]),
            (&[Debian], both, both, Some(Debian), &[]),
            (&[], both, both, Some(Rustup), &[Rustup]),
            (&[], &[Debian], both, Some(Debian), &[Rustup, Debian]),
            (&[], &[], both, None, &[Rustup, Debian]),
            (both, &[], &[Debian], Some(Debian), &[]),
            (&[Debian], &[], &[Rustup], None, &[Rustup]),
        ];
        for (there, installable, wanted, chosen, tried) in cases {
            let machine = Fake { there, installable, tried: RefCell::default() };
            assert_eq!(choose(&machine, wanted), chosen, "there {there:?}, installable {installable:?}");
            assert_eq!(*machine.tried.borrow(), tried, "there {there:?}, installable {installable:?}");
        }
    }

    #[test]
    fn a_choice_that_is_none_is_refused() {
        assert_eq!(wanted(None).unwrap(), [Way::Rustup, Way::Debian]);
        assert_eq!(wanted(Some("debian")).unwrap(), [Way::Debian]);
        assert_eq!(wanted(Some("nix")).unwrap_err().to_string(), "SKYDOCK_GUESTS=nix: expected `rustup` or `debian`");
    }
}
