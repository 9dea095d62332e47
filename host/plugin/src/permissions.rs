//! What the operator permits a plugin to claim, to write and to read. A plugin's own wishes are
//! only compared with it.

mod keys;
mod refusal;
mod reserved;

use skydock_cloud::{ForeignKind, ForeignObject};

pub use keys::{KeyRange, KeyRangeError};
pub use refusal::NotPermitted;
pub(crate) use reserved::{covers_reserved, is_reserved};

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
        let refused = |wanted: &[String], is_permitted: &dyn Fn(&str) -> bool| {
            let refused = wanted.iter().filter(|it| !is_permitted(it)).cloned();
            refused.collect::<Vec<_>>()
        };
        let provider_ids = refused(provider_ids, &|it| self.permits_provider_ids(it));
        let annotations = refused(annotations, &|it| self.permits_keys(it));
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
