use std::{fmt::Write as _, time::Instant};

use super::*;
use crate::load::{error::LoadError, inspect::ComponentType};

fn read(text: &str) -> Result<ComponentType, LoadError> {
    ComponentType::read(&wat::parse_str(text).expect("WAT"), &Limits::default())
}

fn rejection(text: &str) -> String {
    read(text).expect_err("rejected").to_string()
}

/// Returns nested components, each of which creates `each` instances of the one in it.
fn bomb(levels: usize, each: usize, innermost: &str) -> String {
    let mut inner = format!("(component $l0 (core module $m) {innermost})");
    for level in 1..=levels {
        let instances = format!("(instance (instantiate $l{}))", level - 1).repeat(each);
        inner = format!("(component $l{level} {inner} {instances})");
    }
    format!("(component {inner} (instance (instantiate $l{levels})))")
}

// Holds: SEC-12
#[test]
fn nested_instances_are_counted_each_time() {
    let text = bomb(4, 900, "");
    let began = Instant::now();
    let bytes = wat::parse_str(&text).unwrap();
    assert!(bytes.len() < 20_000, "{} bytes", bytes.len());

    let parsed = began.elapsed();
    let began = Instant::now();
    let error = ComponentType::read(&bytes, &Limits::default())
        .unwrap_err()
        .to_string();
    // 1 + 900 + 900² + 900³ + 900⁴
    let sentence =
        "it has 656829810901 instances of modules and components, but at most 1000 are allowed";
    assert_eq!(error, sentence);
    assert!(
        began.elapsed() < parsed * 20,
        "{:?} where the text took {parsed:?}",
        began.elapsed()
    );

    let core = rejection(&bomb(2, 40, "(core instance (instantiate $m))"));
    assert!(core.starts_with("it has 3241 instances"), "{core}");
    assert!(
        rejection(&bomb(12, 900, "")).starts_with(&format!("it has {} instances", u64::MAX)),
        "saturates"
    );
    read(&bomb(2, 20, "(core instance (instantiate $m))")).expect("821 are not too many");
}

#[test]
fn aliased_and_exported_components_count_too() {
    let many = "(instance (instantiate $c))".repeat(900);
    let table = [
        // From the enclosing component.
        format!(
            "(component (component $c) (component $d {many}) (component $e (alias outer 1 $d (component $x)) {}))",
            "(instance (instantiate $x))".repeat(2)
        ),
        // By the name of its export.
        format!(
            "(component (component $c) (component $d (component $c) {many}) (export $x \"x\" (component $d)) {})",
            "(instance (instantiate $x))".repeat(2)
        ),
    ];
    let [outer, exported] = &table;
    // Only components that are instantiated count.
    read(outer).expect("nobody makes an instance of $e");
    let made = outer
        .strip_suffix(')')
        .map(|it| format!("{it} (instance (instantiate $e)))"))
        .unwrap();
    for text in [&made, exported] {
        let error = rejection(text);
        assert!(
            error.contains("instances of modules and components"),
            "{error}"
        );
    }
}

#[test]
fn rejects_components_passed_to_components() {
    let import =
        r#"(component (component $c (import "x" (component $x)) (instance (instantiate $x))))"#;
    let alias = r#"(component
        (component $c (component $d) (export "d" (component $d)))
        (instance $i (instantiate $c))
        (alias export $i "d" (component $x))
        (instance (instantiate $x)))"#;
    for text in [import, alias] {
        assert_eq!(
            rejection(text),
            "it passes components to components, which is not allowed because their instances cannot be counted"
        );
    }
}

#[test]
fn definitions_count_with_each_instance() {
    let types = "(type u8)".repeat(2_000);
    let text = |each: usize| {
        format!(
            "(component (component $c {types}) {})",
            "(instance (instantiate $c))".repeat(each)
        )
    };
    read(&text(20)).unwrap();
    let error = rejection(&text(60));

    assert!(error.starts_with("it has 12"), "{error}");
    assert!(
        error.ends_with("definitions in all its instances, but at most 100000 are allowed"),
        "{error}"
    );
}

