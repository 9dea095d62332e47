//! Clang for WebAssembly: that of the machine with its packages, or that of a WASI SDK.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::ensure;

use crate::build::tool::Tool;

const CLANG: Tool = Tool {
    name: "clang",
    install: INSTALL,
};
const LINKER: Tool = Tool {
    name: "wasm-ld",
    install: INSTALL,
};

const INSTALL: &str = "apt-get install clang lld wasi-libc libclang-rt-dev-wasm32, or set WASI_SDK_PATH to a WASI SDK from \
                       https://github.com/WebAssembly/wasi-sdk/releases";

/// Bytes of the stack, below everything else, so that a program that exceeds it ends.
const STACK: u32 = 256 << 10;

/// A compiler that is complete.
pub(super) struct Compiler {
    clang: PathBuf,
    target: &'static str,
}

impl Compiler {
    /// Returns the compiler of the WASI SDK in this folder, or that of the machine.
    ///
    /// # Errors
    /// If it, its linker or a library is missing.
    pub(super) fn find(wasi_sdk: Option<&Path>) -> anyhow::Result<Self> {
        let compiler = match wasi_sdk {
            Some(folder) => Self {
                clang: folder.join("bin/clang"),
                target: "--target=wasm32-wasip1",
            },
            None => Self {
                clang: "clang".into(),
                target: "--target=wasm32-wasi",
            },
        };

        let file = |words: &[&str]| {
            Ok::<_, anyhow::Error>(PathBuf::from(
                CLANG.ask(compiler.command().args(words))?.trim_end(),
            ))
        };

        // Clang prints only the name of a program that it does not find.
        ensure!(
            file(&["-print-prog-name=wasm-ld"])?.is_absolute(),
            LINKER.absent()
        );

        for (words, library) in [
            (
                &["-print-file-name=libc.a"][..],
                "the C library for WebAssembly (wasi-libc)",
            ),
            (
                &["--rtlib=compiler-rt", "-print-libgcc-file-name"],
                "clang's library for WebAssembly (libclang-rt)",
            ),
        ] {
            ensure!(file(words)?.is_file(), "{library} is missing: {INSTALL}");
        }
        Ok(compiler)
    }

    fn command(&self) -> Command {
        let mut clang = Command::new(&self.clang);
        clang.arg(self.target);
        clang
    }

    /// Compiles a file. Warnings are shown.
    ///
    /// # Errors
    /// If it does not compile.
    pub(super) fn compile(
        &self,
        source: &Path,
        object: &Path,
        words: &[&str],
        include: &[&Path],
    ) -> anyhow::Result<()> {
        let mut clang = self.command();
        clang.args(["-std=gnu11", "-Oz", "-c"]).args(words);
        for folder in include {
            // An empty path is the current folder.
            clang.arg("-I").arg(Path::new(".").join(folder));
        }
        CLANG.run(clang.arg("-o").arg(object).arg(source))
    }

    /// Links a library without `main`, with everything that it exports and nothing that is not
    /// used.
    ///
    /// # Errors
    /// If a function is missing.
    pub(super) fn link(&self, objects: &[PathBuf], core: &Path) -> anyhow::Result<()> {
        let mut clang = self.command();
        clang.args([
            "-mexec-model=reactor",
            "-Wl,--gc-sections,--strip-all,--stack-first",
        ]);
        clang.arg(format!("-Wl,-z,stack-size={STACK}"));
        CLANG.run(clang.args(objects).arg("-o").arg(core))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_compiler_is_reported_in_one_line() {
        let error = Compiler::find(Some(Path::new("/no/such/folder")))
            .err()
            .unwrap();
        let message = format!("{error:#}");

        assert!(
            message.starts_with(
                "the program `clang` is missing: apt-get install clang lld wasi-libc "
            ),
            "{message}"
        );
        assert!(
            message.ends_with("/wasi-sdk/releases") && !message.contains('\n'),
            "{message}"
        );
    }
}
