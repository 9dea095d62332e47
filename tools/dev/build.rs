//! Lists the files of the SDK for C, which `skydock plugin new` writes into a project.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

/// The folder with the files, whose name they keep in a project.
const SDK: &str = "../../sdk/c";

fn main() -> io::Result<()> {
    let mut files = Vec::new();
    find("skydock", &mut files)?;
    files.sort();

    let mut list = String::from("[\n");
    for file in files {
        let text =
            format!("include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/{SDK}/{file}\"))");
        // Writing to a string does not fail.
        let _ = writeln!(list, "    ({file:?}, {text}),");
    }
    list.push_str("]\n");

    let out = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    fs::write(Path::new(&out).join("sdk_c.rs"), list)
}

/// Adds the files below a folder. Links are followed: some folders are links.
fn find(folder: &str, files: &mut Vec<String>) -> io::Result<()> {
    let path = Path::new(SDK).join(folder);
    println!("cargo::rerun-if-changed={}", path.display());

    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            find(&name, files)?;
        } else {
            files.push(name);
        }
    }

    Ok(())
}
