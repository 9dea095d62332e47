use serde_json::json;
use skydock_controller_base::testing::{service, with};
use skydock_kube::election::lease_annotation;

use super::*;

const PERIOD: Duration = Duration::from_secs(1800);

fn line(node_fields: NodeFields, nodes: u128, checked: u64) -> Line {
    Line {
        node_fields,
        nodes,
        checked,
    }
}

fn record() -> Record {
    Record::from_iter([
        (Key(1), line(NodeFields::Target, 7, 1000)),
        (Key(2), line(NodeFields::All, 7, 1001)),
        (Key(u128::MAX), line(NodeFields::Target, u128::MAX, 1002)),
        (Key(4), line(NodeFields::Target, 7, 1003)),
    ])
}

/// Returns the Lease of a holder with this mark.
fn held(uid: &str, transitions: i32, text: Option<&str>) -> Held {
    let (annotation, writer) = lease_annotation("annotation");
    let lease = json!({
        "metadata": {"uid": uid, "annotations": text.map(|text| json!({"annotation": text}))},
        "spec": {"leaseTransitions": transitions},
    });
    writer.confirm(&serde_json::from_value(lease).unwrap(), 0);
    annotation.held().unwrap()
}

#[test]
fn a_record_is_read_as_it_was_written() {
    let all = record();
    assert_eq!(Record::decode(&all.encode()), Some(all.clone()));
    assert_eq!(
        Record::decode(&Record::default().encode()),
        Some(Record::default())
    );

    let bytes = all.encode();
    // Each place where it can be cut, except between two groups.
    let groups = [1, 1 + 21 + 2 * 20, 1 + 2 * 21 + 3 * 20];
    for length in 0..bytes.len() {
        let cut = Record::decode(&bytes[..length]);
        assert_eq!(cut.is_some(), groups.contains(&length), "{length}");
    }
    for first in [0, FORMAT + 1, u8::MAX] {
        assert_eq!(Record::decode(&[first]), None);
    }
}

#[test]
fn lines_that_have_ended_need_not_be_excepted() {
    let period = Duration::from_secs(1800);
    let keys = |now| record().keys(now, period).count();
    // They were checked at 1000 to 1003, and the clock of the next process may be a minute ahead.
    for (now, expected) in [(1000, 4), (2739, 4), (2740, 3), (2743, 0), (0, 4)] {
        assert_eq!(keys(now), expected, "{now}");
    }
}

#[test]
fn ten_thousand_services_fit_into_a_quarter_of_a_config_map() {
    let lines = (0..10_000).map(|number| (Key(number), line(NodeFields::Target, number % 3, 1)));
    assert!(lines.collect::<Record>().encode().len() < 256 * 1024);
}

#[test]
fn only_the_last_holders_mark_of_this_record_counts() {
    let (bytes, other) = (record().encode(), Record::default().encode());
    let mark = |uid: &str, holder, record: &[u8], except: &[Key]| {
        let except = except.iter().copied().collect();
        Mark::text(&held(uid, holder, None), &sha256(record), &except)
    };
    let all = &[1, 2, u128::MAX, 4][..];

    for (text, expected, why) in [
        (mark("a", 4, &bytes, &[]), all, "it is true"),
        (
            mark("a", 4, &bytes, &[Key(1), Key(9)]),
            &[2, u128::MAX, 4],
            "a call is in flight",
        ),
        (
            mark("a", 4, &bytes, &[Key(1), Key(2), Key(u128::MAX), Key(4)]),
            &[],
            "all are",
        ),
        (None, &[], "it was removed"),
        (Some(String::new()), &[], "it was emptied"),
        (Some("{}".into()), &[], "it has another format"),
        (mark("a", 3, &bytes, &[]), &[], "somebody led in between"),
        (mark("a", 5, &bytes, &[]), &[], "of this holder"),
        (mark("a", i32::MAX, &bytes, &[]), &[], "of nobody"),
        (
            mark("b", 4, &bytes, &[]),
            &[],
            "of a Lease that was deleted",
        ),
        (mark("a", 4, &other, &[]), &[], "of another record"),
    ] {
        let believed = believed(&held("a", 5, text.as_deref()), &bytes);
        let keys: BTreeSet<_> = believed.0.keys().copied().collect();
        let expected = expected.iter().map(|key| Key(*key)).collect();
        assert_eq!(keys, expected, "{why}: {text:?}");
    }

    let odd = b"\x01\x02";
    let text = mark("a", 4, odd, &[]);
    assert_eq!(
        believed(&held("a", 5, text.as_deref()), odd),
        Record::default()
    );
}

#[test]
fn a_record_is_not_believed_after_a_long_time_without_leader() {
    let bytes = record().encode();
    let text = Mark::text(&held("a", 4, None), &sha256(&bytes), &BTreeSet::new());
    for (seconds, lines) in [(0, 4), (120, 4), (121, 0)] {
        let mut held = held("a", 5, text.as_deref());
        held.unattended = Duration::from_secs(seconds);
        assert_eq!(believed(&held, &bytes).0.len(), lines, "{seconds}");
    }
}

#[test]
fn a_line_ends_before_the_next_check_is_due() {
    let one = Record::from_iter([(Key(1), line(NodeFields::Target, 7, 10_000))]);
    for (now, period, counts) in [
        (10_000, 1800, true),
        // The clocks differ.
        (9_940, 1800, true),
        (9_939, 1800, false),
        (11_739, 1800, true),
        (11_740, 1800, false),
        (11_800, 1800, false),
        (99_999, 1800, false),
        (10_014, 20, true),
        (10_015, 20, false),
        (10_000, 0, false),
    ] {
        let found = one.line(Key(1), now, Duration::from_secs(period));
        assert_eq!(found.is_some(), counts, "{now}, {period}");
    }
    assert_eq!(one.line(Key(2), 10_000, PERIOD), None);
}

#[test]
fn a_key_changes_with_the_service_and_the_provider() {
    let web = service("web");
    let key = Key::new(1, &web);
    assert_eq!(key, Key::new(1, &web.clone()));
    assert_ne!(key, Key::new(2, &web));

    for (change, same) in [
        (json!({"metadata": {"resourceVersion": "2"}}), true),
        (
            json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}),
            false,
        ),
        (
            json!({"metadata": {"annotations": {ANNOTATION_CLASS: "x"}}}),
            true,
        ),
        (json!({"metadata": {"uid": "other"}}), false),
        (json!({"metadata": {"labels": {"team": "b"}}}), false),
        (json!({"metadata": {"annotations": {"a": "b"}}}), false),
        (
            json!({"spec": {"loadBalancerSourceRanges": ["192.0.2.0/24"]}}),
            false,
        ),
        (json!({"spec": {"externalTrafficPolicy": "Local"}}), false),
    ] {
        let changed = Key::new(1, &with(&web, &change));
        assert_eq!(changed == key, same, "{change}");
    }
}
