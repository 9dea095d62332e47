//! The misdeeds of plugins, as WebAssembly text.

/// The start of the data of a misdeed. Data from the host is below it.
const DATA: u32 = 64 << 10;

/// The size in bytes of a text that is too large to keep.
const LARGE: u32 = 8_000_000;

/// The discriminant of the case `other` of a method.
const OTHER: u32 = 9;

/// The discriminant of the case `some` of an option.
const SOME: u32 = 1;

/// A misdeed of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misdeed {
    /// No misdeed.
    None,
    /// Waits this many times for this many milliseconds. This is not hostile: each request to a
    /// cloud consists of some such waits.
    Naps(u32, u32),
    /// Computes in an endless loop, and requests the time from the host every nine milliseconds.
    Paces,
    /// Asks the host this many times whether a wait is over, in straight-line code: there is no
    /// loop and no function call at which it could be interrupted.
    Unbroken(usize),
    /// Creates this many requests with a method of 8 MB, and keeps them.
    Methods(u32),
    /// Creates this many requests to a host with a name of 8 MB, and keeps them.
    Authorities(u32),
    /// Creates this many requests with a path of 8 MB, and keeps them.
    Paths(u32),
    /// Creates this many requests, and keeps them after the end of the call.
    Requests(u32),
    /// Sends a request to <https://api.example/> without waiting for the answer.
    Send,
    /// Sends this many requests with options, and creates and drops as many options without a
    /// request.
    Options(u32),
    /// Requests standard output this many times, and keeps the handles.
    Outputs(u32),
    /// Takes the reserved key `reserved` of the cache from its holder, and sets it to `raw`.
    Cache,
    /// Requests all nodes, but never allocates memory for them: it computes in an endless loop
    /// while the host holds the list.
    Nodes,
    /// Uses this many pages of memory, and then waits for ten seconds.
    Pages(u32),
}

