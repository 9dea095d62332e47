//! The templates, one for each language.

use std::{fs, path::Path};

use anyhow::{Context as _, bail};
use clap::ValueEnum;

use super::{c, name::ProviderName};

/// A language, or a kind of project in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    /// A crate.
    Rust,
    /// A Go module.
    Go,
    /// A Go module that serves an existing provider for k8s.io/cloud-provider: that for OpenStack, to be replaced.
    GoProvider,
    /// A folder with C files and the SDK.
    C,
}

/// A file of a template, and its text.
type File = (&'static str, &'static str);

/// The template for Rust. It uses the names `my-cloud` and `my_cloud`.
const RUST: [File; 4] = [
    (".gitignore", include_str!("../../../../sdk/rust/template/.gitignore")),
    ("Cargo.toml", include_str!("../../../../sdk/rust/template/Cargo.toml")),
    ("README.md", include_str!("../../../../sdk/rust/template/README.md")),
    ("src/lib.rs", include_str!("../../../../sdk/rust/template/src/lib.rs")),
];

/// The template for Go. It uses the name `my-cloud`.
const GO: [File; 4] = [
    (".gitignore", include_str!("../../../../sdk/go/template/.gitignore")),
    ("go.mod", include_str!("../../../../sdk/go/template/go.mod")),
    ("main.go", include_str!("../../../../sdk/go/template/main.go")),
    ("main_test.go", include_str!("../../../../sdk/go/template/main_test.go")),
];

/// The template for existing providers.
const GO_PROVIDER: [File; 9] = [
    (".gitignore", include_str!("../../../../plugins/go/.gitignore")),
    ("go.mod", include_str!("../../../../plugins/go/openstack/go.mod")),
    ("go.sum", include_str!("../../../../plugins/go/openstack/go.sum")),
    ("main.go", include_str!("../../../../plugins/go/openstack/main.go")),
    ("main_test.go", include_str!("../../../../plugins/go/openstack/main_test.go")),
    ("port/modules", include_str!("../../../../plugins/go/openstack/port/modules")),
    ("port/walk.diff", include_str!("../../../../plugins/go/openstack/port/walk.diff")),
    ("port/mount-utils.diff", include_str!("../../../../plugins/go/openstack/port/mount-utils.diff")),
    (
        "port/cloud-provider-openstack.diff",
        include_str!("../../../../plugins/go/openstack/port/cloud-provider-openstack.diff"),
    ),
];

/// The dependency on the SDK in the template for Rust, which is a folder of the SDK.
const RUST_SDK: &str = r#"skydock-sdk = { path = ".." }"#;

impl Language {
    /// Returns the files of a provider.
    ///
    /// # Errors
    /// If `sdk` is not the SDK of the language.
    pub(super) fn files(self, name: &ProviderName, sdk: Option<&Path>) -> anyhow::Result<Vec<(&'static str, String)>> {
        let names = |text: &str| text.replace("my-cloud", name.as_str()).replace("my_cloud", &name.library());
        Ok(match self {
            Self::C => {
                let sdk = sdk.map(|sdk| self.checked(sdk)).transpose()?;
                c::files(name, sdk.as_deref().map(Path::new))?
            }
            Self::Rust => {
                let sdk = self.rust_dependency(sdk)?;
                RUST.map(|(file, text)| (file, names(&text.replace(RUST_SDK, &sdk)))).to_vec()
            }
            Self::Go => {
                let sdk = sdk.map(|sdk| self.checked(sdk)).transpose()?;
                GO.map(|(file, text)| (file, names(&replaced(file, text, "..", sdk.as_deref())))).to_vec()
            }
            Self::GoProvider => {
                let sdk = sdk.map(|sdk| self.checked(sdk)).transpose()?;
                let own = format!("module example.com/{}", name.as_str());
                let text = |file, text: &str| replaced(file, text, "../../../sdk/go", sdk.as_deref());
                let module = "module github.com/skydock/skydock/plugins/go/openstack";
                GO_PROVIDER.map(|(file, it)| (file, text(file, it).replace(module, &own))).to_vec()
            }
        })
    }

    /// Returns the line of Cargo.toml with the SDK.
    pub(super) fn rust_dependency(self, sdk: Option<&Path>) -> anyhow::Result<String> {
        match sdk {
            Some(sdk) => Ok(format!("skydock-sdk = {{ path = '{}' }}", self.checked(sdk)?)),
            None => Ok(format!("skydock-sdk = \"={}\"", env!("CARGO_PKG_VERSION"))),
        }
    }

    /// Returns the absolute path of the SDK: the project may be moved, and the path may be relative to the current directory.
    fn checked(self, sdk: &Path) -> anyhow::Result<String> {
        let (manifest, line, example) = match self {
            Self::C => ("skydock/skydock.h", "#define SKYDOCK_H", "../skydock/sdk/c"),
            Self::Rust => ("Cargo.toml", r#"name = "skydock-sdk""#, "../skydock/sdk/rust"),
            Self::Go | Self::GoProvider => ("go.mod", "module github.com/skydock/skydock/sdk/go", "../skydock/sdk/go"),
        };
        let text = fs::read_to_string(sdk.join(manifest));
        if !text.is_ok_and(|text| text.lines().any(|other| other == line)) {
            bail!("--sdk-path: {} is not the SDK; expected for example {example}", sdk.display());
        }
        let path = fs::canonicalize(sdk).with_context(|| format!("cannot read {}", sdk.display()))?;
        match path.to_str().filter(|path| !path.contains(['\'', '"', '\n'])) {
            Some(path) => Ok(path.to_owned()),
            None => bail!(
                "--sdk-path: {} contains a quote or a line break, which {manifest} cannot represent: move the checkout",
                path.display()
            ),
        }
    }
}

/// Returns a file of a Go module that uses the SDK in this folder, or the published one.
fn replaced(file: &str, text: &str, template: &str, sdk: Option<&str>) -> String {
    if file != "go.mod" {
        return text.to_owned();
    }
    let lines = text.lines().filter_map(|line| match line.split_once(" => ") {
        None => Some(line.to_owned()),
        Some((start, path)) => {
            let rest = path.strip_prefix(template).unwrap_or_default();
            sdk.map(|sdk| format!("{start} => \"{sdk}{rest}\""))
        }
    });
    lines.map(|line| line + "\n").collect()
}
