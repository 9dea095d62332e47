//! The functions of a program.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use object::{Object as _, ObjectSymbol as _, SymbolKind};

/// Functions at which a breakpoint would change what the program does: the entry point, and code
/// that is returned to or switched to instead of called. They are considered executed.
const UNTOUCHED: [&str; 3] = ["_start", "__restore_rt", "wasmtime_fiber"];

/// A program.
pub(crate) struct Program {
    /// Its absolute path, as it appears in `/proc/PID/maps`.
    pub(crate) path: PathBuf,
    /// The functions at each address of the file: those with the same code have the same address,
    /// and any of their names may be that of the section.
    pub(crate) functions: BTreeMap<u64, Vec<String>>,
    /// The functions that cannot have a breakpoint.
    pub(crate) untouched: Vec<String>,
}

impl Program {
    /// Reads the symbols of a program.
    ///
    /// # Errors
    /// If the file is not a program with symbols.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let path = path.canonicalize().with_context(|| format!("cannot find {}", path.display()))?;
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let file = object::File::parse(&*bytes).with_context(|| format!("{} is not a program", path.display()))?;
        let (mut functions, mut untouched) = (BTreeMap::<_, Vec<_>>::new(), Vec::new());
        for symbol in file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0) {
            let Ok(name) = symbol.name() else { continue };
            if UNTOUCHED.iter().any(|part| name.contains(part)) {
                untouched.push(name.to_owned());
            } else {
                functions.entry(symbol.address()).or_default().push(name.to_owned());
            }
        }
        ensure!(!functions.is_empty(), "{} has no symbols: link it with `strip = false`", path.display());
        Ok(Self { path, functions, untouched })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_read_from_the_symbols() {
        let program = Program::read(&std::env::current_exe().unwrap()).unwrap();
        let mut names = program.functions.values().flatten();
        assert!(names.clone().any(|name| name.contains("functions_are_read_from_the_symbols")));
        assert!(names.all(|name| name != "_start"));
        assert!(program.untouched.iter().any(|name| name == "_start"));
    }
}
