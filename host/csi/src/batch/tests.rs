use futures::{FutureExt as _, future::join_all};
use skydock_cloud::VolumeId;
use tokio::time::{Instant, sleep};

use super::*;
use crate::busy::{Busy, Object};

/// The lists of the calls that were made.
type Calls = Arc<Mutex<Vec<Vec<u32>>>>;

/// Returns a batch whose calls take a second and double each number. 13 exists, and with 97, 98 or
/// 99 the whole call fails.
fn doubling(max: usize) -> (Arc<Batch<u32, u32>>, Calls) {
    let calls = Calls::default();
    let made = Arc::clone(&calls);
    let batch = Batch::new(
        move || max,
        move |numbers: Vec<u32>| {
            made.lock().push(numbers.clone());
            async move {
                sleep(Duration::from_secs(1)).await;
                if numbers.contains(&99) {
                    return Err(CloudError::Conflict("all of them".into()));
                }
                if numbers.contains(&97) {
                    return Err(CloudError::Invalid("`..` is not an ID".into()));
                }
                if numbers.contains(&98) {
                    return Err(CloudError::NotFound("the catalog".into()));
                }
                let double = |number: &u32| match number {
                    13 => Err(StorageError::Exists("unlucky".into())),
                    _ => Ok(number * 2),
                };
                Ok(numbers.iter().map(double).collect())
            }
            .boxed()
        },
    );
    (batch, calls)
}

#[tokio::test(start_paused = true)]
async fn questions_at_the_same_time_are_one_call() {
    let (batch, calls) = doubling(100);
    let answers = join_all([1, 13, 3].map(|it| batch.ask(it, None))).await;
    assert_eq!(
        answers,
        [Ok(2), Err(StorageError::Exists("unlucky".into())), Ok(6)]
    );
    let later = batch.ask(4, None).await;
    assert_eq!(later, Ok(8));
    assert_eq!(*calls.lock(), [vec![1, 13, 3], vec![4]]);
}

#[tokio::test(start_paused = true)]
async fn a_full_list_does_not_wait() {
    let (batch, calls) = doubling(2);
    let started = Instant::now();
    let answers = join_all([1, 2, 3, 4, 5].map(|it| batch.ask(it, None))).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(started.elapsed(), Duration::from_secs(1), "no window");
    let sizes: Vec<_> = calls.lock().iter().map(Vec::len).collect();
    assert_eq!(sizes, [2, 2, 1]);
}

#[tokio::test(start_paused = true)]
async fn questions_during_a_call_are_the_next_one() {
    let (batch, calls) = doubling(100);
    let late = async {
        sleep(Duration::from_millis(500)).await;
        join_all([2, 3].map(|it| batch.ask(it, None))).await
    };
    let (first, others) = tokio::join!(batch.ask(1, None), late);
    assert_eq!((first, others), (Ok(2), vec![Ok(4), Ok(6)]));
    assert_eq!(*calls.lock(), [vec![1], vec![2, 3]]);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_call_is_that_of_each_question() {
    let (batch, _) = doubling(100);
    let answers = join_all([1, 99].map(|it| batch.ask(it, None))).await;
    let expected = || {
        let error = CloudError::Conflict("all of them".into());
        Err(StorageError::Cloud(error))
    };
    assert_eq!(answers, [expected(), expected()]);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_call_is_final_for_no_question() {
    let (batch, _) = doubling(100);
    let answers = join_all([1, 98].map(|it| batch.ask(it, None))).await;
    for answer in answers {
        let failure = crate::Failure::from(answer.unwrap_err());
        assert!(!failure.code.is_final(), "{failure}");
        assert!(failure.message.contains("the catalog"), "{failure}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_invalid_question_does_not_fail_the_others() {
    let (batch, calls) = doubling(100);
    let answers = join_all([1, 97, 3].map(|it| batch.ask(it, None))).await;
    let message = "invalid: `..` is not an ID".to_owned();
    let unavailable = StorageError::Cloud(CloudError::Unavailable(message));
    assert_eq!(answers, [Ok(2), Err(unavailable), Ok(6)]);
    let mut sizes: Vec<_> = calls.lock().iter().map(Vec::len).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [1, 1, 1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn an_operation_lasts_until_the_plugin_has_answered() {
    let (batch, calls) = doubling(100);
    let busy = Busy::default();
    let object = || Object::Volume(VolumeId("a".into()));
    let operation = Arc::new(busy.begin(object()).unwrap());

    // The caller goes away in the middle of the call.
    let asked = batch.ask(1, Some(operation));
    let gone = tokio::time::timeout(Duration::from_millis(500), asked).await;
    assert!(gone.is_err());
    assert!(busy.begin(object()).is_err(), "the plugin is still at work");

    sleep(Duration::from_secs(1)).await;
    assert_eq!(*calls.lock(), [vec![1]]);
    assert!(busy.begin(object()).is_ok());
}
