use std::cell::RefCell;

use futures::FutureExt;
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::json;
use skydock_cloud::NodeFields;
use skydock_kube::{
    election::{Held, LeaseAnnotationWriter, lease_annotation},
    testing::FakeApi,
};
use tokio::{task::unconstrained, time::sleep};

use super::*;
use crate::record::Line;

const ALL: &str = "/api/v1/namespaces/kube-system/configmaps";
const ONE: &str = "/api/v1/namespaces/kube-system/configmaps/ccm-load-balancer-nodes";
const PERIOD: Duration = Duration::from_secs(1800);

/// A holder of the Lease with its keeper. The test renews the Lease.
struct Process {
    api: FakeApi,
    keeper: Keeper,
    writer: LeaseAnnotationWriter,
    lease: RefCell<Lease>,
}

impl Process {
    fn new(text: Option<&str>) -> Self {
        let (annotation, writer) = lease_annotation("annotation");
        let lease = lease(5, text);
        writer.confirm(&lease, 0);
        let api = FakeApi::default();
        let store = RecordStore::new(&api.client(), "kube-system", "ccm", "", annotation);
        let keeper = Keeper::new(store, PERIOD);
        Self {
            api,
            keeper,
            writer,
            lease: RefCell::new(lease),
        }
    }

    fn renew(&self) {
        let mut lease = self.lease.borrow_mut();
        let number = self.writer.apply(&mut lease.metadata.annotations);
        self.writer.confirm(&lease, number);
    }

    /// Returns the Lease as the next process finds it, if this one is killed now.
    fn next(&self) -> Held {
        let mut lease = self.lease.borrow().clone();
        lease.spec.as_mut().unwrap().lease_transitions = Some(6);
        held(&lease)
    }

    /// Returns what the next process believes if it finds this record.
    fn believes(&self, bytes: &[u8]) -> usize {
        believed(&self.next(), bytes).0.len()
    }

    /// Waits for this while the Lease is renewed.
    async fn renewing<T>(&self, future: impl Future<Output = T>) -> T {
        let renewals = async {
            loop {
                sleep(Duration::from_millis(100)).await;
                self.renew();
            }
        };
        tokio::select! {
            done = future => done,
            () = renewals => unreachable!(),
        }
    }

    /// Lets the keeper write a record of these Services. The ConfigMap does not exist.
    async fn writes(&self, lines: &[ServiceLine]) -> Vec<u8> {
        self.renewing(self.keeper.write(|| lines.to_vec())).await;
        bytes(lines)
    }

    /// Returns the number of requests.
    fn requests(&self) -> usize {
        self.api.requests().len()
    }
}

fn lease(transitions: i32, text: Option<&str>) -> Lease {
    serde_json::from_value(json!({
        "metadata": {"uid": "a", "annotations": text.map(|text| json!({"annotation": text}))},
        "spec": {"leaseTransitions": transitions},
    }))
    .unwrap()
}

fn held(lease: &Lease) -> Held {
    let (annotation, writer) = lease_annotation("annotation");
    writer.confirm(lease, 0);
    annotation.held().unwrap()
}

/// Drops a future that waits, as if its process was killed.
async fn killed(future: impl Future<Output = ()>) {
    assert!(timeout(Duration::from_secs(1), future).await.is_err());
}

fn lines(count: u128) -> Vec<ServiceLine> {
    let line = Line {
        node_fields: NodeFields::Target,
        nodes: 1,
        checked: unix_time(),
    };
    (0..count)
        .map(|number| ServiceLine {
            uid: number.to_string(),
            key: Key(number),
            line,
        })
        .collect()
}

