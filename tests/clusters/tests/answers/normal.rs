//! Removes everything from an answer that differs between runs.
//!
//! UIDs, allocated addresses and allocated ports become numbers in the order of their occurrence.
//! Versions of objects become their rank among all versions in the run. Times close to the current
//! one, versions of lists, continue tokens and other tokens become a word. Messages,
//! `managedFields` and descriptions of columns are removed.

use std::collections::{BTreeSet, HashMap};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::{
    request::Request,
    send::{Answer, Run},
};

/// The state for one run.
pub(crate) struct Normal<'a> {
    sent: &'a str,
    versions: BTreeSet<u64>,
    numbers: HashMap<String, usize>,
    /// The UID of the current object. An allocated value is compared only with those of the same
    /// object, because a released value can be allocated again.
    object: String,
    now: Timestamp,
}

impl<'a> Normal<'a> {
    pub(crate) fn new(run: &'a Run) -> Self {
        let mut versions = BTreeSet::new();
        run.answers
            .iter()
            .for_each(|answer| gather(&answer.value(), &mut versions));
        Self {
            sent: &run.sent,
            versions,
            numbers: HashMap::new(),
            object: String::new(),
            now: Timestamp::now(),
        }
    }

    /// Returns an answer in the form that is compared.
    pub(crate) fn answer(&mut self, request: &Request, answer: &Answer) -> Value {
        let mut body = answer.value();
        if let Some(events) = body.get_mut("events").and_then(Value::as_array_mut) {
            order(events);
        }
        self.value(&mut body);
        if request.is_watch() && answer.status == 200 {
            return json!({"status": 200, "body": body});
        }
        // Clients ignore warnings of failed requests.
        let warnings = if answer.status < 400 {
            &answer.warnings[..]
        } else {
            &[]
        };
        json!({"status": answer.status, "media": answer.media, "warnings": warnings, "body": body})
    }

    fn value(&mut self, value: &mut Value) {
        match value {
            Value::Object(fields) => self.object(fields),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::String(text) => *value = self.text(text).into(),
            _ => {}
        }
    }

    fn object(&mut self, fields: &mut Map<String, Value>) {
        let kind = fields
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        match kind.as_str() {
            "Status" => status(fields),
            "Table" => table(fields),
            _ => {}
        }
        if let Some(uid) = fields
            .get("metadata")
            .and_then(|metadata| metadata["uid"].as_str())
        {
            self.object = uid.to_owned();
        }
        let of_object = fields.contains_key("uid");
        for (name, value) in fields.iter_mut() {
            match (name.as_str(), &*value) {
                ("resourceVersion", Value::String(version)) if !version.is_empty() => {
                    let rank = version
                        .parse()
                        .ok()
                        .filter(|_| of_object)
                        .map(|version| self.rank(version));
                    *value = rank.map_or_else(
                        || "<version>".into(),
                        |rank| format!("<version {rank}>").into(),
                    );
                }
                ("continue" | "token", Value::String(text)) if !text.is_empty() => {
                    *value = format!("<{name}>").into();
                }
                ("uid", Value::String(uid)) if !uid.is_empty() => {
                    let number = self.number("uid", uid);
                    *value = format!("<uid {number}>").into();
                }
                ("nodePort" | "healthCheckNodePort", Value::Number(port))
                    if !self.sent.contains(&port.to_string()) =>
                {
                    let number =
                        self.number(&format!("port of {}", self.object), &port.to_string());
                    *value = format!("<port {number}>").into();
                }
                ("clusterIP", Value::String(ip)) if self.is_given(ip) => {
                    let number = self.number(&format!("ip of {}", self.object), ip);
                    *value = format!("<ip {number}>").into();
                }
                _ => self.value(value),
            }
        }
        fields.remove("managedFields");
    }

    fn text(&mut self, text: &str) -> String {
        if let Ok(time) = text.parse::<Timestamp>()
            && time.duration_since(self.now).abs() < SignedDuration::from_hours(24)
        {
            let fraction = text.split_once('.').map_or(0, |(_, rest)| rest.len());
            return format!("<time {fraction}>");
        }
        if self.is_given(text) {
            return "<ip>".to_owned();
        }
        // A generated name, for example `gen-0-x7k2p`.
        if let Some((prefix, _)) = text.rsplit_once('-').filter(|_| text.starts_with("gen-")) {
            return format!("{prefix}-<generated>");
        }
        text.to_owned()
    }

