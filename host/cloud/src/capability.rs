//! Capabilities: what a provider can do.

mod call_kind;

use std::fmt;

pub use self::call_kind::{CallKind, PerKind};

/// Defines [`Capability`].
macro_rules! define {
    ($($(#[$doc:meta])* $variant:ident $name:literal $kind:ident;)*) => {
        /// A capability of a provider: an interface that its plugin exports.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Capability {
            $($(#[$doc])* $variant,)*
        }

        impl Capability {
            /// All capabilities.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// Returns the name of the interface in the plugin contract.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }

        impl From<Capability> for CallKind {
            fn from(capability: Capability) -> Self {
                match capability {
                    $(Capability::$variant => Self::$kind,)*
                }
            }
        }
    };
}

crate::function::capabilities!(define);

impl Capability {
    /// Returns the capability without which this one is of no use.
    #[must_use]
    pub fn needs(self) -> Option<Self> {
        let about_volumes = CallKind::from(self) == CallKind::Volumes;
        (about_volumes && self != Self::Volumes).then_some(Self::Volumes)
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