fn bytes(lines: &[ServiceLine]) -> Vec<u8> {
    let lines = lines.iter().map(|it| (it.key, it.line));
    lines.collect::<Record>().encode()
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_until_its_line_is_not_valid() {
    let process = Process::new(None);
    let record = process.writes(&lines(3)).await;
    assert_eq!(process.believes(&record), 3);

    // A new Service, of which the record says nothing.
    assert!(process.keeper.invalidate("new").now_or_never().is_some());

    let keeper = &process.keeper;
    let calls = async { tokio::join!(keeper.invalidate("0"), keeper.invalidate("1")) };
    tokio::pin!(calls);
    assert!(calls.as_mut().now_or_never().is_none(), "both wait");
    process.renewing(calls).await;
    assert_eq!(process.believes(&record), 1);
    assert!(
        keeper.invalidate("0").now_or_never().is_some(),
        "it is not valid"
    );
}

#[tokio::test(start_paused = true)]
async fn a_slow_record_delays_only_calls_that_it_is_about() {
    let process = Process::new(None);
    process.api.hang("POST", ALL);
    let lines = lines(2);
    let writing = process.keeper.write(|| lines.clone());
    tokio::pin!(writing);
    assert!(writing.as_mut().now_or_never().is_none());
    assert!(process.keeper.invalidate("new").now_or_never().is_some());
    assert!(process.keeper.invalidate("0").now_or_never().is_none());

    // It is not answered.
    writing.await;
    assert!(process.keeper.invalidate("0").now_or_never().is_some());

    // A call that begins while the lines are gathered may be about one of them.
    let gathering = || {
        let invalidating = process.keeper.invalidate("new").now_or_never();
        assert!(invalidating.is_none());
        lines.clone()
    };
    process.renewing(process.keeper.write(gathering)).await;
    assert!(process.keeper.invalidate("new").now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_set_forward_ends_no_line() {
    for (forward, waits) in [(0, false), (7200, true)] {
        let mut process = Process::new(None);
        process.keeper.started.0 -= forward;
        let mut lines = lines(1);
        // It ended a while ago, by the clock of this process.
        lines[0].line.checked -= PERIOD.as_secs() + 60;
        let record = process.writes(&lines).await;
        let call = process.keeper.invalidate("0");
        tokio::pin!(call);
        assert_eq!(call.as_mut().now_or_never().is_none(), waits);
        if waits {
            process.renewing(call).await;
        }
        assert_eq!(
            process.believes(&record),
            usize::from(!waits),
            "if it counts"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_canceled_while_it_waits_leaves_the_others_waiting() {
    let process = Process::new(None);
    let record = process.writes(&lines(3)).await;
    killed(process.keeper.invalidate("0")).await;
    killed(process.keeper.invalidate("0")).await;
    process.renewing(process.keeper.invalidate("0")).await;
    assert_eq!(process.believes(&record), 2);
}

#[tokio::test(start_paused = true)]
async fn if_many_lines_are_invalidated_all_are() {
    let count = MOST_EXCEPTIONS as u128 + 1;
    for at_once in [false, true] {
        let process = Process::new(None);
        let record = process.writes(&lines(count)).await;
        assert_eq!(process.believes(&record), MOST_EXCEPTIONS + 1);
        assert!(
            process
                .keeper
                .invalidate_many(MOST_EXCEPTIONS)
                .now_or_never()
                .is_some()
        );

        for number in 0..count {
            let keeper = &process.keeper;
            let uid = number.to_string();
            // Otherwise, it waits for other tasks after a while.
            let mut invalidating = Box::pin(unconstrained(async {
                if at_once {
                    keeper.invalidate_many(MOST_EXCEPTIONS + 1).await;
                }
                keeper.invalidate(&uid).await;
            }));
            let waits = invalidating.as_mut().now_or_never().is_none();
            assert_eq!(waits, !at_once || number == 0, "{number}");
            if waits {
                process.renewing(invalidating).await;
            }
        }
        assert_eq!(process.next().text, None);
        assert_eq!(process.believes(&record), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_is_believed_only_after_it_was_written() {
    let process = Process::new(None);
    process.api.hang("POST", ALL);
    let (old, new) = (lines(2), lines(3));
    let (old_bytes, new_bytes) = (bytes(&old), bytes(&new));
    killed(process.keeper.write(|| old.clone())).await;
    process.renew();
    assert_eq!(process.believes(&old_bytes), 0, "killed before the answer");

    process.writes(&old).await;
    assert_eq!(process.believes(&old_bytes), 2);

    // The record is replaced, and the mark is still that of the old one.
    let answer = json!({"metadata": {"resourceVersion": "2"}});
    process.api.answer("PUT", ONE, 200, answer);
    killed(process.keeper.write(|| new.clone())).await;
    let last = process.api.requests().pop().unwrap();
    assert_eq!((&*last.method, &*last.path), ("PUT", ONE));
    assert_eq!(process.believes(&new_bytes), 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_makes_nobody_believe_more() {
    let process = Process::new(None);
    let (old, new) = (lines(2), lines(3));
    let old_bytes = process.writes(&old).await;
    let new_bytes = bytes(&new);

    // It is written, but not answered.
    process.api.hang("PUT", ONE);
    let found = json!({
        "metadata": {"resourceVersion": "2"},
        "binaryData": {RECORD: ByteString(new_bytes.clone())},
    });
    process.api.answer("GET", ONE, 200, found);
    process.keeper.write(|| new.clone()).await;
    assert_eq!(process.believes(&new_bytes), 0);
    assert_eq!(process.believes(&old_bytes), 2, "if it was lost");
    assert!(process.keeper.has_changed(), "it is tried again");

    // A Service that only the new record contains gets other nodes, and then one of the old.
    assert!(process.keeper.invalidate("2").now_or_never().is_some());
    process.renewing(process.keeper.invalidate("0")).await;
    assert_eq!(process.believes(&new_bytes), 0);
    assert_eq!(process.believes(&old_bytes), 1);
}

#[tokio::test(start_paused = true)]
async fn without_permission_nothing_is_believed_and_nothing_waits() {
    for (code, reason) in [
        (403, "Forbidden"),
        (409, "Conflict"),
        (413, "TooLarge"),
        (500, ""),
    ] {
        let process = Process::new(None);
        process.api.fail("GET", ONE, code, reason);
        assert_eq!(process.keeper.load().await, Record::default());
        process.api.fail("POST", ALL, code, reason);
        process.api.fail("GET", ONE, code, reason);
        process.keeper.write(|| lines(2)).await;
        assert!(process.keeper.invalidate("0").now_or_never().is_some());
        assert_eq!(process.next().text, None);

        // It is tried again, but not at once.
        assert!(!process.keeper.is_due());
        tokio::time::advance(AFTER_FAILURE).await;
        assert!(process.keeper.is_due());
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_is_found_and_marked_again() {
    let all = lines(4);
    let record = bytes(&all);
    let first = held(&lease(4, None));
    // A call for one of them was in flight.
    let except = BTreeSet::from([Key(3)]);
    let text = Mark::text(&first, &sha256(&record), &except).unwrap();
    let process = Process::new(Some(&text));
    let found = json!({
        "metadata": {"resourceVersion": "2"},
        "binaryData": {RECORD: ByteString(record.clone())},
    });
    process.api.answer("GET", ONE, 200, found);
    let loaded = process.keeper.load().await;
    assert_eq!(loaded.0.len(), 3);
    assert_eq!(process.believes(&record), 0, "not yet by the one after it");

    let valid_line = |it: &ServiceLine| {
        let (key, until) = (it.key, it.line.until(PERIOD));
        (it.uid.clone(), ValidLine { key, until })
    };
    let adopted = all[..2].iter().map(valid_line).collect();
    process.renewing(process.keeper.adopt(adopted)).await;
    assert_eq!(process.believes(&record), 2, "one has no Service any more");
    assert_eq!(process.requests(), 1, "nothing was written");

    // The same record again costs no write, whatever was excepted.
    process.writes(&all).await;
    assert_eq!((process.believes(&record), process.requests()), (4, 1));
}

#[test]
fn a_record_waits_until_nothing_changes_but_not_forever() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let changed = |first, last| Stale {
        changed: Some(Changes {
            first: at(first),
            last: at(last),
        }),
        ..Stale::default()
    };
    let ended = |ended| Stale {
        ended,
        ..Stale::default()
    };
    for (stale, lines, now, due) in [
        (Stale::default(), 0, 1000, false),
        (changed(0, 0), 0, 9, false),
        (changed(0, 0), 0, 10, true),
        (changed(0, 299), 0, 299, false),
        (changed(0, 299), 0, 300, true),
        (ended(16), 0, 0, false),
        (ended(17), 0, 0, true),
        (ended(78), 1000, 0, false),
        (ended(79), 1000, 0, true),
    ] {
        assert_eq!(stale.is_due(lines, at(now)), due, "{stale:?} at {now}");
        let later = Stale {
            not_before: Some(at(now + 1)),
            ..stale
        };
        assert!(!later.is_due(lines, at(now)));
    }
}
