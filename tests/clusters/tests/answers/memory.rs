//! The objects that a plane has returned during a sequence, and the placeholders in requests that
//! depend on them.
//!
//! `{ns}` is the namespace of the sequence. `{port}` and `{ip}` are a node port and a cluster IP
//! that no other sequence requests. For the object of a request, `{uid}` and `{rv}` are the last
//! seen values, and `{oldrv}` is the first version. `{listrv}` is the version of the last list, and
//! `{next}` its continue token.

use std::collections::HashMap;

use json_patch::merge;
use serde_json::Value;

use super::request::{Body, Request};

/// A UID that no object has.
const NO_UID: &str = "00000000-0000-0000-0000-000000000000";

#[derive(Debug)]
pub(crate) struct Memory {
    namespace: String,
    number: u64,
    objects: HashMap<(String, String), Vec<Value>>,
    list_version: String,
    next: String,
}

impl Memory {
    pub(crate) fn new(namespace: String, number: u64) -> Self {
        let (list_version, next) = ("0".to_owned(), String::new());
        Self {
            namespace,
            number,
            objects: HashMap::new(),
            list_version,
            next,
        }
    }

    /// Returns the path and the body with all placeholders replaced, and the part of the body that
    /// does not come from the plane itself.
    pub(crate) fn fill(&self, request: &Request) -> (String, String, String) {
        let (plural, name) = request.object();
        let known = self.objects.get(&(plural, self.replace(&name)));
        let seen = |object: Option<&Value>, field: &str, unknown: &str| {
            let found = object.and_then(|object| object["metadata"][field].as_str());
            found.unwrap_or(unknown).to_owned()
        };
        let (first, last) = (
            known.and_then(|all| all.first()),
            known.and_then(|all| all.last()),
        );
        let own = [
            ("{uid}", seen(last, "uid", NO_UID)),
            ("{rv}", seen(last, "resourceVersion", "1")),
            ("{oldrv}", seen(first, "resourceVersion", "1")),
        ];
        let fill = |text: &str| {
            own.iter().fold(self.replace(text), |text, (mark, value)| {
                text.replace(mark, value)
            })
        };
        let (body, own) = match &request.body {
            Body::Empty => (String::new(), String::new()),
            Body::Text(text) => (fill(text), String::new()),
            Body::Json(body) => (fill(&body.to_string()), fill(&body.to_string())),
            Body::Again(edit, otherwise) => {
                let mut object = last.unwrap_or(otherwise).clone();
                merge(&mut object, edit);
                (fill(&object.to_string()), fill(&edit.to_string()))
            }
        };
        (fill(&request.uri()), body, own)
    }

    fn replace(&self, text: &str) -> String {
        // The lowest values of each range are never assigned automatically.
        let [low, high] =
            [self.number % 20, self.number % 100 + 10].map(|number| number.to_string());
        text.replace("{ns}", &self.namespace)
            .replace("\"{port}\"", &format!("300{low:0>2}")) // a number
            .replace("{ip}", &format!("10.96.0.{high}"))
            .replace("{listrv}", &self.list_version)
            .replace("{next}", &self.next)
    }

    /// Remembers the objects of an answer.
    pub(crate) fn learn(&mut self, request: &Request, answer: &Value) {
        let (plural, _) = request.object();
        let kind = answer["kind"].as_str().unwrap_or_default();
        if let Some(items) = answer["items"].as_array() {
            self.list_version = answer["metadata"]["resourceVersion"]
                .as_str()
                .unwrap_or("0")
                .to_owned();
            self.next = answer["metadata"]["continue"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            if !kind.starts_with("PartialObject") {
                items.iter().for_each(|item| self.see(&plural, item));
            }
        } else if !["Status", "Table", "PartialObjectMetadata", "TokenRequest"].contains(&kind) {
            self.see(&plural, answer);
        }
    }

    fn see(&mut self, plural: &str, object: &Value) {
        let text = |field: &str| {
            object["metadata"][field]
                .as_str()
                .filter(|text| !text.is_empty())
        };
        // Objects of a dry run have no version.
        if let (Some(name), Some(_), Some(_)) = (text("name"), text("uid"), text("resourceVersion"))
        {
            self.objects
                .entry((plural.to_owned(), name.to_owned()))
                .or_default()
                .push(object.clone());
        }
    }

    /// Returns the names of all objects of a resource that were ever seen.
    pub(crate) fn seen(&self, plural: &str) -> Vec<String> {
        let mine = self.objects.keys().filter(|(known, _)| known == plural);
        mine.map(|(_, name)| name.clone()).collect()
    }
}
