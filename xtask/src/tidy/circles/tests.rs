use super::*;

/// Returns the circles in a crate with these files.
fn circles(files: &[(&str, &str)]) -> Vec<String> {
    let texts = files
        .iter()
        .map(|(file, text)| (format!("x/src/{file}"), (*text).to_owned()))
        .collect();
    of_crate("x/src", "x/src/lib.rs", &texts).unwrap()
}

/// Returns the circles between the modules `a` and `b`, with the places in them only.
fn between(root: &str, a: &str, b: &str) -> Vec<String> {
    let root = format!("mod a; mod b; {root}");
    let found = circles(&[("lib.rs", root.as_str()), ("a.rs", a), ("b.rs", b)]);
    let places = found.iter().map(|problem| {
        let places = problem
            .strip_prefix("x/src: the modules a and b use each other: ")
            .unwrap();
        places
            .strip_suffix("; move what both use into a module of its own")
            .unwrap()
            .to_owned()
    });
    places.collect()
}

const CIRCLE: &str = "a.rs:1 names b::B, b.rs:1 names a::A";

#[test]
fn two_modules_that_use_each_other_are_a_circle() {
    for (a, b) in [
        ("use crate::b::B;", "use crate::a::A;"),
        ("use super::r#b::{self, B};", "use super::{a::{A as C}};"),
        (
            "fn f() { use crate::b::B as C; }",
            "fn f() -> Vec<crate::a::A> {}",
        ),
        (
            "fn f() { super::b::B::new(); }",
            "impl super::a::A for u8 {}",
        ),
        (
            "use super::*; fn f() { b::B::new() }",
            "use super::*; struct S(a::A);",
        ),
        (
            "struct A<T: crate::b::B>(T);",
            "use self::super::a; struct S(a::A);",
        ),
    ] {
        assert_eq!(between("", a, b).len(), 1, "{a} {b}");
    }
    assert_eq!(
        between("", "use crate::b::B;", "use crate::a::A;"),
        [CIRCLE]
    );
}

#[test]
fn a_name_counts_for_the_module_that_defines_it() {
    let (a, b) = ("use crate::B; pub struct A;", "use super::A; pub struct B;");
    for root in [
        "pub use a::A; pub use b::B;",
        "pub use {crate::a::*, self::b::*};",
        "pub use c::{A, B}; mod c { pub use super::{a::A, b::B}; }",
        "pub use c::*; mod c { pub use super::a::*; pub use super::b::B; }",
    ] {
        assert_eq!(between(root, a, b), [CIRCLE], "{root}");
    }
    let elsewhere = "pub use c::*; mod c { pub struct A; }";
    assert_eq!(
        between(&format!("pub use b::B; pub use a::K::*; {elsewhere}"), a, b),
        [""; 0]
    );
    assert_eq!(
        between(
            &format!("pub use b::B; {elsewhere}"),
            "use super::b::B;",
            "use super::A;"
        ),
        [""; 0]
    );
    assert_eq!(between("pub use std::{A, B};", a, b), [""; 0]);
    assert_eq!(between("pub use a::A; struct B;", a, b), [""; 0]);
}

#[test]
fn what_a_module_defines_or_imports_from_elsewhere_is_its_own() {
    let user = "use super::b::B;";
    for b in [
        "pub use std::x::B;",
        "pub struct B; fn f() { use crate::c::B; }",
    ] {
        let b = format!("use super::a::A; {b}");
        assert_eq!(
            between("mod c { pub struct B; }", user, &b),
            [CIRCLE],
            "{b}"
        );
    }
}

#[test]
fn paths_in_macros_and_attributes_count() {
    for a in [
        "fn f() { println!(\"{}\", crate::b::B); }",
        "use super::b; fn f() { g!(x: [b::B {}]); }",
        "macro_rules! m { () => { $crate::b::B } }",
        "#[g(h = super::b::B)] struct A;",
        "struct A { #[serde(with = \"super::b::B\")] a: u8 }",
    ] {
        assert_eq!(between("", a, "use crate::a::A;").len(), 1, "{a}");
    }
    // Would see `b`, if these were paths from here.
    let silent = "use super::*; use ::b::B;\n/// crate::b::B\n#[g(\"b\")]\n\
                  fn f() { println!(\"crate::b::B\", ::b::B, <u8>::b::B, c::b::B); ::b::B::new(); }";
    assert_eq!(between("", silent, "use crate::a::A;"), [""; 0]);
}

