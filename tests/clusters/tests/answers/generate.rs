//! Generates random sequences of requests.

mod bodies;
mod options;

use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::Value;

use self::bodies::{again, json_patch, merge_patch, named, strategic_patch};
use super::{
    kinds::{KINDS, Kind},
    request::{Body, Request},
};

/// Returns the requests of one sequence. All of them are about one kind, which the seed determines,
/// because kinds rarely affect each other.
pub(crate) fn sequence(seed: u64) -> impl Strategy<Value = Vec<Request>> {
    let kind = usize::try_from(seed)
        .ok()
        .and_then(|seed| KINDS.get(seed % KINDS.len()))
        .unwrap_or(&KINDS[0]);
    let first = proptest::option::weighted(
        if kind.plural == "pods" { 0.001 } else { 0.9 },
        create(kind, 0.8),
    );
    (first, vec(request(kind), 1..9))
        .prop_map(|(first, rest)| first.into_iter().chain(rest).collect())
}

const JSON: &str = "application/json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const MERGE: &str = "application/merge-patch+json";

impl Kind {
    fn collection(&self) -> String {
        let namespace = if self.namespaced {
            "/namespaces/{ns}"
        } else {
            ""
        };
        format!("{}{namespace}/{}", self.root, self.plural)
    }

    /// Returns a name that is unique to the sequence.
    fn name(&self, name: &str) -> String {
        if self.namespaced {
            name.to_owned()
        } else {
            format!("{{ns}}-{name}")
        }
    }

    fn object(&self, name: &str) -> String {
        format!("{}/{}", self.collection(), self.name(name))
    }

    fn good(&self) -> Value {
        serde_json::from_str(self.good).unwrap_or_default()
    }
}

fn request(kind: &'static Kind) -> BoxedStrategy<Request> {
    let reads = prop_oneof![3 => get(kind), 3 => list(kind), 2 => watch(kind), 1 => odd(kind)];
    if kind.plural == "pods" {
        return reads.boxed();
    }
    prop_oneof![
        3 => create(kind, 0.5),
        3 => update(kind),
        6 => patch(kind),
        4 => delete(kind),
        1 => delete_all(kind),
        5 => reads,
        1 => subresource(kind),
    ]
    .boxed()
}

/// Returns a name, usually the first one.
fn name() -> impl Strategy<Value = &'static str> {
    select(&["a", "a", "a", "b"][..])
}

fn subresources(kind: &'static Kind) -> impl Strategy<Value = String> {
    let with: Vec<_> = kind
        .subresources
        .iter()
        .filter(|name| **name == "status")
        .map(|name| format!("/{name}"))
        .collect();
    let all: Vec<String> = [String::new(), String::new(), String::new()]
        .into_iter()
        .chain(with)
        .collect();
    select(all)
}

fn create(kind: &'static Kind, good: f64) -> impl Strategy<Value = Request> {
    let body = named(kind, good);
    (body, name(), options::writing(), options::accept()).prop_map(
        move |(mut body, name, query, accept)| {
            if body.pointer("/metadata/generateName").is_none()
                && body.pointer("/metadata/name").is_none()
            {
                body["metadata"]["name"] = kind.name(name).into();
            }
            Request {
                method: "POST",
                path: kind.collection(),
                query,
                accept,
                media: JSON,
                body: Body::Json(body),
            }
        },
    )
}

fn update(kind: &'static Kind) -> impl Strategy<Value = Request> {
    (
        again(kind),
        name(),
        subresources(kind),
        options::writing(),
        options::accept(),
    )
        .prop_map(
            move |((edit, mut otherwise), name, subresource, query, accept)| {
                otherwise["metadata"]["name"] = kind.name(name).into();
                let path = kind.object(name) + &subresource;
                Request {
                    method: "PUT",
                    path,
                    query,
                    accept,
                    media: JSON,
                    body: Body::Again(edit, otherwise),
                }
            },
        )
}

fn patch(kind: &'static Kind) -> impl Strategy<Value = Request> {
    let body = prop_oneof![
        4 => merge_patch(kind).prop_map(|body| (MERGE, body)),
        3 => strategic_patch(kind).prop_map(|body| (STRATEGIC, body)),
        2 => json_patch(kind).prop_map(|body| ("application/json-patch+json", body)),
    ];
    (
        body,
        name(),
        subresources(kind),
        options::writing(),
        options::accept(),
    )
        .prop_map(move |((media, body), name, subresource, query, accept)| {
            let path = kind.object(name) + &subresource;
            Request {
                method: "PATCH",
                path,
                query,
                accept,
                media,
                body: Body::Json(body),
            }
        })
}

