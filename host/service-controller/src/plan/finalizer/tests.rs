use serde_json::{Value, json};
use skydock_controller_base::{
    objects::constants::{ANNOTATION_CLASS, FINALIZER},
    testing::{service, with},
};

use super::*;

const CLASS: &str = "a.io/x";

const ALL: [AddedBy; 4] = [
    AddedBy::Unknown,
    AddedBy::MaybeOthers,
    AddedBy::ThisProcess,
    AddedBy::ThisProcessAfterOthers,
];

fn finalizer() -> Value {
    json!({"metadata": {"finalizers": [FINALIZER]}})
}

fn annotation(value: &str) -> Value {
    json!({"metadata": {"annotations": {ANNOTATION_CLASS: format!("{value}@uid-web")}}})
}

fn class(class: &str) -> Value {
    json!({"spec": {"loadBalancerClass": class}})
}

fn gone() -> Value {
    json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
}

/// Returns a Service with all of these.
fn of(changes: &[Value]) -> Service {
    let plain = service("web");
    changes
        .iter()
        .fold(plain, |service, change| with(&service, change))
}

fn classes() -> Classes {
    Classes {
        named: [CLASS.to_owned()].into(),
        unnamed: true,
    }
}

fn remove(class_annotation: bool) -> FinalizerAction {
    FinalizerAction::Remove { class_annotation }
}

fn leave() -> FinalizerAction {
    FinalizerAction::Leave {
        class_annotation: format!("left:{CLASS}@uid-web"),
    }
}

#[test]
fn what_this_process_writes_tells_who_has_added_the_finalizer() {
    for (known, found, added) in [
        (AddedBy::Unknown, AddedBy::MaybeOthers, AddedBy::ThisProcess),
        (
            AddedBy::MaybeOthers,
            AddedBy::MaybeOthers,
            AddedBy::ThisProcessAfterOthers,
        ),
        (
            AddedBy::ThisProcess,
            AddedBy::ThisProcess,
            AddedBy::ThisProcess,
        ),
        (
            AddedBy::ThisProcessAfterOthers,
            AddedBy::ThisProcessAfterOthers,
            AddedBy::ThisProcessAfterOthers,
        ),
    ] {
        let after = [true, false].map(|before| known.after_write(before));
        assert_eq!(after, [found, added], "{known:?}");
    }
}

// Holds: S-24, S-33
#[test]
fn who_has_added_the_finalizer_decides_at_a_hand_over() {
    let keep = FinalizerAction::Keep;
    let with_class = [finalizer(), class(CLASS)];
    let live = of(&[with_class.as_slice(), &[annotation(CLASS)]].concat());
    let left = of(&[with_class.as_slice(), &[annotation("left:a.io/x")]].concat());
    let bare = of(&with_class);
    let others = of(&[finalizer(), class(CLASS), annotation("b.io/y")]);
    // What happens to the finalizer, by who has added it: not known, maybe others, this process.
    for (what, service, ensured, expected) in [
        ("no finalizer", of(&[]), false, [&keep, &keep, &keep]),
        (
            "no finalizer, annotated",
            of(&[class(CLASS), annotation(CLASS)]),
            false,
            [&keep, &keep, &keep],
        ),
        (
            "live annotation",
            live.clone(),
            false,
            [&remove(true), &leave(), &remove(true)],
        ),
        (
            "live annotation, ensured",
            live.clone(),
            true,
            [&remove(true), &leave(), &remove(true)],
        ),
        (
            "no annotation",
            bare.clone(),
            false,
            [&keep, &keep, &remove(false)],
        ),
        (
            "left annotation",
            left.clone(),
            false,
            [&keep, &keep, &remove(true)],
        ),
        (
            "deleted",
            with(&bare, &gone()),
            false,
            [&remove(false), &remove(false), &remove(false)],
        ),
        (
            "deleted, live annotation",
            with(&live, &gone()),
            false,
            [&remove(true), &remove(true), &remove(true)],
        ),
        (
            "annotation of another host",
            others.clone(),
            false,
            [&keep, &leave_without_class(), &remove(true)],
        ),
        (
            "annotation of another host, deleted",
            with(&others, &gone()),
            false,
            [&keep, &keep, &remove(true)],
        ),
    ] {
        let [unknown, maybe_others, this_process] = expected;
        for (added_by, expected) in
            ALL.into_iter()
                .zip([unknown, maybe_others, this_process, this_process])
        {
            let classes = classes();
            let ending = Ending {
                service: &service,
                present: Some(&service),
                classes: &classes,
                added_by,
                ensured,
            };
            assert_eq!(ending.at_hand_over(), *expected, "{what} {added_by:?}");
        }
    }

    // The attempt has written the annotation, or both.
    for (service, added_by, expected) in [
        (bare, AddedBy::MaybeOthers, leave()),
        (left, AddedBy::MaybeOthers, leave()),
        (of(&[class(CLASS)]), AddedBy::ThisProcess, remove(true)),
        (of(&[]), AddedBy::ThisProcess, remove(false)),
    ] {
        let classes = classes();
        let ending = Ending {
            service: &service,
            present: Some(&service),
            classes: &classes,
            added_by,
            ensured: true,
        };
        assert_eq!(ending.at_hand_over(), expected, "{added_by:?} {service:?}");
    }
}

/// Returns the annotation of a finalizer that was left by a host that does not serve its class.
fn leave_without_class() -> FinalizerAction {
    FinalizerAction::Leave {
        class_annotation: "left:@uid-web".to_owned(),
    }
}

// Holds: S-33, S-36
#[test]
fn after_a_deletion_the_finalizer_stays_only_for_those_who_rely_on_it() {
    let own = of(&[finalizer(), class(CLASS), annotation(CLASS)]);
    let moved = with(&own, &class("b.io/y"));
    let cluster_ip = with(&own, &json!({"spec": {"type": "ClusterIP"}}));
    let released = with(&moved, &json!({"metadata": {"finalizers": null}}));
    let others = of(&[finalizer(), class("b.io/y"), annotation("b.io/y")]);
    for (what, service, present, unknown, this_process) in [
        ("unchanged", &own, Some(&own), remove(true), remove(true)),
        ("deleted", &own, None, remove(true), remove(true)),
        ("moved", &own, Some(&moved), leave(), leave()),
        (
            "moved and being deleted",
            &own,
            Some(&with(&moved, &gone())),
            remove(true),
            remove(true),
        ),
        (
            "moved without it",
            &own,
            Some(&released),
            remove(true),
            remove(true),
        ),
        (
            "type changed",
            &own,
            Some(&cluster_ip),
            remove(true),
            remove(true),
        ),
        (
            "never with it",
            &of(&[]),
            Some(&moved),
            FinalizerAction::Keep,
            FinalizerAction::Keep,
        ),
        (
            "of another host",
            &others,
            Some(&own),
            FinalizerAction::Keep,
            remove(true),
        ),
    ] {
        for (added_by, expected) in
            ALL.into_iter()
                .zip([&unknown, &unknown, &this_process, &this_process])
        {
            let classes = classes();
            let ending = Ending {
                service,
                present,
                classes: &classes,
                added_by,
                ensured: false,
            };
            assert_eq!(ending.after_deletion(), *expected, "{what} {added_by:?}");
        }
    }
}
