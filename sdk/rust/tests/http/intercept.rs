//! A test that has a hand in its requests.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use skydock_sdk::http::native::intercept;
use skydock_sdk::http::{self, Request, Response};
use skydock_sdk::types::CloudError;

use super::server::{Reply, Server};

fn answer(body: &str) -> Option<Response> {
    Some(Response { status: 200, body: body.into(), ..Response::default() })
}

fn get(url: &str) -> String {
    http::send(Request::get(url)).unwrap().text().unwrap().to_owned()
}

#[test]
fn a_hand_can_change_a_request() {
    let server =
        Server::start(|received| Reply::ok(received.headers.get("x-auth-token").map_or("none", |token| token)));
    {
        let _token = intercept(|request| {
            request.headers.push(("X-Auth-Token".into(), format!("for {}", request.method)));
            None
        });
        assert_eq!(get(&server.url), "for GET");
    }
    assert_eq!(get(&server.url), "none", "it ends with its guard");
}

#[test]
fn a_hand_can_answer_from_all_threads_of_the_sender() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let _cloud = intercept(move |request| {
        counted.fetch_add(1, Ordering::Relaxed);
        answer(&request.url)
    });
    let requests = (0..50).map(|number| Request::get(format!("https://cloud.example/{number}"))).collect();
    for (number, response) in http::send_all(requests, 8).into_iter().enumerate() {
        assert_eq!(response.unwrap().text(), Ok(format!("https://cloud.example/{number}").as_str()));
    }
    assert_eq!(count.load(Ordering::Relaxed), 50);
}

#[test]
fn the_newest_hand_comes_first_and_each_ends_with_its_guard() {
    let old = intercept(|request| answer(&format!("old{}", request.url.len())));
    let new = intercept(|request| match request.url.as_str() {
        "http://pass" => {
            request.url.push_str("ed");
            None
        }
        _ => answer("new"),
    });
    assert_eq!((get("http://a"), get("http://pass")), ("new".into(), "old13".into()));
    drop(old);
    assert_eq!(get("http://a"), "new", "dropped in any order");
    drop(new);
    assert!(http::send(Request::get("https://a")).is_err());
}

#[test]
fn tests_beside_each_other_have_hands_of_their_own() {
    let _here = intercept(|_| answer("here"));
    let there = std::thread::spawn(|| http::send(Request::get("https://a"))).join().unwrap();
    assert!(matches!(there, Err(CloudError::Unavailable(_))), "{there:?}");
    assert_eq!(get("https://a"), "here");
}

#[test]
fn a_request_that_no_host_would_send_is_not_answered() {
    let _cloud = intercept(|_| answer("fine"));
    for request in [Request::get("no-url"), Request::get("https://a").header("Host", "b")] {
        assert!(matches!(http::send(request), Err(CloudError::Internal(_))));
    }
}
