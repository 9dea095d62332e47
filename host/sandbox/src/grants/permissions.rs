//! What the operator permits a plugin to claim, to write and to read. A plugin's own wishes are
//! only compared with it.

mod keys;
mod not_permitted;
mod reserved;

use skydock_cloud::{ForeignKind, ForeignObject};

pub use keys::{KeyRange, KeyRangeError};
pub use not_permitted::NotPermitted;
pub(crate) use reserved::{covers_reserved, is_reserved};

use crate::words::keys::{is_kubernetes, is_qualified, is_subdomain};

/// Objects of the cluster that a plugin may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectGrant {
    /// This object.
    Exact(ForeignObject),
    /// The object that an annotation of the current call's Service names, in the namespace of that
    /// Service.
    NamedBy {
        /// Kind of the object.
        kind: ForeignKind,
        /// Key of the annotation, which the plugin cannot write.
        annotation: String,
    },
}

/// Why a permission would have no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UselessError {
    /// It is not the key of a label.
    #[error("{0:?} is not the key of a label; expected for example `rack` or `metal.example/rack`")]
    Label(String),
    /// No plugin may write the label.
    #[error(
        "{0:?} is not possible: this label steers Kubernetes or other controllers, and no plugin may write it"
    )]
    Reserved(String),
    /// It is not the key of an annotation.
    #[error(
        "{0:?} is not the key of an annotation; expected for example `metal.example/tls-secret`"
    )]
    Annotation(String),
    /// No object has this namespace or name.
    #[error(
        "{0:?} is not the {1} of an object; patterns are not possible: list each object, or use `namedBy`"
    )]
    Object(String, &'static str),
}

/// Checks the key of a label that a plugin may write.
///
/// # Errors
/// [`UselessError`] if no plugin may write it.
pub fn check_label(key: &str) -> Result<(), UselessError> {
    if !is_qualified(key) {
        return Err(UselessError::Label(key.to_owned()));
    }

    if is_reserved(key) || is_kubernetes(key) {
        return Err(UselessError::Reserved(key.to_owned()));
    }
    Ok(())
}

impl ObjectGrant {
    /// Checks that there can be such an object.
    ///
    /// # Errors
    /// [`UselessError`] if not.
    pub fn check(&self) -> Result<(), UselessError> {
        match self {
            Self::NamedBy { annotation, .. } if !is_qualified(annotation) => {
                Err(UselessError::Annotation(annotation.clone()))
            }
            Self::NamedBy { .. } => Ok(()),
            Self::Exact(object) => {
                let ForeignObject {
                    kind,
                    namespace,
                    name,
                } = object;

                let is_right = match kind {
                    ForeignKind::Namespace => namespace.is_empty(),
                    ForeignKind::Secret | ForeignKind::ConfigMap => {
                        is_subdomain(namespace) && !namespace.contains('.')
                    }
                };

                if !is_right {
                    return Err(UselessError::Object(namespace.clone(), "namespace"));
                }
                if !is_subdomain(name) {
                    return Err(UselessError::Object(name.clone(), "name"));
                }

                Ok(())
            }
        }
    }
}

/// What a plugin may claim, write and read. By default nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Prefixes of the provider IDs that it may own.
    pub provider_ids: Vec<String>,
    /// Keys of the annotations and labels that it may write.
    pub keys: Vec<KeyRange>,
    /// Keys of further labels that it may write.
    pub labels: Vec<String>,
    /// Objects of the cluster that it may read.
    pub objects: Vec<ObjectGrant>,
    /// Interfaces that a replacement may import although the previous plugin does not, without
    /// their versions.
    pub imports: Vec<String>,
    /// Capabilities that a replacement may export although the previous plugin does not.
    pub exports: Vec<String>,
    /// Hosts that a replacement may request although the previous plugin does not.
    pub hosts: Vec<String>,
    /// Whether it gets all that it wants, except what no plugin gets. For tools of developers, where
    /// no operator decides.
    pub unrestricted: bool,
}

impl Permissions {
    /// Returns the permissions of a plugin for which the operator has set none: provider IDs and
    /// keys that bear the name under which the operator runs it.
    #[must_use]
    pub fn by_name(name: &str) -> Self {
        Self {
            provider_ids: vec![format!("{name}://")],
            keys: KeyRange::by_name(name),
            ..Self::default()
        }
    }

    /// Returns permissions for all that the plugin wants, except what no plugin gets.
    #[must_use]
    pub fn unrestricted() -> Self {
        Self {
            unrestricted: true,
            ..Self::default()
        }
    }

    /// Checks what the plugin wants to own: prefixes of provider IDs, and of the keys of
    /// annotations.
    ///
    /// # Errors
    /// [`NotPermitted`] with all that is not permitted.
    pub(crate) fn permit(
        &self,
        provider_ids: &[String],
        annotations: &[String],
    ) -> Result<(), NotPermitted> {
        let denied = |wanted: &[String], is_permitted: &dyn Fn(&str) -> bool| {
            let denied = wanted.iter().filter(|it| !is_permitted(it)).cloned();
            denied.collect::<Vec<_>>()
        };

        let provider_ids = denied(provider_ids, &|it| self.permits_provider_ids(it));
        let annotations = denied(annotations, &|it| self.permits_keys(it));

        if provider_ids.is_empty() && annotations.is_empty() {
            Ok(())
        } else {
            Err(NotPermitted::new(self, &provider_ids, &annotations))
        }
    }

    pub(crate) fn permits_provider_ids(&self, prefix: &str) -> bool {
        self.unrestricted
            || self
                .provider_ids
                .iter()
                .any(|permitted| prefix.starts_with(permitted.as_str()))
    }

    /// Returns true if all keys with this prefix may be written, apart from those that
    /// [grant an object](Self::grants_by).
    pub(crate) fn permits_keys(&self, prefix: &str) -> bool {
        !covers_reserved(prefix)
            && (self.unrestricted || self.keys.iter().any(|range| range.covers(prefix)))
    }

    /// Returns true if a label with this key may be written.
    pub(crate) fn permits_label(&self, key: &str) -> bool {
        !is_reserved(key)
            && (self.permits_keys(key) || self.labels.iter().any(|permitted| permitted == key))
    }

    /// Returns true if the value of this annotation decides what the plugin may read. It is never
    /// the plugin's to write.
    pub(crate) fn grants_by(&self, key: &str) -> bool {
        self.objects.iter().any(
            |grant| matches!(grant, ObjectGrant::NamedBy { annotation, .. } if annotation == key),
        )
    }
}

#[cfg(test)]
mod tests;