impl Misdeed {
    /// The misdeeds with components, by name.
    pub(crate) const ALL: &'static [(&str, Self)] = &[
        ("nothing", Self::None),
        ("naps", Self::Naps(300, 12)),
        ("paces", Self::Paces),
        ("unbroken", Self::Unbroken(100_000)),
        ("methods", Self::Methods(150)),
        ("authorities", Self::Authorities(150)),
        ("paths", Self::Paths(150)),
        ("requests", Self::Requests(10)),
        ("many_requests", Self::Requests(2000)),
        ("send", Self::Send),
        ("options", Self::Options(500)),
        ("outputs", Self::Outputs(33)),
        ("cache", Self::Cache),
        ("nodes", Self::Nodes),
        // 4 MiB.
        ("pages", Self::Pages(64)),
    ];

    pub(crate) fn pages(self) -> u32 {
        match self {
            Self::Methods(_) | Self::Authorities(_) | Self::Paths(_) => 128,
            Self::Pages(pages) => pages.max(2),
            _ => 2,
        }
    }

    /// Returns the imported functions of the host.
    pub(crate) fn imports(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Naps(..) | Self::Pages(_) => {
                r#"(import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-duration" (func $subscribe (param i64) (result i32)))
                (import "wasi:io/poll@0.2.0" "[method]pollable.block" (func $block (param i32)))
                (import "wasi:io/poll@0.2.0" "[resource-drop]pollable" (func $drop (param i32)))"#
            }
            Self::Unbroken(_) => {
                r#"(import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-duration" (func $subscribe (param i64) (result i32)))
                (import "wasi:io/poll@0.2.0" "[method]pollable.ready" (func $ready (param i32) (result i32)))"#
            }
            Self::Paces => {
                r#"(import "wasi:clocks/monotonic-clock@0.2.0" "now" (func $now (result i64)))"#
            }
            Self::Methods(_)
            | Self::Authorities(_)
            | Self::Paths(_)
            | Self::Requests(_)
            | Self::Send => {
                r#"(import "wasi:http/types@0.2.0" "[constructor]fields" (func $fields (result i32)))
                (import "wasi:http/types@0.2.0" "[constructor]outgoing-request" (func $request (param i32) (result i32)))
                (import "wasi:http/types@0.2.0" "[method]outgoing-request.set-method"
                  (func $method (param i32 i32 i32 i32) (result i32)))
                (import "wasi:http/types@0.2.0" "[method]outgoing-request.set-authority"
                  (func $authority (param i32 i32 i32 i32) (result i32)))
                (import "wasi:http/types@0.2.0" "[method]outgoing-request.set-path-with-query"
                  (func $path (param i32 i32 i32 i32) (result i32)))
                (import "wasi:http/outgoing-handler@0.2.0" "handle" (func $send (param i32 i32 i32 i32)))"#
            }
            Self::Options(_) => {
                r#"(import "wasi:http/types@0.2.0" "[constructor]fields" (func $fields (result i32)))
                (import "wasi:http/types@0.2.0" "[constructor]outgoing-request" (func $request (param i32) (result i32)))
                (import "wasi:http/types@0.2.0" "[constructor]request-options" (func $options (result i32)))
                (import "wasi:http/types@0.2.0" "[resource-drop]request-options" (func $drop_options (param i32)))
                (import "wasi:http/types@0.2.0" "[resource-drop]future-incoming-response" (func $drop_response (param i32)))
                (import "wasi:http/outgoing-handler@0.2.0" "handle" (func $send (param i32 i32 i32 i32)))"#
            }
            Self::Outputs(_) => {
                r#"(import "wasi:cli/stdout@0.2.0" "get-stdout" (func $stdout (result i32)))"#
            }
            Self::Cache => {
                r#"(import "skydock:provider/cache@0.1.0" "remove" (func $remove (param i32 i32)))
                (import "skydock:provider/cache@0.1.0" "set" (func $set (param i32 i32 i32 i32 i64) (result i32)))"#
            }
            Self::Nodes => {
                r#"(import "skydock:provider/cluster@0.1.0" "nodes" (func $nodes (param i32)))"#
            }
        }
    }

    /// Returns the code of the misdeed. It can use the locals `$i` and `$p` for numbers, and `$t`
    /// for a time.
    pub(crate) fn body(self) -> String {
        let times = |count: u32, what: &str| {
            format!(
                "(loop $again {what}
                   (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const {count}))))"
            )
        };
        let nap = |ms: u32| {
            format!(
                "(local.set $p (call $subscribe (i64.const {})))
                 (call $block (local.get $p)) (call $drop (local.get $p))",
                u64::from(ms) * 1_000_000
            )
        };
        let large = |part: &str, case: u32| {
            format!(
                "(drop (call ${part} (call $request (call $fields)) (i32.const {case}) (i32.const {DATA}) (i32.const {LARGE})))"
            )
        };
        let fill = format!("(memory.fill (i32.const {DATA}) (i32.const 65) (i32.const {LARGE}))");
        match self {
            Self::None => String::new(),
            Self::Naps(count, ms) => times(count, &nap(ms)),
            Self::Paces => "(loop $always
                  (local.set $t (i64.add (call $now) (i64.const 9000000)))
                  (loop $pace (local.set $i (i32.const 0))
                    (loop $spin (br_if $spin
                      (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 4000000)))))
                  (br $always))"
                .to_owned(),
            Self::Unbroken(count) => {
                "(local.set $p (call $subscribe (i64.const 0)))".to_owned()
                    + &"(drop (call $ready (local.get $p)))".repeat(count)
            }
            Self::Methods(count) => fill + &times(count, &large("method", OTHER)),
            Self::Authorities(count) => fill + &times(count, &large("authority", SOME)),
            Self::Paths(count) => fill + &times(count, &large("path", SOME)),
            Self::Requests(count) => times(count, "(drop (call $request (call $fields)))"),
            Self::Send => "(local.set $p (call $request (call $fields)))
                (drop (call $authority (local.get $p) (i32.const 1) (i32.const 656) (i32.const 11)))
                (drop (call $path (local.get $p) (i32.const 1) (i32.const 667) (i32.const 1)))
                (call $send (local.get $p) (i32.const 0) (i32.const 0) (i32.const 2304))"
                .to_owned(),
            Self::Options(count) => times(
                count,
                "(call $send (call $request (call $fields)) (i32.const 1) (call $options) (i32.const 2304))
                 (if (i32.eqz (i32.load8_u (i32.const 2304))) (then (call $drop_response (i32.load (i32.const 2312)))))
                 (call $drop_options (call $options))",
            ),
            Self::Outputs(count) => times(count, "(drop (call $stdout))"),
            Self::Cache => "(call $remove (i32.const 640) (i32.const 8))
                (drop (call $set (i32.const 640) (i32.const 8) (i32.const 512) (i32.const 3) (i64.const 60000)))"
                .to_owned(),
            Self::Nodes => "(call $nodes (i32.const 2048))".to_owned(),
            Self::Pages(pages) => {
                let fill = format!(
                    "(memory.fill (i32.const {DATA}) (i32.const 1) (i32.const {}))",
                    u64::from(pages.max(2)) * 65_536 - u64::from(DATA)
                );
                fill + &nap(10_000)
            }
        }
    }

    /// Returns the code that runs before memory for data from the host is allocated.
    pub(crate) fn realloc(self) -> &'static str {
        // Not for the configuration, which is passed first.
        if self == Self::Nodes {
            "(if (i32.gt_u (local.get $size) (i32.const 4096)) (then (loop $l (br $l))))"
        } else {
            ""
        }
    }
}
