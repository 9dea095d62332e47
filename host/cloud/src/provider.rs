//! The interface between controllers and clouds: the trait `CloudProvider`.

mod info;

use std::sync::Arc;

use async_trait::async_trait;

pub use self::info::ProviderInfo;
use crate::{CloudError, NodeFields};

/// One answer for each question, in the same order.
pub type Answers<T, E = CloudError> = Vec<Result<T, E>>;

/// Defines [`CloudProvider`].
macro_rules! provider {
    ($(
        $(#[$doc:meta])*
        $function:ident $effect:ident $capability:ident $name:literal:
            $method:ident($($argument:ident: $type:ty),*) -> $answer:ty;
    )*) => {
        /// A cloud provider.
        ///
        /// Each function returns a result or an error in bounded time, and does not panic. All
        /// functions may be called concurrently, and repeatedly with the same arguments. A list of
        /// answers has the same length as the list of questions.
        ///
        /// A provider implements the functions of its capabilities ([`CloudProvider::info`]); the
        /// others return [`CloudError::ImplementedElsewhere`], which makes controllers change and
        /// retry nothing.
        ///
        /// The meaning of each function is that of the function with the same name in the plugin
        /// contract (`wit/`).
        #[async_trait]
        pub trait CloudProvider: Send + Sync {
            /// Returns the identity of the provider. After the plugin is replaced, everything in it
            /// except the name may be different.
            fn info(&self) -> Arc<ProviderInfo>;

            /// Returns which fields of the nodes the provider has read for the load balancer of the
            /// Service with this UID. It is given these nodes again when one of them changes.
            fn node_fields_read(&self, _service_uid: &str) -> NodeFields {
                NodeFields::default()
            }

            /// Returns what identifies the build of the provider and its configuration, in each
            /// process: with another one, equal questions may have other answers.
            fn revision(&self) -> String {
                String::new()
            }

            /// Returns the maximum number of routes that [`CloudProvider::list_routes`] can return;
            /// it fails if there are more. `None` means that there is no limit.
            fn max_routes(&self) -> Option<usize> {
                None
            }

            $(
                $(#[$doc])*
                #[allow(unused_variables)] // the arguments have names for the documentation
                async fn $method(&self, $($argument: &$type),*) -> Result<$answer, CloudError> {
                    Err(CloudError::ImplementedElsewhere)
                }
            )*
        }
    };
}

crate::functions!(provider);