#[test]
fn a_shortest_circle_of_three_is_shown() {
    let found = circles(&[
        ("lib.rs", "mod n;"),
        ("n/mod.rs", "mod a;\nmod b;\nmod c;\nmod d;\nmod e;"),
        ("n/a.rs", "mod x;\nuse super::d::D;"),
        ("n/a/x.rs", "\nuse crate::n::b::B;"),
        ("n/b.rs", "use super::c::x;"),
        ("n/c.rs", "pub mod x;"),
        ("n/c/x.rs", "use super::super::a;"),
        ("n/d.rs", "use super::e::E;"),
        ("n/e.rs", "use super::a::A;\nuse super::b::B;"),
    ]);
    let expected = "x/src/n: the modules a, b and c use each other in a circle: a/x.rs:2 names b::B, b.rs:1 names c::x, \
                    c/x.rs:1 names a; move what both use into a module of its own";
    assert_eq!(found, [expected]);
}

#[test]
fn each_separate_circle_is_shown() {
    let found = circles(&[(
        "lib.rs",
        "mod a { use super::b::B; } mod b { use super::a::A; mod c { use super::d::D; } mod d { use super::c::C; } }
         mod e { use super::f::F; use super::a::A; } mod f { use super::e::E; }",
    )]);
    let shown = found
        .iter()
        .map(|problem| problem.split(" use each other").next().unwrap());
    let expected = [
        "x/src: the modules a and b",
        "x/src: the modules e and f",
        "x/src/b: the modules c and d",
    ];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
}

#[test]
fn a_module_and_its_descendants_are_one() {
    let found = circles(&[
        ("lib.rs", "mod a; use a::b::B; struct L;"),
        (
            "a.rs",
            "mod b; use b::B; use self::b::c::C; struct A; use crate::L;",
        ),
        ("a/b.rs", "mod c; use super::A; use crate::L;"),
        ("a/b/c.rs", "use super::super::A; use crate::{L, a::A};"),
    ]);
    assert_eq!(found, [""; 0]);
}

#[test]
fn tests_may_use_everything() {
    for a in [
        "#[cfg(test)] mod tests { use crate::b::B; }",
        "mod tests;",
        "#[cfg(any(test, feature = \"testing\"))] use crate::b::B;",
        "#[cfg(all(unix, test))] impl crate::b::B for u8 {}",
        "#![cfg(test)] use crate::b::B;",
        "impl A { #[cfg(test)] fn f() { crate::b::B; } }",
        "trait A { #[cfg(test)] fn f() { crate::b::B; } }",
        "enum A { C, #[cfg(test)] B(crate::b::B) }",
        "fn f() { match 1 { #[cfg(test)] crate::b::B => {} _ => {} } }",
        "struct A { #[cfg(test)] b: crate::b::B }",
        "fn f() { #[cfg(test)] let b = crate::b::B; }",
        "#[tokio::test] async fn f() { crate::b::B; }",
    ] {
        assert_eq!(between("", a, "use crate::a::A;"), [""; 0], "{a}");
    }
    for a in [
        "#[cfg(any(test, unix))] use crate::b::B;",
        "#[cfg(not(test))] use crate::b::B;",
    ] {
        assert_eq!(between("", a, "use crate::a::A;"), [CIRCLE], "{a}");
    }
}

#[test]
fn arrows_in_one_direction_are_no_circle() {
    assert_eq!(
        between(
            "",
            "use crate::b::B;",
            "use std::a::A; use ::a::A; mod c { use super::B; }"
        ),
        [""; 0]
    );
    assert_eq!(
        between(
            "pub use a::A;",
            "use super::b::B;",
            "use anyhow::anyhow; use c::d; use d::c;"
        ),
        [""; 0]
    );
}

#[test]
fn a_file_that_is_missing_or_not_rust_is_an_error() {
    for (files, expected) in [
        (
            &[("lib.rs", "mod a;")][..],
            "x/src/lib.rs: the file of the module a is missing (",
        ),
        (
            &[("lib.rs", "mod a;"), ("a.rs", "\nfn 1")],
            "x/src/a.rs:2: it is not Rust: ",
        ),
    ] {
        let texts = files
            .iter()
            .map(|(file, text)| (format!("x/src/{file}"), (*text).to_owned()))
            .collect();
        let error = of_crate("x/src", "x/src/lib.rs", &texts)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn the_crates_of_the_checkout_are_read() {
    let sources = BTreeMap::from([
        ("x/src/lib.rs", "mod a;\nmod b;\n"),
        ("x/src/a.rs", "use crate::b::B;\npub struct A(B);\n"),
        ("x/src/b.rs", "pub struct B(Option<Box<crate::a::A>>);\n"),
        ("x/src/main.rs", "mod a;\nmod b;\nfn main() {}\n"),
        ("y/src/main.rs", "fn main() {}\n"),
        ("y/tests/z.rs", "mod missing;\n"),
    ]);
    let files = sources.keys().map(|&file| file.to_owned()).collect();
    let found = problems(&files, &|file: &str| Ok(sources[file].to_owned())).unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("x/src: the modules a and b use each other: "),
        "{found:?}"
    );
}