#[test]
fn every_kind_of_definition_counts() {
    let resource = r#"(import "r" (type $r (sub resource)))"#;
    for (once, given, each) in [
        ("", "", "(core type (func))"),
        (
            resource,
            r#"(with "r" (type $own))"#,
            "(canon resource.drop $r (core func))",
        ),
    ] {
        let text = |count: usize| {
            let within = format!("(component $c {once} {})", each.repeat(count));
            let made = format!("(instance (instantiate $c {given}))").repeat(100);
            format!("(component (type $own (resource (rep i32))) {within} {made})")
        };
        read(&text(950)).unwrap();
        assert!(
            rejection(&text(1050)).contains("definitions in all its instances"),
            "{each}"
        );
    }
}

// Holds: SEC-12
#[test]
fn functions_and_table_elements_of_modules_are_limited() {
    let functions = |many: usize| {
        format!(
            "(component (core module (func)) (core module {}))",
            "(func)".repeat(many - 1)
        )
    };
    read(&functions(100_000)).unwrap();
    assert_eq!(
        rejection(&functions(100_001)),
        "it has 100001 functions, but at most 100000 are allowed"
    );

    let table = |elements: u32| format!("(component (core module (table {elements} funcref)))");
    read(&table(65_536)).unwrap();
    assert_eq!(
        rejection(&table(65_537)),
        "it has 65537 elements in a table (--plugin-limit table-elements), but at most 65536 are allowed"
    );

    let small = Limits {
        table_elements: 10,
        ..Limits::default()
    };
    let error = ComponentType::read(&wat::parse_str(table(11)).unwrap(), &small).unwrap_err();
    assert!(
        error.to_string().ends_with("at most 10 are allowed"),
        "{error}"
    );
}

#[test]
fn the_code_of_all_modules_is_limited() {
    let see = |sizes: &[u32]| {
        let mut shape = Shape::new(&Limits::default());
        sizes.iter().try_for_each(|size| {
            shape.see(&Payload::CodeSectionStart {
                count: 1,
                range: 0..0,
                size: *size,
            })
        })
    };
    see(&[48 << 20, 48 << 20]).unwrap();
    let error = see(&[48 << 20, 48 << 20, 1]).unwrap_err().to_string();

    assert_eq!(
        error,
        "it has 100663297 bytes of code, but at most 100663296 are allowed"
    );
}

#[test]
fn nesting_is_limited() {
    let nested = |depth: usize| format!("{}{}", "(component ".repeat(depth), ")".repeat(depth));
    read(&nested(16)).unwrap();
    let error = rejection(&nested(18));
    assert!(
        error.contains("levels of components within components"),
        "{error}"
    );
}

#[test]
fn names_for_components_are_limited() {
    let named = |times: usize| {
        let (within, around) = (
            "(component)".repeat(5),
            "(alias outer 0 0 (component))".repeat(times - 5),
        );
        format!("(component {within} {around})")
    };
    read(&named(10_000)).unwrap();
    let words = "it has 10001 components that can be named, but at most 10000 are allowed";

    assert_eq!(rejection(&named(10_001)), words);
    assert_eq!(
        rejection(&named(200_000)),
        words,
        "it is told before the rest is read"
    );
}

#[test]
fn number_and_length_of_imports_and_exports_are_limited() {
    let imports = |many: usize| {
        let mut text = String::from("(component ");
        for number in 0..many {
            write!(text, "(import \"f{number}\" (func))").unwrap();
        }
        text + ")"
    };
    read(&imports(1_000)).unwrap();
    assert_eq!(
        rejection(&imports(1_001)),
        "it has 1001 imports, but at most 1000 are allowed"
    );

    let export = |bytes: usize| {
        format!(
            "(component (instance $i) (export \"{}\" (instance $i)))",
            "a".repeat(bytes)
        )
    };
    read(&export(256)).unwrap();
    let error = rejection(&export(90_000));
    assert_eq!(
        error,
        "it has 90000 bytes in the name of an export, but at most 256 are allowed"
    );
}
