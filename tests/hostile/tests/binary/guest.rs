//! Components made from WebAssembly text: small plugins with three capabilities, of which one may misbehave in its own way.

use std::path::Path;

use anyhow::Context as _;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// What a plugin does beside its work.
#[derive(Clone, Copy)]
pub(crate) struct Misdeed {
    /// Interfaces of WASI that it needs, as a world imports them.
    pub(crate) world: &'static str,
    /// Functions of those interfaces, as a core module imports them.
    pub(crate) imports: &'static str,
    /// Pages of memory it needs.
    pub(crate) pages: u32,
}

/// Where it does so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// While it is given its configuration.
    Configure,
    /// While it is asked about machines.
    Call,
}

/// What WASI has of the interfaces below. A component imports no more than it uses.
const WASI: [(&str, &str); 3] = [
    (
        "io.wit",
        "package wasi:io@0.2.0;
         interface poll {
             resource pollable { block: func(); }
             poll: func(in: list<borrow<pollable>>) -> list<u32>;
         }",
    ),
    (
        "clocks.wit",
        "package wasi:clocks@0.2.0;
         interface monotonic-clock {
             use wasi:io/poll@0.2.0.{pollable};
             subscribe-duration: func(when: u64) -> pollable;
         }",
    ),
    (
        "http.wit",
        "package wasi:http@0.2.0;
         interface types {
             variant method { get, head, post, put, delete, connect, options, trace, patch, other(string) }
             resource fields { constructor(); }
             resource outgoing-request { constructor(headers: fields); set-method: func(method: method) -> result; }
         }",
    ),
];

const NONE: Misdeed = Misdeed { world: "", imports: "", pages: 3 };
const POLLS: Misdeed = Misdeed {
    world: "import wasi:io/poll@0.2.0;",
    imports: r#"(import "wasi:io/poll@0.2.0" "poll" (func $poll (param i32 i32 i32)))"#,
    pages: 3,
};
const NAPS: Misdeed = Misdeed {
    world: "import wasi:io/poll@0.2.0; import wasi:clocks/monotonic-clock@0.2.0;",
    imports: r#"
        (import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-duration" (func $sub (param i64) (result i32)))
        (import "wasi:io/poll@0.2.0" "[method]pollable.block" (func $block (param i32)))
        (import "wasi:io/poll@0.2.0" "[resource-drop]pollable" (func $drop (param i32)))"#,
    pages: 3,
};
/// Memory for a method of 16 MB, above all else.
const METHODS: Misdeed = Misdeed {
    world: "import wasi:http/types@0.2.0;",
    imports: r#"
        (import "wasi:http/types@0.2.0" "[constructor]fields" (func $fields (result i32)))
        (import "wasi:http/types@0.2.0" "[constructor]outgoing-request" (func $req (param i32) (result i32)))
        (import "wasi:http/types@0.2.0" "[method]outgoing-request.set-method" (func $set (param i32 i32 i32 i32) (result i32)))"#,
    pages: 3 + 250,
};

/// Behaves.
pub(crate) fn good() -> anyhow::Result<Vec<u8>> {
    component(NONE, "(func $misbehave)", None)
}

/// Waits so many times for so many milliseconds.
pub(crate) fn naps(times: u32, millis: u32, form: Form) -> anyhow::Result<Vec<u8>> {
    let nanos = u64::from(millis) * 1_000_000;
    let body = format!(
        "(func $misbehave (local $i i32) (local $p i32)
           (loop $l
             (local.set $p (call $sub (i64.const {nanos})))
             (call $block (local.get $p)) (call $drop (local.get $p))
             (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const {times})))))"
    );
    component(NAPS, &body, Some(form))
}

/// Makes so many HTTP requests, each with a method of 16 MB, and sends none.
pub(crate) fn methods(requests: u32, form: Form) -> anyhow::Result<Vec<u8>> {
    let body = format!(
        "(func $misbehave (local $i i32)
           (memory.fill (i32.const 196608) (i32.const 65) (i32.const 16000000))
           (loop $l
             (drop (call $set (call $req (call $fields)) (i32.const 9) (i32.const 196608) (i32.const 16000000)))
             (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const {requests})))))"
    );
    component(METHODS, &body, Some(form))
}

/// Asks for a poll of nothing, which no host answers, from a function whose name is a line of a log and so many letters.
pub(crate) fn names(letters: usize, form: Form) -> anyhow::Result<Vec<u8>> {
    let name =
        format!("x\\n2026-11-22T02:40:00Z  INFO skydock_controllers: forged line \\1b[2J{}", "A".repeat(letters));
    let body = format!(
        "(func $f (@name \"{name}\") (call $poll (i32.const 8) (i32.const 0) (i32.const 64)))
         (func $misbehave (call $f))"
    );
    component(POLLS, &body, Some(form))
}

