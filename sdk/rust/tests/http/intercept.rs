//! Tests that intercept their requests.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use skydock_sdk::http::native::intercept;
use skydock_sdk::http::{self, Request, Response};
use skydock_sdk::types::CloudError;

use super::server::{Reply, Server};

fn answer(body: &str) -> Option<Response> {
    Some(Response {
        status: 200,
        body: body.into(),
        ..Response::default()
    })
}

fn get(url: &str) -> String {
    http::send(Request::get(url))
        .unwrap()
        .text()
        .unwrap()
        .to_owned()
}

#[test]
fn an_interceptor_can_change_a_request() {
    let server = Server::start(|received| {
        Reply::ok(
            received
                .headers
                .get("x-auth-token")
                .map_or("none", |token| token),
        )
    });
    {
        let _token = intercept(|request| {
            request
                .headers
                .push(("X-Auth-Token".into(), format!("for {}", request.method)));
            None
        });
        assert_eq!(get(&server.url), "for GET");
    }
    assert_eq!(get(&server.url), "none", "it ends with its guard");
}

#[test]
fn an_interceptor_answers_on_all_threads_of_send_all() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let _cloud = intercept(move |request| {
        counted.fetch_add(1, Ordering::Relaxed);
        answer(&request.url)
    });
    let requests = (0..50)
        .map(|number| Request::get(format!("https://cloud.example/{number}")))
        .collect();
    for (number, response) in http::send_all(requests, 8).into_iter().enumerate() {
        assert_eq!(
            response.unwrap().text(),
            Ok(format!("https://cloud.example/{number}").as_str())
        );
    }
    assert_eq!(count.load(Ordering::Relaxed), 50);
}

#[test]
fn the_newest_interceptor_is_first_until_its_guard_drops() {
    let old = intercept(|request| answer(&format!("old{}", request.url.len())));
    let new = intercept(|request| match request.url.as_str() {
        "http://pass" => {
            request.url.push_str("ed");
            None
        }
        _ => answer("new"),
    });
    assert_eq!(
        (get("http://a"), get("http://pass")),
        ("new".into(), "old13".into())
    );
    drop(old);
    assert_eq!(get("http://a"), "new", "dropped in any order");
    drop(new);
    assert!(http::send(Request::get("https://a")).is_err());
}

#[test]
fn concurrent_tests_do_not_share_interceptors() {
    let _here = intercept(|_| answer("here"));
    let there = std::thread::spawn(|| http::send(Request::get("https://a")))
        .join()
        .unwrap();
    assert!(
        matches!(there, Err(CloudError::Unavailable(_))),
        "{there:?}"
    );
    assert_eq!(get("https://a"), "here");
}

#[test]
fn an_invalid_request_does_not_reach_an_interceptor() {
    let _cloud = intercept(|_| answer("fine"));
    for request in [
        Request::get("no-url"),
        Request::get("https://a").header("Host", "b"),
    ] {
        assert!(matches!(http::send(request), Err(CloudError::Internal(_))));
    }
}
