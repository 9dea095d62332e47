use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::*;

/// A source whose value is the number of the attempt and is valid for `lifetime` seconds.
struct Counting {
    attempts: AtomicU64,
    inputs: AtomicU64,
    lifetime: u64,
    fails: Mutex<Option<Failure>>,
    /// Duration of an attempt in seconds.
    takes: AtomicU64,
}

#[async_trait]
impl Source for Arc<Counting> {
    type Value = u64;

    fn name(&self) -> &str {
        "test"
    }

    async fn renew(&self) -> Result<Issued<u64>, Failure> {
        let attempt = self.attempts.fetch_add(1, SeqCst) + 1;
        seconds(self.takes.load(SeqCst)).await;
        match self.fails.lock().clone() {
            Some(failure) => Err(failure),
            None => Ok(Issued {
                value: attempt,
                lifetime: Some(Duration::from_secs(self.lifetime)),
            }),
        }
    }

    async fn inputs(&self) -> u64 {
        self.inputs.load(SeqCst)
    }
}

fn counting(lifetime: u64) -> (Arc<Counting>, Arc<Renewed<Arc<Counting>>>) {
    let source = Arc::new(Counting {
        attempts: AtomicU64::new(0),
        inputs: AtomicU64::new(0),
        lifetime,
        fails: Mutex::default(),
        takes: AtomicU64::new(1),
    });
    let renewed = Renewed::new(Arc::clone(&source), CredentialMetrics::default());
    (source, Arc::new(renewed))
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn fail(source: &Counting, failure: Option<Failure>) {
    *source.fails.lock() = failure;
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_share_one_attempt() {
    let (source, renewed) = counting(3600);
    let all = (0..20)
        .map(|_| Arc::clone(&renewed))
        .map(|renewed| tokio::spawn(async move { renewed.get().await }));
    for task in all.collect::<Vec<_>>() {
        assert_eq!(*task.await.unwrap().unwrap().1, 1);
    }
    assert_eq!(source.attempts.load(SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_does_not_end_a_shared_attempt() {
    let (source, renewed) = counting(3600);
    let first = tokio::spawn({
        let renewed = Arc::clone(&renewed);
        async move { renewed.get().await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    first.abort();
    assert_eq!(*renewed.get().await.unwrap().1, 1);
    assert_eq!(source.attempts.load(SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_value_in_use_is_renewed_before_it_expires() {
    let (source, renewed) = counting(3600);
    renewed.get().await.unwrap();
    seconds(2600).await;
    assert_eq!(source.attempts.load(SeqCst), 1);
    seconds(400).await;
    assert_eq!(
        source.attempts.load(SeqCst),
        2,
        "at four fifths at the latest"
    );

    let before = Instant::now();
    assert_eq!(renewed.get().await.unwrap(), (2, Arc::new(2)));
    assert_eq!(Instant::now(), before, "nobody waited");
}

#[tokio::test(start_paused = true)]
async fn an_unused_value_is_not_renewed() {
    let (source, renewed) = counting(3600);
    renewed.get().await.unwrap();
    seconds(100_000).await;
    assert_eq!(
        source.attempts.load(SeqCst),
        2,
        "the second was never asked for"
    );
    assert_eq!(*renewed.get().await.unwrap().1, 3);
}

#[tokio::test(start_paused = true)]
async fn the_old_value_is_used_until_it_expires_if_renewal_fails() {
    let (source, renewed) = counting(3600);
    renewed.get().await.unwrap();

    fail(&source, Some(Failure::unavailable("down")));
    seconds(3500).await;
    let attempts = source.attempts.load(SeqCst);
    assert!(
        (5..30).contains(&attempts),
        "tries with growing distance: {attempts}"
    );
    assert_eq!(renewed.get().await.unwrap().0, 1);

    seconds(200).await;
    assert_eq!(
        renewed.get().await.unwrap_err(),
        Failure::unavailable("down")
    );

    fail(&source, None);
    seconds(60).await;
    assert_eq!(renewed.get().await.unwrap().0, 2);
}

#[tokio::test(start_paused = true)]
async fn a_denied_login_is_not_repeated_for_each_request() {
    let (source, renewed) = counting(3600);
    fail(&source, Some(Failure::denied("wrong password")));
    for _ in 0..100 {
        assert_eq!(
            renewed.get().await.unwrap_err(),
            Failure::denied("wrong password")
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    assert_eq!(source.attempts.load(SeqCst), 1);

    // The operator has corrected the file with the password.
    fail(&source, None);
    source.inputs.store(1, SeqCst);
    assert_eq!(renewed.get().await.unwrap().0, 1);
}

#[tokio::test(start_paused = true)]
async fn a_changed_file_renews_and_a_failure_keeps_the_old_value() {
    let (source, renewed) = counting(3600);
    assert_eq!(renewed.get().await.unwrap().0, 1);
    source.inputs.store(1, SeqCst);
    assert_eq!(renewed.get().await.unwrap().0, 2);

    fail(&source, Some(Failure::unavailable("down")));
    source.inputs.store(2, SeqCst);
    assert_eq!(renewed.get().await.unwrap().0, 2);
    assert_eq!(renewed.get().await.unwrap().0, 2);
    assert_eq!(source.attempts.load(SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn only_one_request_waits_for_an_issuer_that_hangs() {
    let (source, renewed) = counting(3600);
    assert_eq!(renewed.get().await.unwrap().0, 1);
    source.inputs.store(1, SeqCst);
    source.takes.store(1000, SeqCst);

    let begun = Instant::now();
    for _ in 0..100 {
        assert_eq!(renewed.get().await.unwrap().0, 1);
    }

    assert_eq!(
        begun.elapsed().as_secs(),
        MOMENT.as_secs(),
        "only who came first waited"
    );

    source.takes.store(1, SeqCst);
    seconds(60).await;
    assert_eq!(renewed.get().await.unwrap().0, 2);
}

#[tokio::test(start_paused = true)]
async fn a_value_has_changed_if_its_file_has() {
    let (source, renewed) = counting(3600);
    let (version, _) = renewed.get().await.unwrap();
    assert!(!renewed.changed(version).await);

    source.inputs.store(1, SeqCst);
    assert!(renewed.changed(version).await);
    assert!(!renewed.changed(version + 1).await);
    assert_eq!(source.attempts.load(SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn several_rejections_of_one_version_renew_once() {
    let (source, renewed) = counting(3600);
    let (version, _) = renewed.get().await.unwrap();
    let all = (0..10).map(|_| Arc::clone(&renewed));
    let all = all.map(|renewed| {
        tokio::spawn(async move { renewed.rejected(version, RequestKind(1)).await })
    });
    for task in all.collect::<Vec<_>>() {
        assert!(task.await.unwrap());
    }

    assert!(
        renewed.rejected(version, RequestKind(1)).await,
        "one that comes late finds the new one"
    );
    assert_eq!(source.attempts.load(SeqCst), 2);
    assert_eq!(renewed.get().await.unwrap().0, 2);
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_rejects_everything_causes_few_renewals() {
    let (source, renewed) = counting(3600);
    for _ in 0..60 {
        let (version, _) = renewed.get().await.unwrap();
        renewed.rejected(version, RequestKind(1)).await;
        seconds(1).await;
    }

    assert_eq!(
        source.attempts.load(SeqCst),
        11,
        "the first, and ten that it may take"
    );

    for _ in 0..600 {
        let (version, _) = renewed.get().await.unwrap();
        renewed.rejected(version, RequestKind(1)).await;
        seconds(1).await;
    }

    let attempts = source.attempts.load(SeqCst);
    assert!(
        (28..=33).contains(&attempts),
        "{attempts} in eleven minutes"
    );
}

#[tokio::test(start_paused = true)]
async fn a_second_renewal_waits_for_a_second() {
    struct Quick(AtomicU64);
    #[async_trait]
    impl Source for Quick {
        type Value = u64;
        fn name(&self) -> &str {
            "quick"
        }
        async fn renew(&self) -> Result<Issued<u64>, Failure> {
            Ok(Issued {
                value: self.0.fetch_add(1, SeqCst),
                lifetime: None,
            })
        }
        async fn inputs(&self) -> u64 {
            0
        }
    }

    let renewed = Renewed::new(Quick(AtomicU64::new(0)), CredentialMetrics::default());
    let (version, _) = renewed.get().await.unwrap();
    let start = Instant::now();
    assert!(renewed.rejected(version, RequestKind(1)).await);
    assert_eq!(Instant::now(), start, "the first time at once");

    assert!(renewed.rejected(version + 1, RequestKind(1)).await);
    assert_eq!(Instant::now(), start + Duration::from_secs(1));
    assert_eq!(*renewed.get().await.unwrap().1, 2);
}

#[tokio::test(start_paused = true)]
async fn values_revoked_one_by_one_are_renewed_immediately() {
    let (source, renewed) = counting(3600);
    for revoked in 1..=10 {
        let (version, _) = renewed.get().await.unwrap();
        seconds(3).await;
        assert!(renewed.rejected(version, RequestKind(1)).await, "{revoked}");
    }
    assert_eq!(source.attempts.load(SeqCst), 11);
}

#[tokio::test(start_paused = true)]
async fn a_path_that_always_rejects_does_not_use_up_all_renewals() {
    let (source, renewed) = counting(3600);
    for _ in 0..60 {
        let (version, _) = renewed.get().await.unwrap();
        renewed.accepted(version, RequestKind(2));
        if renewed.rejected(version, RequestKind(1)).await {
            renewed.rejected(version + 1, RequestKind(1)).await;
        }
        seconds(2).await;
    }

    assert_eq!(
        source.attempts.load(SeqCst),
        5,
        "the first, and two for each of two requests"
    );

    let (version, _) = renewed.get().await.unwrap();
    renewed.accepted(version, RequestKind(2));
    assert!(
        renewed.rejected(version, RequestKind(2)).await,
        "it may have been revoked"
    );

    seconds(300).await;
    let (version, _) = renewed.get().await.unwrap();
    renewed.accepted(version, RequestKind(2));
    assert!(
        renewed.rejected(version, RequestKind(1)).await,
        "the path may have been fixed"
    );
}

#[tokio::test(start_paused = true)]
async fn reports_a_failed_renewal_after_a_rejection() {
    let (source, renewed) = counting(3600);
    let (version, _) = renewed.get().await.unwrap();

    fail(&source, Some(Failure::unavailable("down")));
    assert!(!renewed.rejected(version, RequestKind(1)).await);
    assert!(!renewed.rejected(version, RequestKind(1)).await);
    assert_eq!(source.attempts.load(SeqCst), 2);
    // The service may be wrong, so the old value is used, and renewed as soon as another attempt is
    // allowed.
    assert_eq!(renewed.get().await.unwrap().0, 1);
    fail(&source, None);
    seconds(2).await;
    assert_eq!(renewed.get().await.unwrap().0, 2);
}

#[tokio::test(start_paused = true)]
async fn an_issuer_that_does_not_answer_is_unavailable() {
    struct Silent;
    #[async_trait]
    impl Source for Silent {
        type Value = ();
        fn name(&self) -> &str {
            "silent"
        }
        async fn renew(&self) -> Result<Issued<()>, Failure> {
            std::future::pending().await
        }
        async fn inputs(&self) -> u64 {
            0
        }
    }

    let renewed = Renewed::new(Silent, CredentialMetrics::default());
    assert_eq!(
        renewed.get().await.unwrap_err(),
        Failure::unavailable("its issuer did not answer within 30 s")
    );
}

#[tokio::test(start_paused = true)]
async fn values_that_expire_immediately_cause_few_attempts() {
    let (source, renewed) = counting(0);
    for _ in 0..30 {
        let _ = renewed.get().await;
    }
    assert!(
        source.attempts.load(SeqCst) <= 6,
        "{} in 30 s",
        source.attempts.load(SeqCst)
    );
}

/// A source whose first attempt does not end with a result.
struct Interrupted {
    attempts: AtomicU64,
    panics: bool,
}

#[async_trait]
impl Source for Interrupted {
    type Value = u64;

    fn name(&self) -> &str {
        "interrupted"
    }

    async fn renew(&self) -> Result<Issued<u64>, Failure> {
        let attempt = self.attempts.fetch_add(1, SeqCst) + 1;
        if attempt == 1 {
            assert!(!self.panics, "a bug of the source");
            std::future::pending::<()>().await;
        }
        Ok(Issued {
            value: attempt,
            lifetime: None,
        })
    }

    async fn inputs(&self) -> u64 {
        0
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_without_a_result_is_a_failure() {
    for panics in [true, false] {
        let attempts = AtomicU64::new(0);
        let source = Interrupted { attempts, panics };
        let renewed = Arc::new(Renewed::new(source, CredentialMetrics::default()));

        let waiting = tokio::spawn({
            let renewed = Arc::clone(&renewed);
            async move { renewed.get().await }
        });
        tokio::time::sleep(Duration::from_millis(1)).await;
        // As the shutdown of its runtime does.
        renewed.task.lock().as_ref().unwrap().abort();

        let ended = timeout(Duration::from_secs(60), waiting).await;
        let failure = ended.expect("a waiting request gets an answer").unwrap();
        assert_eq!(
            failure.unwrap_err(),
            Failure::unavailable("its renewal ended unexpectedly")
        );

        seconds(60).await;
        let next = timeout(Duration::from_secs(60), renewed.get()).await;
        let (version, value) = next.expect("the task is started again").unwrap();
        assert_eq!((version, *value), (1, 2), "panics: {panics}");
    }
}
