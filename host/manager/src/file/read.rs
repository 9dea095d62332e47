//! Reads a configuration file, and reports everything that is wrong in it.

use serde::{Deserialize as _, de::Error as _};
use skydock_credentials::config::CredentialConfig;

use super::{
    ApiVersion, Kind, PluginConfiguration, SkydockConfiguration,
    problem::{Problem, nearest},
    tree::{self, Fault, Mistake, Node, Path, Step, Value},
};

/// Maximum number of problems of one value. More are hardly read.
const MOST: usize = 100;

const EMPTY: &str = "the file is empty; the minimum is `apiVersion: skydock.dev/v1alpha1` and `kind: SkydockConfiguration`";

/// What is in a file.
#[derive(Debug)]
pub(super) struct Content {
    /// The parts that could be read, without values that are wrong.
    pub(super) configuration: SkydockConfiguration,
    /// The file without values that are wrong, to find places in it.
    pub(super) tree: Node,
    /// What is wrong.
    pub(super) problems: Vec<Problem>,
}

/// Reads the text of a file.
///
/// # Errors
/// If it is not YAML, with the first mistake.
pub(super) fn read(text: &str) -> Result<Content, Problem> {
    let mut problems = Vec::new();
    let mut tree = tree::parse(text, &mut problems)?;
    if tree.is_null() {
        return Err(Problem::of_the_whole(EMPTY));
    }

    Ok(Content {
        configuration: whole(&mut tree, &mut problems),
        tree,
        problems,
    })
}

/// Reads the items of the lists one by one, so that a wrong one does not hide the others.
fn whole(tree: &mut Node, problems: &mut Vec<Problem>) -> SkydockConfiguration {
    let plugins = "plugins";
    let credentials = "credentials";

    let mut head = tree.clone();
    for list in [plugins, credentials] {
        // Anything else is an error of the head.
        if tree
            .field(list)
            .is_some_and(|node| !node.items().is_empty())
        {
            head.remove(&Path::default().key(list));
        }
    }

    let head = all(&mut head, &Path::default(), problems, |node| {
        SkydockConfiguration::deserialize(node)
    });

    let plugins = items(tree, plugins, problems, |node| {
        PluginConfiguration::deserialize(node)
    });
    let credentials = items(tree, credentials, problems, credential);

    // A head that is wrong is an error already: its defaults only let the rest be checked.
    SkydockConfiguration {
        api_version: head
            .as_ref()
            .map_or(ApiVersion::V1Alpha1, |it| it.api_version),
        kind: head
            .as_ref()
            .map_or(Kind::SkydockConfiguration, |it| it.kind),
        audit: head.as_ref().and_then(|it| it.audit.clone()),
        nat64: head.map(|it| it.nat64).unwrap_or_default(),
        plugins,
        credentials,
    }
}

/// Reads the items of a list. What is wrong in them is taken out.
fn items<T>(
    tree: &mut Node,
    list: &str,
    problems: &mut Vec<Problem>,
    read: impl Fn(&Node) -> Result<T, Fault>,
) -> Vec<T> {
    let path = Path::default().key(list);
    let each = tree.items_mut(list).iter_mut().enumerate();
    each.filter_map(|(index, item)| {
        let value = all(item, &path.clone().index(index), problems, &read);
        if value.is_none() {
            item.value = Value::Removed;
        }
        value
    })
    .collect()
}

/// Reads a credential. Its type decides on its fields.
fn credential(node: &Node) -> Result<CredentialConfig, Fault> {
    if !matches!(node.value, Value::Map(_)) {
        // The error for something that is not a map.
        return CredentialConfig::deserialize(node);
    }

    let Some(kind) = node.field("type") else {
        return Err(Fault::missing_field("type"));
    };

    let Some(word) = kind
        .text()
        .filter(|word| CredentialConfig::TYPES.contains(word))
    else {
        let fault =
            Fault::unknown_variant(kind.text().unwrap_or_default(), CredentialConfig::TYPES);
        return Err(fault.at(kind.at).within(Step::Key("type".to_owned())));
    };

    let mut fields = node.clone();
    // The type only selects the fields, and is none of them.
    fields.remove(&Path::default().key("type"));
    CredentialConfig::of_type(word, &fields)
}

/// Reads a value. What is wrong is reported and taken out, and the rest is read again.
fn all<T>(
    node: &mut Node,
    path: &Path,
    problems: &mut Vec<Problem>,
    read: impl Fn(&Node) -> Result<T, Fault>,
) -> Option<T> {
    let mut removed = Vec::<Path>::new();
    let mut renamed = Vec::<Path>::new();

    for _ in 0..MOST {
        let fault = match read(node) {
            Ok(value) => return Some(value),
            Err(fault) => fault,
        };

        let wrong = fault.path();
        // What was taken out is missing, and what was renamed may have another type: these mistakes
        // are not the operator's.
        let is_consequence = match &fault.mistake {
            Mistake::UnknownField { .. } => false,
            Mistake::MissingField(field) => removed.contains(&wrong.clone().key(field)),
            Mistake::UnknownWord { .. } | Mistake::Other(_) => {
                removed.iter().any(|path| path.is_in(&wrong))
                    || renamed.iter().any(|path| wrong.starts_with(path))
            }
        };

        if !is_consequence {
            let place = fault.place().unwrap_or(node.at);
            problems.push(Problem::of_fault(&fault, place, &path.clone().join(&wrong)));
        }

        if let Mistake::UnknownField { field, expected } = &fault.mistake {
            let out = wrong.clone().key(field);
            // Probably that field was meant, so that it is not missing too.
            match nearest(field, expected).filter(|meant| node.rename(&wrong, field, meant)) {
                Some(meant) => renamed.push(wrong.key(meant)),
                None => {
                    node.remove(&out);
                    removed.push(out);
                }
            }
        } else if wrong.steps().is_empty() {
            return None;
        } else {
            node.remove(&wrong);
            removed.push(wrong);
        }
    }
    None
}

#[cfg(test)]
mod tests;