fn delete(kind: &'static Kind) -> impl Strategy<Value = Request> {
    (
        name(),
        options::deleting(),
        options::delete_body(),
        options::accept(),
    )
        .prop_map(move |(name, query, body, accept)| {
            let media = if body == Body::Empty { "" } else { JSON };
            Request {
                method: "DELETE",
                path: kind.object(name),
                query,
                accept,
                media,
                body,
            }
        })
}

fn delete_all(kind: &'static Kind) -> impl Strategy<Value = Request> {
    (
        options::selecting(kind),
        options::deleting(),
        options::delete_body(),
        options::accept(),
    )
        .prop_map(move |(mut query, more, body, accept)| {
            query.extend(more);
            let media = if body == Body::Empty { "" } else { JSON };
            Request {
                method: "DELETE",
                path: kind.collection(),
                query,
                accept,
                media,
                body,
            }
        })
}

fn get(kind: &'static Kind) -> impl Strategy<Value = Request> {
    (
        name(),
        subresources(kind),
        options::getting(),
        options::accept(),
    )
        .prop_map(move |(name, subresource, query, accept)| Request {
            query,
            accept,
            ..Request::get(kind.object(name) + &subresource)
        })
}

fn list(kind: &'static Kind) -> impl Strategy<Value = Request> {
    (
        options::selecting(kind),
        options::listing(kind),
        options::accept(),
    )
        .prop_map(move |(mut query, more, accept)| {
            query.extend(more);
            Request {
                query,
                accept,
                ..Request::get(kind.collection())
            }
        })
}

fn watch(kind: &'static Kind) -> impl Strategy<Value = Request> {
    (
        options::selecting(kind),
        options::watching(),
        options::accept(),
        proptest::option::weighted(0.1, name()),
    )
        .prop_map(move |(mut query, more, accept, name)| {
            query.extend(more);
            query.push(("watch", "true".to_owned()));
            let path = name.map_or_else(|| kind.collection(), |name| kind.object(name));
            Request {
                query,
                accept,
                ..Request::get(path)
            }
        })
}

/// Returns requests that only some kinds support.
fn subresource(kind: &'static Kind) -> BoxedStrategy<Request> {
    let put = move |path: String, body: Value| Request {
        method: if path.ends_with("token") {
            "POST"
        } else {
            "PUT"
        },
        path,
        query: Vec::new(),
        accept: "",
        media: JSON,
        body: Body::Json(body),
    };
    match kind.plural {
        "serviceaccounts" => (name(), bodies::token_request(), options::writing())
            .prop_map(move |(name, body, query)| Request {
                query,
                ..put(kind.object(name) + "/token", body)
            })
            .boxed(),
        _ => odd(kind).boxed(),
    }
}

/// Returns requests with a wrong path, method, media type or body.
fn odd(kind: &'static Kind) -> impl Strategy<Value = Request> {
    let (object, all) = (kind.object("a"), kind.collection());
    let places = vec![
        object.clone(),
        all.clone(),
        format!("{object}/status"),
        format!("{object}/scale"),
        format!("{object}/odd"),
        format!("{object}/a/b/c"),
        format!("{all}/Not_a_name"),
        format!("{}/odds", kind.root),
        format!("{}/odds/a", kind.root),
        "/apis/odd.example.com/v1/odds".to_owned(),
        "/api/v2/nodes".to_owned(),
        "/odd".to_owned(),
    ];
    let methods = if kind.plural == "pods" {
        &["GET"][..]
    } else {
        &["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"]
    };
    let media = &[
        JSON,
        MERGE,
        STRATEGIC,
        "",
        "text/plain",
        "application/json; charset=utf-8",
        "application/merge-patch+json;charset=utf-8",
    ][..];
    let bodies = prop_oneof![
        Just(Body::Empty),
        Just(Body::Json(serde_json::json!({}))),
        Just(Body::Json(kind.good())),
        select(
            &[
                "{",
                "[]",
                "null",
                "\"text\"",
                "7",
                "nonsense",
                "[{}]",
                "{\"metadata\":{\"name\":\"a\"}} trailing"
            ][..]
        )
        .prop_map(|text| Body::Text(text.to_owned())),
        Just(Body::Text(" ".repeat(3 * 1024 * 1024 + 1))),
    ];
    (
        select(places),
        select(methods),
        select(media),
        bodies,
        options::accept(),
    )
        .prop_map(move |(path, method, media, body, accept)| {
            // A large body that the server does not need may be truncated or not.
            let large = matches!(&body, Body::Text(text) if text.len() > 1024)
                && (method, &path) != ("POST", &all);
            let body = if large || ["GET", "HEAD", "OPTIONS"].contains(&method) {
                Body::Empty
            } else {
                body
            };
            // Objects without a namespace may belong to other sequences.
            let query = if kind.namespaced {
                Vec::new()
            } else {
                vec![("labelSelector", "seq={ns}".to_owned())]
            };
            Request {
                method,
                path,
                query,
                accept,
                media,
                body,
            }
        })
}
