//! `skydock plugin build`: builds a plugin with the tools of its language.

mod c;
mod cache;
mod component;
mod go;
mod inputs;
mod lock;
mod python;
mod rust;
mod tool;
mod typescript;
mod wit;

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use clap::Parser;
use skydock_sandbox::{ComponentType, Limits, LoadError};

/// Build the plugin of a project with the tools of its language, which is recognized by its files:
/// Cargo.toml for Rust, go.mod for Go, pyproject.toml for Python, package.json for TypeScript,
/// plugin.c for C. What `plugin.json` in the folder says about the plugin becomes part of it, for
/// `skydock plugin inspect`; in Rust, `skydock_sdk::metadata!` does that.
#[derive(Debug, Parser)]
#[command(
    name = "skydock-dev",
    bin_name = "skydock plugin build",
    version,
    max_term_width = 120
)]
pub(crate) struct BuildArgs {
    /// Folder of the project.
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// File for the plugin [default: NAME.wasm in the folder of the project].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// What is written during a build, in the folder of the project. Tools ignore folders that start
/// with a dot.
const WORK: &str = ".skydock/build";

/// A language that plugins are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    Rust,
    Go,
    Python,
    TypeScript,
    C,
}

/// A component that the tools of a language have built.
#[derive(Debug)]
struct Built {
    /// Name of the project.
    name: String,
    /// The file, in a folder of the tools.
    file: PathBuf,
}

impl Language {
    /// All of them, with the file that shows which it is.
    const ALL: &'static [(Self, &str)] = &[
        (Self::Rust, "Cargo.toml"),
        (Self::Go, "go.mod"),
        (Self::Python, "pyproject.toml"),
        (Self::TypeScript, "package.json"),
        (Self::C, "plugin.c"),
    ];

    /// Returns the language of a project.
    ///
    /// # Errors
    /// If none is recognized, or several are.
    fn of(dir: &Path) -> anyhow::Result<Self> {
        let found: Vec<_> = Self::ALL
            .iter()
            .copied()
            .filter(|(_, file)| dir.join(file).is_file())
            .collect();

        match *found {
            [(language, _)] => Ok(language),
            [] => {
                let files: Vec<_> = Self::ALL.iter().map(|(_, file)| *file).collect();
                let files = files.join(" or ");
                bail!(
                    "{} is not the folder of a plugin: expected {files} in it",
                    dir.display()
                )
            }
            [(_, one), (_, other), ..] => {
                bail!(
                    "the language of {} is not clear: it contains {one} and {other}; keep one",
                    dir.display()
                )
            }
        }
    }

    /// Builds the plugin in a folder.
    ///
    /// # Errors
    /// If a tool is missing, or fails.
    fn build(self, dir: &Path) -> anyhow::Result<Built> {
        match self {
            Self::Rust => rust::build(dir),
            Self::Go => go::build(dir),
            Self::Python => python::build(dir),
            Self::TypeScript => typescript::build(dir),
            Self::C => c::build(dir),
        }
    }
}

/// Builds the plugin, and says where it is.
///
/// # Errors
/// If it cannot be built or written.
pub(crate) fn run(args: &BuildArgs) -> anyhow::Result<()> {
    let started = Instant::now();
    let language = Language::of(&args.dir)?;

    // cargo has a lock of its own, and writes elsewhere.
    let lock = (language != Language::Rust)
        .then(|| lock::take(&args.dir.join(WORK)))
        .transpose()?;

    let built = language.build(&args.dir)?;
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| in_folder(&args.dir, &built.name));

    let mut component =
        fs::read(&built.file).with_context(|| format!("cannot read {}", built.file.display()))?;
    component::metadata::add(&mut component, &args.dir)?;
    check(&component).with_context(|| {
        let file = built.file.display();
        format!("{file} was built, but exports no provider, as `skydock_sdk::export!` does in Rust")
    })?;
    write_if_different(&output, &component)?;
    // Held until here, since another build writes the same files.
    drop(lock);

    // Standard output may be closed.
    let _ = io::stdout().write_all(summary(&output, component.len(), started.elapsed()).as_bytes());
    Ok(())
}

