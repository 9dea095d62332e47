//! The languages, and how the project of each becomes the example.

use clap::ValueEnum;

/// A language with an SDK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    #[default]
    Rust,
    Go,
    C,
    #[value(name = "typescript")]
    TypeScript,
    Python,
}

/// What is different in a project of the language.
pub(crate) struct Traits {
    /// As in `--lang`.
    pub(crate) name: &'static str,
    /// The name in the table.
    pub(crate) title: &'static str,
    /// The folder of the SDK, in the repository.
    pub(crate) sdk: &'static str,
    /// The folder of the example, in the repository.
    pub(crate) example: &'static str,
    /// Files and folders of the project that the example replaces.
    pub(crate) replaced: &'static [&'static str],
    /// Files and folders of the example that are copied.
    pub(crate) copied: &'static [&'static str],
    /// In the file, the first text is replaced with the second: the developer changes the version.
    pub(crate) change: (&'static str, &'static str, &'static str),
}

impl Language {
    pub(crate) const ALL: [Self; 5] = [
        Self::Rust,
        Self::C,
        Self::Go,
        Self::TypeScript,
        Self::Python,
    ];

    pub(crate) const fn traits(self) -> Traits {
        match self {
            Self::Rust => Traits {
                name: "rust",
                title: "Rust",
                sdk: "sdk/rust",
                example: "plugins/simcloud",
                replaced: &["src"],
                copied: &["src"],
                change: (
                    "src/provider.rs",
                    "env!(\"CARGO_PKG_VERSION\")",
                    "\"0.1.1\"",
                ),
            },
            Self::Go => Traits {
                name: "go",
                title: "Go",
                sdk: "sdk/go",
                example: "sdk/go/example",
                replaced: &["main.go", "main_test.go"],
                copied: &[
                    "client.go",
                    "config.go",
                    "instances.go",
                    "loadbalancers.go",
                    "main.go",
                    "routes.go",
                ],
                change: ("main.go", "\"0.1.0-go\"", "\"0.1.1-go\""),
            },
            Self::Python => Traits {
                name: "python",
                title: "Python",
                sdk: "sdk/python",
                example: "sdk/python/example",
                replaced: &["provider.py", "tests"],
                copied: &["simcloud", "pyproject.toml"],
                change: (
                    "simcloud/__init__.py",
                    "\"0.1.0-python\"",
                    "\"0.1.1-python\"",
                ),
            },
            Self::TypeScript => Traits {
                name: "typescript",
                title: "TypeScript",
                sdk: "sdk/typescript",
                example: "sdk/typescript/example",
                replaced: &["src", "test"],
                copied: &["src"],
                change: ("src/index.ts", "\"0.1.0\"", "\"0.1.1\""),
            },
            Self::C => Traits {
                name: "c",
                title: "C",
                sdk: "sdk/c",
                example: "sdk/c/example",
                replaced: &["plugin.c", "plugin_test.c"],
                copied: &[
                    "cloud.c",
                    "instances.c",
                    "load_balancers.c",
                    "plugin.c",
                    "routes.c",
                    "simcloud.h",
                ],
                change: ("plugin.c", "\"0.1.0-c\"", "\"0.1.1-c\""),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn all_files_of_the_examples_and_templates_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        for language in Language::ALL {
            let traits = language.traits();
            for file in traits.copied {
                assert!(root.join(traits.example).join(file).exists(), "{file}");
            }
            for file in traits.replaced {
                assert!(
                    root.join(traits.sdk).join("template").join(file).exists(),
                    "{file}"
                );
            }
            let (file, from, _) = traits.change;
            let text = fs::read_to_string(root.join(traits.example).join(file)).unwrap();
            assert_eq!(text.matches(from).count(), 1, "{file}");
        }
    }
}