    /// Returns whether this is a cluster IP that was allocated automatically.
    fn is_given(&self, text: &str) -> bool {
        text.starts_with("10.96.") && !self.sent.contains(text)
    }

    fn rank(&self, version: u64) -> usize {
        self.versions.range(..version).count()
    }

    fn number(&mut self, kind: &str, text: &str) -> usize {
        let next = self
            .numbers
            .keys()
            .filter(|known| known.starts_with(kind))
            .count();
        *self.numbers.entry(format!("{kind} {text}")).or_insert(next)
    }
}

/// Returns whether an event only reports the progress of the watch.
pub(crate) fn is_by_the_way(event: &Value) -> bool {
    const ENDS_LIST: [&str; 2] = [
        "/object/metadata/annotations/k8s.io~1initial-events-end",
        "/object/rows/0/object/metadata/annotations/k8s.io~1initial-events-end",
    ];
    event["type"] == "BOOKMARK"
        && ENDS_LIST
            .iter()
            .all(|pointer| event.pointer(pointer).is_none())
}

/// Sorts events by name of the object and keeps the order for each object, because a cache and a
/// store have different initial orders. Removes bookmarks, which the server may send at any time,
/// except those that end a streaming list.
fn order(events: &mut Vec<Value>) {
    events.retain(|event| !is_by_the_way(event));
    let name = |event: &Value| {
        let row = event.pointer("/object/rows/0/object/metadata/name");
        row.or(event.pointer("/object/metadata/name"))
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    events.sort_by_cached_key(name);
}

fn status(fields: &mut Map<String, Value>) {
    fields.remove("message");
    let Some(details) = fields.get_mut("details").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(causes) = details.get_mut("causes").and_then(Value::as_array_mut) {
        for cause in causes.iter_mut().filter_map(Value::as_object_mut) {
            cause.remove("message");
        }
        causes.sort_by_cached_key(ToString::to_string);
        causes.dedup();
    }
}

fn table(fields: &mut Map<String, Value>) {
    for column in fields
        .get_mut("columnDefinitions")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        column
            .as_object_mut()
            .into_iter()
            .for_each(|column| drop(column.remove("description")));
    }
    for row in fields
        .get_mut("rows")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        for cell in row
            .get_mut("cells")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            let is_age = |text: &str| {
                text.strip_suffix('s')
                    .is_some_and(|number| number.parse::<u32>().is_ok())
            };
            let Some(text) = cell.as_str() else { continue };
            if is_age(text) {
                *cell = "<age>".into();
            } else if text.contains(":3") {
                // The ports of a Service.
                let ports: Vec<_> = text
                    .split(',')
                    .map(|port| port.split_once(":3").map_or(port, |(port, _)| port))
                    .collect();
                *cell = ports.join(",").into();
            }
        }
    }
}

/// Collects the versions of objects, but not those of lists.
fn gather(value: &Value, versions: &mut BTreeSet<u64>) {
    match value {
        Value::Object(fields) => {
            let version = fields.get("resourceVersion").and_then(Value::as_str);
            let version = version.and_then(|text| text.parse::<u64>().ok());
            versions.extend(version.filter(|_| fields.contains_key("uid")));
            fields.values().for_each(|value| gather(value, versions));
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, versions)),
        _ => {}
    }
}

/// Collects the differences of two values: path, first value, second value.
pub(crate) fn differences(
    path: &str,
    one: &Value,
    other: &Value,
    found: &mut Vec<(String, Value, Value)>,
) {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) => {
            let names: BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for name in names {
                let at = |map: &Map<String, Value>| {
                    map.get(name).cloned().unwrap_or_else(|| "<absent>".into())
                };
                differences(&format!("{path}/{name}"), &at(a), &at(b), found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differences(&format!("{path}/{index}"), a, b, found);
            }
        }
        _ if one == other => {}
        _ => found.push((path.to_owned(), one.clone(), other.clone())),
    }
}