/// So many levels of components, each of which makes so many instances of the next.
pub(crate) fn bomb(levels: u32, instances: usize) -> anyhow::Result<Vec<u8>> {
    let mut inner = "(component $l0 (core module $m))".to_owned();
    for level in 1..=levels {
        let made = format!("(instance (instantiate $l{}))", level - 1).repeat(instances);
        inner = format!("(component $l{level} {inner} {made})");
    }
    text(&format!(
        "(component {inner} (instance (instantiate $l{levels})) (instance $e)
           (export \"skydock:provider/plugin@0.1.0\" (instance $e)))"
    ))
}

/// Imports what there is not, by a name that renames the terminal's window and clears it.
pub(crate) fn odd_import() -> anyhow::Result<Vec<u8>> {
    importing(r"evil\1b]0;owned\07\1b[2Jsock", 1)
}

/// A file of as many bytes, all of it names of imports.
pub(crate) fn many_imports(bytes: usize) -> anyhow::Result<Vec<u8>> {
    const LONGEST: usize = 99_000;
    importing(&"\\nA".repeat(LONGEST / 2), bytes / LONGEST)
}

fn importing(name: &str, times: usize) -> anyhow::Result<Vec<u8>> {
    let imports: String = (0..times).map(|number| format!("(import \"{name}{number}\" (func))\n")).collect();
    text(&format!("(component {imports} (instance $e) (export \"skydock:provider/plugin@0.1.0\" (instance $e)))"))
}

fn text(text: &str) -> anyhow::Result<Vec<u8>> {
    Ok(wat::parse_str(text)?)
}

/// The plugin: it knows every node by the provider ID it has, has no routes, and makes any.
///
/// Answers are records of zeros, which stand for success, for no value, or for an empty list; lists of them lie from 131072 on.
fn component(misdeed: Misdeed, body: &str, form: Option<Form>) -> anyhow::Result<Vec<u8>> {
    let Misdeed { world, imports, pages } = misdeed;
    let when = |this| if form == Some(this) { "(call $misbehave)" } else { "" };
    let (in_configure, in_call) = (when(Form::Configure), when(Form::Call));
    let plugin = "skydock:provider/plugin@0.1.0";
    let instances = "skydock:provider/instances@0.1.0";
    let routes = "skydock:provider/routes@0.1.0";
    let module = format!(
        r#"(module
          {imports}
          (memory (export "memory") {pages})
          (global $bump (mut i32) (i32.const 4096))
          (data (i32.const 512) "static")
          (data (i32.const 520) "0.1.0")
          (data (i32.const 528) "kubemark://")
          (data (i32.const 544) "\10\02\00\00\0b\00\00\00")
          (data (i32.const 560) "\00\02\00\00\06\00\00\00\08\02\00\00\05\00\00\00\20\02\00\00\01\00\00\00")
          (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (local $p i32)
            (local.set $p (i32.and (i32.add (global.get $bump) (i32.const 15)) (i32.const -16)))
            (global.set $bump (i32.add (local.get $p) (local.get 3)))
            (local.get $p))
          {body}
          (func (export "{plugin}#info") (result i32) (i32.const 560))
          (func (export "{plugin}#configure") (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
            {in_configure}
            (global.set $bump (i32.const 4096))
            (i32.const 1024))
          (func $answers (param $length i32) (result i32)
            {in_call}
            (global.set $bump (i32.const 4096))
            (i32.store (i32.const 1096) (i32.const 131072))
            (i32.store (i32.const 1100) (local.get $length))
            (i32.const 1088))
          (func (export "{instances}#check") (param i32 i32) (result i32) (call $answers (local.get 1)))
          (func (export "{instances}#describe") (param i32 i32) (result i32) (call $answers (local.get 1)))
          (func (export "{routes}#list-routes") (param i32 i32 i32) (result i32) (i32.const 1024))
          (func $done (param $length i32) (result i32)
            (global.set $bump (i32.const 4096))
            (i32.store (i32.const 1200) (i32.const 131072))
            (i32.store (i32.const 1204) (local.get $length))
            (i32.const 1200))
          (func (export "{routes}#create-routes") (param i32 i32) (result i32) (call $done (local.get 1)))
          (func (export "{routes}#delete-routes") (param i32 i32) (result i32) (call $done (local.get 1))))"#
    );
    let mut module = wat::parse_str(module)?;
    let mut resolve = Resolve::default();
    let contract = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/v0.1.0");
    resolve.push_dir(contract).context("the contract")?;
    for (path, text) in WASI {
        resolve.push_str(path, text)?;
    }
    let world =
        format!("package test:guest; world guest {{ {world} export {plugin}; export {instances}; export {routes}; }}");
    let package = resolve.push_str("guest.wit", &world)?;
    let world = resolve.select_world(&[package], Some("guest"))?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    ComponentEncoder::default().validate(true).module(&module)?.encode()
}
