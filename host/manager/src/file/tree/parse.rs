//! Builds the tree from the text of a file.

use std::collections::BTreeMap;

use serde_saphyr::granit_parser::{Event, Marker, Parser, ScalarStyle, StrInput, Tag};

use super::{Entry, Extent, Node, Path, Place, Value};
use crate::file::problem::Problem;

/// Maximum number of nodes, including those that aliases repeat.
const MAX_NODES: usize = 100_000;

/// Maximum number of nodes within each other.
const MAX_DEPTH: usize = 64;

/// The key with which a map takes over the entries of another one.
const MERGE: &str = "<<";

/// Parses the text of a file with one document. Duplicate keys are added to the problems, and the
/// first value is kept.
///
/// # Errors
/// If it is not YAML, so that nothing else can be said about it.
pub(crate) fn parse(text: &str, problems: &mut Vec<Problem>) -> Result<Node, Problem> {
    let mut builder = Builder {
        text,
        events: Parser::new_from_str(text),
        anchors: BTreeMap::new(),
        nodes: 0,
        problems,
    };

    let (event, at) = builder.next()?;
    if event == Event::StreamEnd {
        // Only comments.
        let text = String::new();
        let plain = true;
        let value = Value::Scalar { text, plain };
        return Ok(Node { at, value });
    }

    let root = builder.node(event, at, &Path::default())?;

    match builder.next()? {
        (Event::StreamEnd, _) => Ok(root),
        (_, at) => Err(Problem::at(
            at,
            &Path::default(),
            "there is another document; only one is supported",
        )),
    }
}

struct Builder<'a, 'p> {
    text: &'a str,
    events: Parser<'a, StrInput<'a>>,
    anchors: BTreeMap<usize, Node>,
    nodes: usize,
    problems: &'p mut Vec<Problem>,
}

impl<'a> Builder<'a, '_> {
    /// Returns the next event that is part of the document.
    fn next(&mut self) -> Result<(Event<'a>, Place), Problem> {
        loop {
            let (event, span) = match self.events.next_event() {
                Some(Ok(next)) => next,
                Some(Err(error)) => return Err(self.broken(*error.marker(), &error.info())),
                None => return Err(Problem::of_the_whole("the file ends too early")),
            };

            match event {
                // The first document.
                Event::DocumentStart(..) if self.nodes == 0 => {}
                Event::Scalar(..)
                | Event::SequenceStart(..)
                | Event::SequenceEnd
                | Event::MappingStart(..)
                | Event::MappingEnd
                | Event::Alias(_)
                | Event::DocumentStart(..)
                | Event::StreamEnd => return Ok((event, place(span.start))),
                // Comments, and the ends of documents.
                _ => {}
            }
        }
    }

    /// Returns the problem of a text that is not YAML.
    fn broken(&self, marker: Marker, why: &str) -> Problem {
        let lines = self.text.lines().take(marker.line()).enumerate();
        let indented = lines.filter_map(|(number, line)| {
            let indentation = line.split(|c: char| c != ' ' && c != '\t').next()?;
            Some((number + 1, indentation.find('\t')? + 1))
        });

        // The parser notices a tab somewhere after it.
        match indented.last() {
            Some((line, column)) if line + 1 >= marker.line() => Problem::at(
                Place {
                    line: line as u64,
                    column: column as u64,
                },
                &Path::default(),
                "a tab in the indentation; YAML allows only spaces there",
            ),
            _ => Problem::at(
                place(marker),
                &Path::default(),
                format!("not valid YAML: {why}"),
            ),
        }
    }

    /// Builds the node that begins with this event.
    fn node(&mut self, event: Event<'a>, at: Place, path: &Path) -> Result<Node, Problem> {
        self.count(Extent { nodes: 1, depth: 0 }, at, path)?;

        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = tag.as_deref().is_some_and(is_of_text);
                let plain = style == ScalarStyle::Plain && !is_text;
                let text = text.into_owned();
                (Value::Scalar { text, plain }, anchor)
            }
            Event::SequenceStart(_, anchor, _) => (self.list(path)?, anchor),
            Event::MappingStart(_, anchor, _) => (self.map(path)?, anchor),
            Event::Alias(anchor) => return self.alias(anchor, at, path),
            _ => return Err(Problem::at(at, path, "a value is missing")),
        };

        let node = Node { at, value };

        // 0 stands for none.
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn alias(&mut self, anchor: usize, at: Place, path: &Path) -> Result<Node, Problem> {
        let contains_itself = || Problem::at(at, path, "an alias of a value that contains it");
        let node = self.anchors.get(&anchor).ok_or_else(contains_itself)?;
        let extent = node.extent();

        // Before the copy, since aliases of aliases grow without limit.
        self.count(extent, at, path)?;
        let node = self.anchors.get(&anchor).cloned();
        node.ok_or_else(contains_itself)
    }

    /// Counts the nodes of a value at this path.
    fn count(&mut self, extent: Extent, at: Place, path: &Path) -> Result<(), Problem> {
        self.nodes += extent.nodes;
        if self.nodes > MAX_NODES || path.steps().len() + extent.depth > MAX_DEPTH {
            let most = format!(
                "the file is too large; at most {MAX_NODES} values, and {MAX_DEPTH} within each other, are supported"
            );
            return Err(Problem::at(at, path, most));
        }
        Ok(())
    }

    fn list(&mut self, path: &Path) -> Result<Value, Problem> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Value::List(items)),
                (event, at) => {
                    let path = path.clone().index(items.len());
                    items.push(self.node(event, at, &path)?);
                }
            }
        }
    }

    fn map(&mut self, path: &Path) -> Result<Value, Problem> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut merged = Vec::new();
        loop {
            let (event, at) = self.next()?;
            if event == Event::MappingEnd {
                break;
            }

            let key = self.node(event, at, path)?;
            let Value::Scalar { text: key, .. } = key.value else {
                return Err(Problem::at(at, path, "a key must be a text"));
            };
            let inner = path.clone().key(&key);
            let (event, value_at) = self.next()?;
            let value = self.node(event, value_at, &inner)?;

            if key == MERGE {
                merged.push(value);
            } else if let Some(first) = entries.iter().find(|entry| entry.key == key) {
                let Place { line, column } = first.at;
                let sentence =
                    format!("duplicate key `{key}`: it is already set at {line}:{column}");
                self.problems.push(Problem::at(at, path, sentence));
            } else {
                entries.push(Entry { at, key, value });
            }
        }
        // Last, since the keys of the map itself go before those that it merges.
        for node in merged {
            merge(&mut entries, node);
        }
        Ok(Value::Map(entries))
    }
}

/// Adds the entries of a map, or of each map in a list, that are not there yet.
fn merge(entries: &mut Vec<Entry>, node: Node) {
    match node.value {
        Value::Map(more) => {
            for entry in more {
                if entries.iter().all(|known| known.key != entry.key) {
                    entries.push(entry);
                }
            }
        }
        Value::List(maps) => maps.into_iter().for_each(|map| merge(entries, map)),
        Value::Scalar { .. } | Value::Removed => {}
    }
}

/// Returns whether a tag makes any scalar a text: `!!str`, or `!`.
fn is_of_text(tag: &Tag) -> bool {
    tag.core_suffix() == Some("str") || tag.suffix().is_empty() && tag.handle() == "!"
}

fn place(marker: Marker) -> Place {
    Place {
        line: marker.line() as u64,
        column: marker.col() as u64 + 1,
    }
}
