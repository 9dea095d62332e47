//! Linker options of the binary.

use std::{env::var, fmt::Write as _, fs, io, path::Path};

/// The functions that Skydock executes, one symbol a line, and `ARCHIVE:MEMBER` for those of other
/// languages; `*` stands for what depends on the version of a crate. `cargo xtask hot` writes it.
const HOT: &str = "../../deploy/hot-functions.txt";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={HOT}");
    let is = |name: &str, value: &str| var(name).is_ok_and(|it| it == value);
    // Only for the image, which is optimized for size.
    if !(is("OPT_LEVEL", "z")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu"))
    {
        return Ok(());
    }
    // 40,000 relocations take 16 KiB of memory instead of 0.9 MiB. This requires glibc 2.36 or
    // later, so other builds do not use it.
    println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    // The names in the list are mangled in this way, which describes a function completely and
    // contains no hash of its code.
    let is_mangled = var("CARGO_ENCODED_RUSTFLAGS")
        .is_ok_and(|flags| flags.contains("symbol-mangling-version=v0"));
    if is_mangled && is("CARGO_CFG_TARGET_ARCH", "x86_64") {
        let script = Path::new(&var("OUT_DIR").unwrap_or_default()).join("hot.ld");
        fs::write(&script, linker_script(&fs::read_to_string(HOT)?))?;
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", script.display());
        // What the compiler considers unlikely to be executed goes to the end.
        println!("cargo::rustc-link-arg-bins=-Wl,-z,keep-text-section-prefix");
    }
    Ok(())
}

/// Returns a linker script that puts these functions side by side, before all others.
fn linker_script(functions: &str) -> String {
    let mut script = "SECTIONS\n{\n  .text.hot :\n  {\n".to_owned();
    for name in functions.lines() {
        // The second section is that of a function which the compiler considers unlikely to be
        // executed.
        let _ = match name.contains(':') {
            true => writeln!(script, "    *{name}(.text .text.*)"),
            false => writeln!(script, "    *(.text.{name} .text.unlikely.{name})"),
        };
    }
    script + "  }\n}\nINSERT BEFORE .text;\n"
}
