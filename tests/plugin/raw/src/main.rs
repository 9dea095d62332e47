//! Hostile plugins that no compiler would generate, written as WebAssembly text. Writes them to the
//! given directory; `cargo xtask guests` runs this program.
//!
//! Each [`Misdeed`] results in two plugins, `NAME_in_configure.wasm` and `NAME_in_check.wasm`,
//! which differ in when it happens. Otherwise they are a small provider named `raw` that accepts
//! any configuration and reports a single node as running.

use std::{env, fs, path::PathBuf};

use anyhow::{Context, Result};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

mod misdeeds;

use self::misdeeds::Misdeed;

/// When the misdeed happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// In `configure`, so that the plugin is not taken into service, or should not be.
    Configure,
    /// In `instances.check`.
    Check,
}

fn main() -> Result<()> {
    let dir = PathBuf::from(env::args_os().nth(1).context("name a directory")?);
    fs::create_dir_all(&dir)?;
    for &(name, misdeed) in Misdeed::ALL {
        for (when, suffix) in [(When::Configure, "configure"), (When::Check, "check")] {
            let file = dir.join(format!("{name}_in_{suffix}.wasm"));
            let component = component(misdeed, when).with_context(|| file.display().to_string())?;
            // Unchanged files are not written, so that watchers are not notified.
            if fs::read(&file).ok().as_ref() != Some(&component) {
                fs::write(&file, component)?;
            }
        }
    }
    Ok(())
}

fn component(misdeed: Misdeed, when: When) -> Result<Vec<u8>> {
    let mut module = wat::parse_str(module(misdeed, when))?;
    let mut resolve = Resolve::default();
    resolve.push_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../wit/v0.1.0"))?;
    resolve.push_str("wasi.wit", include_str!("wasi.wit"))?;
    let world = resolve.push_str("world.wit", WORLD)?;
    let world = resolve.select_world(&[world], Some("raw"))?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    ComponentEncoder::default()
        .module(&module)?
        .validate(true)
        .encode()
}

const WORLD: &str = "
package skydock:raw-world;
world raw {
  import wasi:io/poll@0.2.0;
  import wasi:clocks/monotonic-clock@0.2.0;
  import wasi:cli/stdout@0.2.0;
  import wasi:http/types@0.2.0;
  import wasi:http/outgoing-handler@0.2.0;
  import skydock:provider/cache@0.1.0;
  import skydock:provider/cluster@0.1.0;
  export skydock:provider/plugin@0.1.0;
  export skydock:provider/instances@0.1.0;
}";

/// Returns the core module. Its memory contains the answer of `info` at 512, the answers of other
/// functions at 1024, the data from the host from 4096, and the data of the misdeed above that.
fn module(misdeed: Misdeed, when: When) -> String {
    let pages = misdeed.pages();
    let imports = misdeed.imports();
    let body = misdeed.body();
    let (configure, check) = match when {
        When::Configure => (body.as_str(), ""),
        When::Check => ("", body.as_str()),
    };
    let realloc = misdeed.realloc();
    format!(
        r#"(module
{imports}
(memory (export "memory") {pages})
(global $free (mut i32) (i32.const 4096))
(data (i32.const 512) "raw")
(data (i32.const 520) "1.0.0")
(data (i32.const 528) "raw://")
(data (i32.const 544) "\10\02\00\00\06\00\00\00")
(data (i32.const 560) "\00\02\00\00\03\00\00\00\08\02\00\00\05\00\00\00\20\02\00\00\01\00\00\00\00\00\00\00\00\00\00\00\01\00\00\00")
(data (i32.const 640) "reserved")
(data (i32.const 656) "api.example/")
(data (i32.const 1080) "\00\08\00\00\01\00\00\00")
(func (export "cabi_realloc") (param $old i32) (param i32 i32) (param $size i32) (result i32) (local $at i32)
  {realloc}
  (local.set $at (i32.and (i32.add (global.get $free) (i32.const 15)) (i32.const -16)))
  (global.set $free (i32.add (local.get $at) (local.get $size)))
  (local.get $at))
(func (export "skydock:provider/plugin@0.1.0#info") (result i32) (i32.const 560))
(func (export "skydock:provider/plugin@0.1.0#configure") (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
  (local $i i32) (local $p i32) (local $t i64)
  {configure}
  (global.set $free (i32.const 4096))
  (i32.const 1024))
(func (export "skydock:provider/instances@0.1.0#check") (param i32 i32) (result i32)
  (local $i i32) (local $p i32) (local $t i64)
  {check}
  (global.set $free (i32.const 4096))
  (i32.const 1072))
(func (export "skydock:provider/instances@0.1.0#describe") (param i32 i32) (result i32) (unreachable))
)"#
    )
}
