//! Selection of a compiler for `wasm32-wasip2`.
//!
//! Usually rustup downloads the target. If rustup cannot download it, cargo can build the standard
//! library from the sources in Debian's Rust packages. `SKYDOCK_GUESTS=rustup` or `=debian` selects
//! one of them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::shown;
use crate::command::succeeds_within;
use crate::console;

/// The target of guests.
const TARGET: &str = "wasm32-wasip2";

/// Debian packages: the compiler, the sources of the standard library, the linker, and the C
/// library for WebAssembly.
const PACKAGES: [&str; 5] = [
    "rustc-web",
    "cargo-web",
    "rust-web-src",
    "lld-19",
    "wasi-libc",
];

/// Files that these packages provide.
const FILES: [&str; 4] = [
    "/usr/bin/cargo",
    "/usr/bin/rustc",
    "/usr/lib/rustlib/src/rust/library/std/Cargo.toml",
    "/usr/lib/wasm32-wasi/libc.a",
];

/// Environment variable that selects the compiler.
const CHOICE: &str = "SKYDOCK_GUESTS";

/// Timeout for the download of the target (20 MB). If it is exceeded, rustup has no network access.
const RUSTUP_LIMIT: Duration = Duration::from_secs(120);

/// Timeout for the installation of the packages (about 200 MB).
const APT_LIMIT: Duration = Duration::from_secs(600);

/// A way to compile guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The toolchain of the repository, with its target.
    Rustup,
    /// Debian's compiler, which builds the standard library too.
    Debian,
}

/// The state of this machine, and changes to it.
trait Machine {
    /// Returns true if this way is available.
    fn has(&self, way: Way) -> bool;
    /// Tries to make it available.
    fn install(&self, way: Way);
}

/// Returns the first of the wanted ways that is available, or else the first that can be installed.
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

/// Returns the ways that the value of the environment variable allows.
fn wanted(choice: Option<&str>) -> Result<&'static [Way]> {
    match choice {
        None | Some("") => Ok(&[Way::Rustup, Way::Debian]),
        Some("rustup") => Ok(&[Way::Rustup]),
        Some("debian") => Ok(&[Way::Debian]),
        Some(other) => bail!("{CHOICE}={other}: expected `rustup` or `debian`"),
    }
}

/// Returns a `cargo build` command for guests in the root of the workspace. The caller adds what to
/// build.
///
/// # Errors
/// If no compiler for WebAssembly is available. The error says what to install.
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

/// Returns the command for Debian's cargo, which builds the standard library from its sources and
/// links with the component linker of our toolchain.
fn debian(root: &Path, toolchain: &Toolchain) -> Result<Command> {
    let tools = toolchain
        .sysroot
        .join("lib/rustlib")
        .join(&toolchain.host)
        .join("bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path =
        std::env::join_paths(std::iter::once(tools.clone()).chain(std::env::split_paths(&path)))
            .context("PATH cannot be extended")?;
    let mut cargo = Command::new("/usr/bin/cargo");
    cargo
        .current_dir(root)
        .env("PATH", path)
        .env("RUSTC", "/usr/bin/rustc")
        // Building the standard library requires unstable features and the unstable flag `-Z`.
        .env("RUSTC_BOOTSTRAP", "1")
        .env(
            "CARGO_TARGET_WASM32_WASIP2_LINKER",
            tools.join("wasm-component-ld"),
        )
        .env(
            "CARGO_TARGET_WASM32_WASIP2_RUSTFLAGS",
            "-L native=/usr/lib/wasm32-wasi",
        )
        .args(["build", "-Zbuild-std=std,panic_abort", "--target", TARGET]);
    Ok(cargo)
}

/// The toolchain in `rust-toolchain.toml`.
struct Toolchain {
    sysroot: PathBuf,
    /// For example `x86_64-unknown-linux-gnu`.
    host: String,
    root: PathBuf,
}

impl Toolchain {
    fn of(root: &Path) -> Result<Self> {
        let sysroot = rustc(root, &["--print", "sysroot"])?.into();
        let host = rustc(root, &["--print", "host-tuple"])?;
        Ok(Self {
            sysroot,
            host,
            root: root.into(),
        })
    }
}

impl Machine for Toolchain {
    fn has(&self, way: Way) -> bool {
        match way {
            Way::Rustup => self
                .sysroot
                .join("lib/rustlib")
                .join(TARGET)
                .join("lib")
                .is_dir(),
            Way::Debian => FILES.iter().all(|file| Path::new(file).exists()),
        }
    }

    fn install(&self, way: Way) {
        let (program, args, limit) = match way {
            Way::Rustup => ("rustup", vec!["target", "add", TARGET], RUSTUP_LIMIT),
            Way::Debian => {
                let args = ["install", "--yes", "--no-install-recommends"];
                (
                    "apt-get",
                    args.into_iter().chain(PACKAGES).collect(),
                    APT_LIMIT,
                )
            }
        };
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(&self.root)
            .env("DEBIAN_FRONTEND", "noninteractive");
        console::note(format_args!(
            "no compiler for {TARGET} yet: trying {}",
            shown(&command)
        ));
        if !succeeds_within(&mut command, limit) {
            console::note(format_args!("that did not work: {}", shown(&command)));
        }
    }
}

fn rustc(root: &Path, args: &[&str]) -> Result<String> {
    let output = Command::new("rustc")
        .args(args)
        .current_dir(root)
        .output()
        .context("cannot start rustc")?;
    if !output.status.success() {
        bail!(
            "rustc {} failed: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// A fake machine: the ways that are available, that can be installed, and that were tried.
    struct Fake<'a> {
        there: &'a [Way],
        installable: &'a [Way],
        tried: RefCell<Vec<Way>>,
    }

    impl Machine for Fake<'_> {
        fn has(&self, way: Way) -> bool {
            self.there.contains(&way)
                || (self.tried.borrow().contains(&way) && self.installable.contains(&way))
        }

        fn install(&self, way: Way) {
            self.tried.borrow_mut().push(way);
        }
    }

    #[test]
    fn prefers_installed_toolchains_then_rustup() {
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
            let machine = Fake {
                there,
                installable,
                tried: RefCell::default(),
            };
            assert_eq!(
                choose(&machine, wanted),
                chosen,
                "there {there:?}, installable {installable:?}"
            );
            assert_eq!(
                *machine.tried.borrow(),
                tried,
                "there {there:?}, installable {installable:?}"
            );
        }
    }

    #[test]
    fn rejects_an_unknown_toolchain() {
        assert_eq!(wanted(None).unwrap(), [Way::Rustup, Way::Debian]);
        assert_eq!(wanted(Some("debian")).unwrap(), [Way::Debian]);
        assert_eq!(
            wanted(Some("nix")).unwrap_err().to_string(),
            "SKYDOCK_GUESTS=nix: expected `rustup` or `debian`"
        );
    }
}
