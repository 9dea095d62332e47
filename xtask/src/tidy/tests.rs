use std::process::Command;

use super::*;

#[test]
fn sources_have_messages_and_tests_have_none() {
    for (file, expected) in [
        ("host/egress/src/rule.rs", true),
        ("host/egress/src/contests.rs", true),
        ("plugins/aws/src/nlb/plan.rs", true),
        ("host/egress/src/grant/compile/tests.rs", false),
        ("host/controllers/src/node/tests/crowd.rs", false),
        ("host/controllers/src/testing/meeting.rs", false),
        ("host/egress/tests/gateway/limits.rs", false),
        ("host/devplane/src/store.rs", false),
        ("host/egress/src/README.md", false),
    ] {
        assert_eq!(is_source(file), expected, "{file}");
    }
}

#[test]
fn every_check_is_made() {
    let root = tempfile::tempdir().unwrap();
    let rows = "## Versions\n\n| Version | Directory | State | Commit | Digest |\n| --- | --- | --- | --- | --- |\n\
                | 0.1.0 | [v0.1.0](v0.1.0) | current; may still change | | |\n";
    for (file, text) in [
        ("ARCHITECTURE.md", "`docs/none.md`\n"),
        ("CONTRIBUTING.md", ""),
        ("README.md", "A gizmo.\n"),
        ("docs/style.md", "## Glossary\n\n| thing | `gizmo` |\n"),
        ("host/cloud/src/lib.rs", "mod a;\nmod b;\n"),
        ("host/cloud/src/a.rs", "//! One.\nuse crate::b;\n"),
        ("host/cloud/src/b.rs", "//! Two.\nuse crate::a;\n"),
        ("tests/README.md", ""),
        ("wit/README.md", rows),
        ("wit/v0.1.0/types.wit", "package skydock:provider@0.1.0;\n"),
        ("wit/v0.2.0/types.wit", "package skydock:provider@0.2.0;\n"),
    ] {
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    assert!(
        Command::new("git")
            .args(["init", "--quiet"])
            .current_dir(root.path())
            .status()
            .unwrap()
            .success()
    );
    let problems = run(root.path(), true).unwrap_err().to_string();
    let starts = [
        "docs/messages.txt is not up to date",
        "docs/modules.md is not up to date",
        "host/cloud/src/lib.rs:1: the module has no documentation",
        "README.md:1: \"gizmo\": write thing",
        "sdk/rust/wit/v0.1.0/types.wit differs",
        "sdk/rust/wit/v0.2.0/types.wit differs",
        "sdk/go/wit/v0.1.0/types.wit differs",
        "sdk/python/skydock/wit/v0.1.0/types.wit differs",
        "sdk/typescript/wit/v0.1.0/types.wit differs",
        "sdk/c/skydock/wit/v0.1.0/types.wit differs",
        "wit/v0.2.0 is missing in the table",
        "ARCHITECTURE.md:1: `docs/none.md` does not exist",
        "host/cloud/src: the modules a and b use each other",
    ];
    assert_eq!(problems.lines().count(), starts.len(), "{problems}");
    for (problem, start) in problems.lines().zip(starts) {
        assert!(problem.starts_with(start), "{problem}");
    }
}
