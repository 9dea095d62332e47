//! `skydock plugin new`: creates a provider from the template of the SDK, which is a crate that tests compile.

mod name;

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail, ensure};
use clap::Parser;

use self::name::ProviderName;

/// Create a provider: a crate with one capability and a unit test, in a folder with its name.
#[derive(Debug, Parser)]
#[command(name = "skydock-dev", bin_name = "skydock plugin new", version, max_term_width = 120)]
pub(crate) struct NewArgs {
    /// Name of the provider, for example my-cloud: of its crate and folder, and the prefix of its provider IDs.
    pub(crate) name: ProviderName,
    /// Folder of the SDK in a checkout of Skydock, for example ../skydock/sdk/rust. By default, the crate depends on the published SDK
    /// with the version of this program.
    #[arg(long, value_name = "DIR")]
    pub(crate) sdk_path: Option<PathBuf>,
}

/// The files of the template. They use the names `my-cloud` and `my_cloud`.
const TEMPLATE: [(&str, &str); 4] = [
    (".gitignore", include_str!("../../../sdk/rust/template/.gitignore")),
    ("Cargo.toml", include_str!("../../../sdk/rust/template/Cargo.toml")),
    ("README.md", include_str!("../../../sdk/rust/template/README.md")),
    ("src/lib.rs", include_str!("../../../sdk/rust/template/src/lib.rs")),
];

/// The dependency on the SDK in the template, which is a folder of the SDK.
const TEMPLATE_SDK: &str = r#"skydock-sdk = { path = ".." }"#;

/// Creates the folder in the current directory.
///
/// # Errors
/// If the folder contains something, if --sdk-path is not the SDK, or if a file cannot be written.
pub(crate) fn run(args: &NewArgs) -> anyhow::Result<()> {
    let name = args.name.as_str();
    let sdk = dependency(args.sdk_path.as_deref())?;
    let folder = Path::new(name);
    ensure!(is_free(folder)?, "{name} exists and is not empty: choose another name, or delete it");
    for (file, text) in TEMPLATE {
        let path = folder.join(file);
        path.parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&path, filled(text, &args.name, &sdk)))
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
        Err(error) => Err(error).with_context(|| format!("cannot use {} as a folder", folder.display())),
    }
}

/// Returns the line of Cargo.toml with the SDK.
fn dependency(sdk: Option<&Path>) -> anyhow::Result<String> {
    let Some(sdk) = sdk else { return Ok(format!("skydock-sdk = \"={}\"", env!("CARGO_PKG_VERSION"))) };
    let manifest = fs::read_to_string(sdk.join("Cargo.toml"));
    if !manifest.is_ok_and(|manifest| manifest.lines().any(|line| line == r#"name = "skydock-sdk""#)) {
        bail!("--sdk-path: {} is not the SDK; expected for example ../skydock/sdk/rust", sdk.display());
    }
    // The crate may be moved, and the path may be relative to the current directory.
    let path = fs::canonicalize(sdk).with_context(|| format!("cannot read {}", sdk.display()))?;
    match path.to_str().filter(|path| !path.contains(['\'', '\n'])) {
        Some(path) => Ok(format!("skydock-sdk = {{ path = '{path}' }}")),
        None => bail!(
            "--sdk-path: {} contains a quote or a line break, which Cargo.toml cannot represent: move the checkout",
            path.display()
        ),
    }
}

/// Returns a file of the template with the names of the provider.
fn filled(text: &str, name: &ProviderName, sdk: &str) -> String {
    text.replace(TEMPLATE_SDK, sdk).replace("my-cloud", name.as_str()).replace("my_cloud", &name.library())
}

/// Returns what to say to the developer.
fn next_steps(name: &ProviderName) -> String {
    format!(
        "created {name}, a provider with instances; build it and run it in a development cluster:\n\n  \
         cd {name} && rustup target add wasm32-wasip2\n  \
         cargo build --release --target wasm32-wasip2\n  \
         skydock dev --plugin target/wasm32-wasip2/release/{}.wasm\n",
        name.library(),
        name = name.as_str(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ProviderName {
        text.parse().unwrap()
    }

    #[test]
    fn the_names_of_the_template_are_replaced() {
        let sdk = dependency(None).unwrap();
        let files = TEMPLATE.map(|(file, text)| (file, filled(text, &name("big-metal"), &sdk)));
        for (file, text) in &files {
            assert!(!text.contains("my-cloud") && !text.contains("my_cloud"), "{file}: {text}");
        }
        let [_, (_, manifest), (_, readme), (_, code)] = &files;
        for (text, expected) in [
            (manifest, "name = \"big-metal\""),
            (readme, "release/big_metal.wasm"),
            (code, "vec![\"big-metal://\".into()]"),
            (code, "\"big-metal.example/rack\""),
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }

    #[test]
    fn the_sdk_has_the_version_of_this_program() {
        let sdk = dependency(None).unwrap();
        assert_eq!(sdk, format!("skydock-sdk = \"={}\"", env!("CARGO_PKG_VERSION")));
        let manifest = filled(TEMPLATE[1].1, &name("a"), &sdk);
        assert!(manifest.contains(&sdk) && !manifest.contains("path ="), "{manifest}");
    }

    #[test]
    fn the_sdk_of_a_checkout_has_an_absolute_path() {
        let sdk = dependency(Some(Path::new("../../sdk/rust"))).unwrap();
        let path = sdk.strip_prefix("skydock-sdk = { path = '").unwrap().strip_suffix("' }").unwrap();
        assert!(Path::new(path).is_absolute() && Path::new(path).ends_with("sdk/rust"), "{sdk}");
    }

    #[test]
    fn a_folder_that_is_not_the_sdk_is_rejected() {
        for folder in ["../..", "no/such/folder"] {
            let error = dependency(Some(Path::new(folder))).unwrap_err().to_string();
            let words = "is not the SDK; expected for example ../skydock/sdk/rust";
            assert_eq!(error, format!("--sdk-path: {folder} {words}"));
        }
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
        assert!(error.starts_with("cannot use ") && error.ends_with(".git as a folder"), "{error}");
    }

    #[test]
    fn the_next_steps_are_three_lines() {
        let told = next_steps(&name("big-metal"));
        let steps: Vec<_> = told.lines().skip(2).collect();
        assert_eq!(steps.len(), 3, "{told}");
        assert!(steps[2].ends_with("skydock dev --plugin target/wasm32-wasip2/release/big_metal.wasm"), "{told}");
    }
}
