//! Components made from WebAssembly text: small plugins with `instances` and `routes`, which may
//! misbehave in one way.

use std::path::Path;

use anyhow::Context as _;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The requirements of a misdeed.
#[derive(Clone, Copy)]
pub(crate) struct Misdeed {
    /// The required WASI interfaces, as imports of a world.
    pub(crate) world: &'static str,
    /// The functions of those interfaces, as imports of a core module.
    pub(crate) imports: &'static str,
    /// The required pages of memory.
    pub(crate) pages: u32,
}

/// When the plugin misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// While it is configured.
    Configure,
    /// During a call about instances.
    Call,
}

/// The parts of WASI with the interfaces below. A component imports only those that it uses.
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

const NONE: Misdeed = Misdeed {
    world: "",
    imports: "",
    pages: 3,
};
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
/// Includes memory for a method of 16 MB above all other data.
const METHODS: Misdeed = Misdeed {
    world: "import wasi:http/types@0.2.0;",
    imports: r#"
        (import "wasi:http/types@0.2.0" "[constructor]fields" (func $fields (result i32)))
        (import "wasi:http/types@0.2.0" "[constructor]outgoing-request" (func $req (param i32) (result i32)))
        (import "wasi:http/types@0.2.0" "[method]outgoing-request.set-method" (func $set (param i32 i32 i32 i32) (result i32)))"#,
    pages: 3 + 250,
};

/// Returns a plugin that does not misbehave.
pub(crate) fn good() -> anyhow::Result<Vec<u8>> {
    component(NONE, "(func $misbehave)", None)
}

/// Returns a plugin that waits this many times for this many milliseconds.
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

/// Returns a plugin that creates this many HTTP requests, each with a method of 16 MB, without
/// sending them.
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

/// Returns a plugin that polls an empty list, which traps, in a function whose name contains a
/// forged log line and this many letters.
pub(crate) fn names(letters: usize, form: Form) -> anyhow::Result<Vec<u8>> {
    let name = format!(
        "x\\n2026-11-22T02:40:00Z  INFO skydock_controllers: forged line \\1b[2J{}",
        "A".repeat(letters)
    );
    let body = format!(
        "(func $f (@name \"{name}\") (call $poll (i32.const 8) (i32.const 0) (i32.const 64)))
         (func $misbehave (call $f))"
    );
    component(POLLS, &body, Some(form))
}

/// Returns nested components with this many levels, each of which creates this many instances of
/// the next.
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

/// Returns a component that imports an unknown interface, whose name contains control characters
/// that change the title of a terminal and clear it.
pub(crate) fn odd_import() -> anyhow::Result<Vec<u8>> {
    importing(r"evil\1b]0;owned\07\1b[2Jsock", 1)
}

/// Returns a component of about this many bytes, which consist of names of imports.
pub(crate) fn many_imports(bytes: usize) -> anyhow::Result<Vec<u8>> {
    const LONGEST: usize = 99_000;
    importing(&"\\nA".repeat(LONGEST / 2), bytes / LONGEST)
}

fn importing(name: &str, times: usize) -> anyhow::Result<Vec<u8>> {
    let imports: String = (0..times)
        .map(|number| format!("(import \"{name}{number}\" (func))\n"))
        .collect();
    text(&format!(
        "(component {imports} (instance $e) (export \"skydock:provider/plugin@0.1.0\" (instance $e)))"
    ))
}

fn text(text: &str) -> anyhow::Result<Vec<u8>> {
    Ok(wat::parse_str(text)?)
}

/// Returns the plugin. It reports success for every node, lists no routes, and accepts all changes
/// of routes.
///
/// Answers are records of zeros, which stand for success, for no value, or for an empty list. Lists
/// of them start at 131072.
fn component(misdeed: Misdeed, body: &str, form: Option<Form>) -> anyhow::Result<Vec<u8>> {
    let Misdeed {
        world,
        imports,
        pages,
    } = misdeed;
    let when = |this| {
        if form == Some(this) {
            "(call $misbehave)"
        } else {
            ""
        }
    };
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
    let world = format!(
        "package test:guest; world guest {{ {world} export {plugin}; export {instances}; export {routes}; }}"
    );
    let package = resolve.push_str("guest.wit", &world)?;
    let world = resolve.select_world(&[package], Some("guest"))?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    ComponentEncoder::default()
        .validate(true)
        .module(&module)?
        .encode()
}