/// Rejects a component without a provider, which a running cluster would reject later. The elements
/// of its tables are not limited here, because an operator can raise that limit.
///
/// # Errors
/// If it is not a component, or exports no provider.
fn check(component: &[u8]) -> Result<(), LoadError> {
    let limits = Limits {
        table_elements: usize::MAX,
        ..Limits::default()
    };
    ComponentType::read(component, &limits)?
        .capabilities()
        .map(drop)
}

/// Returns the file for a plugin in the folder of its project.
fn in_folder(dir: &Path, name: &str) -> PathBuf {
    // Without `./` in what is shown.
    let dir = if dir == Path::new(".") {
        Path::new("")
    } else {
        dir
    };
    dir.join(format!("{name}.wasm"))
}

/// Writes a file unless it has these contents, so that a running cluster reloads only what has
/// changed. It is replaced in one step.
fn write_if_different(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if fs::read(path).is_ok_and(|before| before == bytes) {
        return Ok(());
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));

    let write = || {
        let mut file = tempfile::Builder::new()
            .prefix(".skydock-")
            .tempfile_in(folder)?;
        file.write_all(bytes)?;
        // Temporary files are readable only by their owner.
        file.as_file()
            .set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
        file.persist(path).map(drop).map_err(|error| error.error)
    };

    write().with_context(|| format!("cannot write {}", path.display()))
}

/// Returns what to say to the developer.
fn summary(output: &Path, bytes: usize, took: Duration) -> String {
    format!(
        "built {}: {} KiB in {:.1} s\n",
        output.display(),
        bytes.div_ceil(1024),
        took.as_secs_f64()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_shows_the_language() {
        let dir = tempfile::tempdir().unwrap();
        let problem = |dir: &Path| {
            Language::of(dir)
                .unwrap_err()
                .to_string()
                .replace(dir.to_str().unwrap(), "DIR")
        };
        assert_eq!(
            problem(dir.path()),
            "DIR is not the folder of a plugin: expected Cargo.toml or go.mod or pyproject.toml or package.json or plugin.c in it"
        );

        fs::write(dir.path().join("go.mod"), "").unwrap();
        assert_eq!(Language::of(dir.path()).unwrap(), Language::Go);
        fs::write(dir.path().join("Cargo.toml"), "").unwrap();
        assert_eq!(
            problem(dir.path()),
            "the language of DIR is not clear: it contains Cargo.toml and go.mod; keep one"
        );
        fs::remove_file(dir.path().join("go.mod")).unwrap();
        assert_eq!(Language::of(dir.path()).unwrap(), Language::Rust);
    }

    #[test]
    fn a_component_without_a_provider_is_no_plugin() {
        let error = check(b"\0asm\x0d\0\x01\0").unwrap_err().to_string();
        assert!(
            error.contains("it does not export `skydock:provider/plugin@0.1.1`"),
            "{error}"
        );
        assert!(check(b"\0asm\x01\0\0\0").is_err(), "a module");
    }

    #[test]
    fn the_plugin_is_in_the_folder_of_its_project() {
        assert_eq!(
            in_folder(Path::new("."), "my-cloud"),
            Path::new("my-cloud.wasm")
        );
        assert_eq!(
            in_folder(Path::new("a/b"), "my-cloud"),
            Path::new("a/b/my-cloud.wasm")
        );
    }

    #[test]
    fn the_summary_is_one_line() {
        let text = summary(Path::new("a/b.wasm"), 2049, Duration::from_millis(1234));
        assert_eq!(text, "built a/b.wasm: 3 KiB in 1.2 s\n");
    }

    #[test]
    fn a_file_with_the_same_contents_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.wasm");
        write_if_different(&path, b"one").unwrap();
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        write_if_different(&path, b"one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
        write_if_different(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
    }
}
