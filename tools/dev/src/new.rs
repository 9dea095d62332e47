//! `skydock plugin new`: creates a provider from a template of an SDK, which tests compile.

mod c;
mod go;
mod language;
mod name;
mod python;
mod rust;
mod sdk;
mod typescript;

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail, ensure};
use clap::Parser;

use self::{language::Language, name::ProviderName};

/// A file of a template, and its text.
type File = (&'static str, &'static str);

/// Create a provider: a project with a unit test, in a folder with its name.
#[derive(Debug, Parser)]
#[command(
    name = "skydock-dev",
    bin_name = "skydock plugin new",
    version,
    max_term_width = 120
)]
pub(crate) struct NewArgs {
    /// Name of the provider, for example my-cloud: of its crate and folder, and the prefix of its
    /// provider IDs.
    pub(crate) name: ProviderName,
    /// Language of the provider.
    #[arg(long, value_enum, default_value = "rust", value_name = "LANGUAGE")]
    pub(crate) lang: Language,
    /// Folder of the SDK in a checkout of Skydock, for example ../skydock/sdk/rust. Required for
    /// all languages except C, because the SDK is not published. For C, the files of the SDK are
    /// copied into the provider.
    #[arg(long, value_name = "DIR")]
    pub(crate) sdk_path: Option<PathBuf>,
}

/// Creates the folder in the current directory.
///
/// # Errors
/// If the folder contains something, if --sdk-path is missing or not the SDK, or if a file cannot
/// be written.
pub(crate) fn run(args: &NewArgs) -> anyhow::Result<()> {
    let name = args.name.as_str();
    if let Some(example) = args.lang.unpublished().filter(|_| args.sdk_path.is_none()) {
        bail!(
            "--sdk-path is missing: the SDK is not published; expected its folder in a checkout of Skydock, for example {example}"
        );
    }

    let files = args.lang.files(&args.name, args.sdk_path.as_deref())?;
    let folder = Path::new(name);
    ensure!(
        is_free(folder)?,
        "{name} exists and is not empty: choose another name, or delete it"
    );

    for (file, text) in files {
        let path = folder.join(file);
        path.parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&path, text))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }

    // Standard output may be closed.
    let _ = io::stdout().write_all(next_steps(&args.name).as_bytes());
    Ok(())
}

/// Returns true if nothing would be overwritten in the folder.
fn is_free(folder: &Path) -> anyhow::Result<bool> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => {
            Err(error).with_context(|| format!("cannot use {} as a folder", folder.display()))
        }
    }
}

/// Returns what to say to the developer.
fn next_steps(name: &ProviderName) -> String {
    format!(
        "created {name}, a provider; build it and run it in a development cluster:\n\n  \
         cd {name}\n  \
         skydock plugin build\n  \
         skydock dev --plugin {name}.wasm\n",
        name = name.as_str(),
    )
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    fn name(text: &str) -> ProviderName {
        text.parse().unwrap()
    }

    #[test]
    fn the_names_of_the_template_are_replaced() {
        for language in Language::value_variants() {
            for (file, text) in language.files(&name("big-metal"), None).unwrap() {
                assert!(
                    !text.contains("my-cloud") && !text.contains("my_cloud"),
                    "{file}: {text}"
                );
                // The SDK for C is part of the project.
                let local = ["path =", "replace ", "file:"];
                assert!(
                    file.starts_with("skydock/") || !local.iter().any(|it| text.contains(it)),
                    "{file}: {text}"
                );
            }
        }
        let files = Language::Rust.files(&name("big-metal"), None).unwrap();
        let [_, (_, manifest), _, (_, code)] = files.as_slice() else {
            panic!("{files:?}")
        };
        for (text, expected) in [
            (manifest, "name = \"big-metal\""),
            (code, "vec![\"big-metal://\".into()]"),
            (code, "\"big-metal.example/rack\""),
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }

    #[test]
    fn a_name_that_anyone_may_register_is_not_a_dependency() {
        for language in Language::value_variants() {
            let args = NewArgs {
                name: name("no-such-folder"),
                lang: *language,
                sdk_path: None,
            };
            match language.unpublished() {
                None => assert_eq!(*language, Language::C),
                Some(example) => {
                    let error = run(&args).unwrap_err().to_string();
                    let expected = "--sdk-path is missing: the SDK is not published; expected its folder in a checkout of Skydock";
                    assert_eq!(error, format!("{expected}, for example {example}"));
                    let sdk = Path::new("../..").join(example.trim_start_matches("../skydock/"));
                    assert!(language.files(&args.name, Some(&sdk)).is_ok(), "{example}");
                }
            }
        }
        assert!(!Path::new("no-such-folder").exists());
    }

    #[test]
    fn nothing_that_exists_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("my-cloud");
        assert!(is_free(&folder).unwrap());

        fs::create_dir(&folder).unwrap();
        assert!(is_free(&folder).unwrap());
        fs::write(folder.join(".git"), "").unwrap();
        assert!(!is_free(&folder).unwrap());

        let error = is_free(&folder.join(".git")).unwrap_err().to_string();
        assert!(
            error.starts_with("cannot use ") && error.ends_with(".git as a folder"),
            "{error}"
        );
    }

    #[test]
    fn the_next_steps_are_three_lines() {
        let text = next_steps(&name("big-metal"));
        let steps: Vec<_> = text.lines().skip(2).collect();
        assert_eq!(steps.len(), 3, "{text}");
        assert!(
            steps[2].ends_with("skydock dev --plugin big-metal.wasm"),
            "{text}"
        );
    }
}
