//! The project of a provider in a folder outside the repository, and the commands of its developer.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};

use crate::{
    figures::Measured,
    language::{Language, Traits},
};

/// A project.
pub(crate) struct Project {
    skydock: PathBuf,
    traits: Traits,
    language: Language,
    folder: PathBuf,
    /// How long it took to create it.
    pub(crate) created: Duration,
}

impl Project {
    /// Creates it in the folder.
    ///
    /// # Errors
    /// If `skydock plugin new` fails.
    pub(crate) fn create(
        skydock: &Path,
        root: &Path,
        language: Language,
        dir: &Path,
    ) -> Result<Self> {
        let traits = language.traits();
        let sdk = root.join(traits.sdk);
        let mut new = Command::new(skydock);
        new.args([
            "plugin",
            "new",
            "simcloud",
            "--lang",
            traits.name,
            "--sdk-path",
        ])
        .arg(&sdk)
        .current_dir(dir);
        let (created, _) = timed(&mut new)?;
        Ok(Self {
            skydock: skydock.to_owned(),
            traits,
            language,
            folder: dir.join("simcloud"),
            created,
        })
    }

    /// Returns the file of the component.
    pub(crate) fn plugin(&self) -> PathBuf {
        self.folder.join("simcloud.wasm")
    }

    /// Builds the component. Returns how long it took.
    pub(crate) fn build(&self) -> Result<Duration> {
        Ok(timed(&mut self.skydock(["build"]))?.0)
    }

    /// Has the conformance kit check the component. Returns how long it took.
    pub(crate) fn test(&self, more: &[&str]) -> Result<Duration> {
        let mut words = vec!["test", "simcloud.wasm"];
        words.extend(more);
        Ok(timed(&mut self.skydock(words))?.0)
    }

    /// Measures the component.
    pub(crate) fn bench(&self) -> Result<Measured> {
        let words = [
            "bench",
            "simcloud.wasm",
            "--simcloud",
            "--calls",
            "200",
            "--format",
            "json",
        ];
        serde_json::from_str(&timed(&mut self.skydock(words))?.1)
            .context("the figures are not as expected")
    }

    fn skydock<W: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = W>) -> Command {
        let mut command = Command::new(&self.skydock);
        command.arg("plugin").args(words).current_dir(&self.folder);
        command
    }

    /// Replaces the provider of the template with the example.
    ///
    /// # Errors
    /// If a file cannot be copied.
    pub(crate) fn become_example(&self, root: &Path) -> Result<()> {
        for name in self.traits.replaced {
            let path = self.folder.join(name);
            let removed = if path.is_dir() {
                fs::remove_dir_all(&path)
            } else {
                fs::remove_file(&path)
            };
            removed.with_context(|| format!("cannot remove {}", path.display()))?;
        }
        for name in self.traits.copied {
            let from = root.join(self.traits.example).join(name);
            copy(&from, &self.folder.join(name))
                .with_context(|| format!("cannot copy {}", from.display()))?;
        }
        match self.language {
            Language::Python => {
                let sdk = format!("sdk = {:?}", root.join(self.traits.sdk));
                self.edit("pyproject.toml", "sdk = \"..\"", &sdk)
            }
            Language::Rust => {
                let add = |words: &[&str]| {
                    timed(
                        Command::new("cargo")
                            .arg("add")
                            .args(words)
                            .current_dir(&self.folder),
                    )
                };
                add(&["serde", "--features", "derive"])?;
                add(&["serde_json"]).map(|_| ())
            }
            _ => Ok(()),
        }
    }

    /// Makes a small change.
    ///
    /// # Errors
    /// If the file cannot be changed.
    pub(crate) fn change(&self) -> Result<()> {
        let (file, from, to) = self.traits.change;
        self.edit(file, from, to)
    }

    fn edit(&self, file: &str, from: &str, to: &str) -> Result<()> {
        let path = self.folder.join(file);
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        ensure!(text.contains(from), "{file} has no {from}");
        fs::write(&path, text.replace(from, to))
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Copies a file, or a folder without its results of builds.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if from.is_file() {
        return fs::copy(from, to).map(|_| ());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let name = entry?.file_name();
        if name != "__pycache__" {
            copy(&from.join(&name), &to.join(&name))?;
        }
    }
    Ok(())
}

/// Runs a command. Returns how long it took, and what it printed.
fn timed(command: &mut Command) -> Result<(Duration, String)> {
    let begun = Instant::now();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {command:?}"))?;
    let took = begun.elapsed();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{command:?} failed:\n{printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok((took, printed))
}
