//! Patched copies of modules that do not compile for WASI, if the project has the patches in
//! `port/`. Each line of `port/modules` is a module and a patch. Paths in go.mod become part of the
//! program, so they are relative.

use std::{ffi::OsString, fs, io, path::Path};

use anyhow::{Context as _, ensure};

use super::{GO, Project};
use crate::build::WORK;

/// Makes the copies, and returns the flag that selects a go.mod that uses them. Without `port/`,
/// there is nothing to do.
///
/// # Errors
/// If a module cannot be downloaded, or a patch does not apply.
pub(super) fn apply(project: &Project<'_>) -> anyhow::Result<Option<OsString>> {
    let port = project.dir.join("port");
    let Ok(modules) = fs::read_to_string(port.join("modules")) else {
        return Ok(None);
    };
    let copies = project.work.join("port");
    let modfile = copies.join("go.mod");

    let prepare = || {
        // Copies of an earlier build may have other patches.
        if copies.exists() {
            fs::remove_dir_all(&copies)?;
        }
        fs::create_dir_all(&copies)?;
        fs::copy(project.dir.join("go.mod"), &modfile)?;
        fs::copy(project.dir.join("go.sum"), copies.join("go.sum")).map(drop)
    };
    prepare().with_context(|| format!("cannot write {}", copies.display()))?;

    for line in modules.lines() {
        let (module, patch) = line
            .split_once(' ')
            .context("port/modules: expected a module and a patch in each line")?;
        let name = patch
            .strip_suffix(".diff")
            .context("port/modules: expected a patch whose name ends with .diff")?;

        let original = project.module_dir(module)?;
        let copy = copies.join(name);
        copy_tree(&original, &copy)
            .with_context(|| format!("cannot copy {}", original.display()))?;

        let text = fs::read_to_string(port.join(patch))
            .with_context(|| format!("cannot read port/{patch}"))?;
        apply_patches(&copy, &text).with_context(|| format!("cannot apply port/{patch}"))?;

        // A folder in a `replace` must have a go.mod, which old modules do not have.
        let own = copy.join("go.mod");
        if !own.exists() {
            fs::write(&own, format!("module {module}\n"))
                .with_context(|| format!("cannot write {}", own.display()))?;
        }

        let replace = format!("{module}=./{WORK}/port/{name}");
        GO.run(
            project
                .go(&["mod", "edit", "-replace", &replace])
                .arg(&modfile),
        )?;
    }

    let mut flag = OsString::from("-modfile=");
    flag.push(modfile);
    Ok(Some(flag))
}

/// Copies a folder. Files of the module cache are read-only, their copies are not.
fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let source = entry.path();
        let destination = to.join(entry.file_name());

        if entry.file_type()?.is_dir() {
            copy_tree(&source, &destination)?;
        } else {
            fs::write(destination, fs::read(source)?)?;
        }
    }
    Ok(())
}

/// Applies the patches of one or several files below a folder.
fn apply_patches(folder: &Path, text: &str) -> anyhow::Result<()> {
    for patch in split(text) {
        let parsed = diffy::Patch::from_str(&patch)?;
        let name = parsed
            .modified()
            .and_then(|name| name.split_once('/'))
            .map(|(_, name)| name);
        let name = name.context("expected a line such as `+++ b/FILE`")?;

        ensure!(
            !name.split('/').any(|part| part == ".."),
            "{name} is outside the module"
        );

        let file = folder.join(name);
        // A patch may create a file.
        let before = match fs::read_to_string(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read.with_context(|| format!("cannot read {name}"))?,
        };

        let patched = diffy::apply(&before, &parsed).with_context(|| format!("{name} differs"))?;
        fs::write(&file, patched).with_context(|| format!("cannot write {name}"))?;
    }
    Ok(())
}

/// Splits a diff into those of its files.
fn split(text: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        // Only both lines start a file: a line that is removed may begin with `--- `, too.
        let is_start =
            line.starts_with("--- ") && lines.peek().is_some_and(|next| next.starts_with("+++ "));

        match out.last_mut() {
            Some(last) if !is_start => last.push_str(line),
            _ => out.push(line.to_owned()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_changes_and_adds_files() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.go"), "one\n").unwrap();
        let change = "--- a/a.go\n+++ b/a.go\n@@ -1 +1 @@\n-one\n+two\n";
        let addition = "--- a/b.go\n+++ b/b.go\n@@ -0,0 +1 @@\n+three\n";
        apply_patches(dir.path(), &format!("{change}{addition}")).unwrap();
        assert_eq!(
            fs::read_to_string(dir.path().join("a.go")).unwrap(),
            "two\n"
        );
        assert_eq!(
            fs::read_to_string(dir.path().join("b.go")).unwrap(),
            "three\n"
        );
        assert_eq!(
            format!("{}", apply_patches(dir.path(), change).unwrap_err()),
            "a.go differs"
        );
        let outside = change.replace("b/a.go", "b/../a.go");
        assert!(apply_patches(dir.path(), &outside).is_err());
    }
}
