//! The interface `volume-expansion`.

use skydock_cloud::{self as cloud, StorageError};

use super::{Guest, storage};
use crate::{
    answers::Element,
    contract::{
        Running,
        v0_1::{from_guest::each, to_guest},
    },
};

impl<'a, 's> Guest<'a, 's> {
    /// Calls `volume-expansion.expand-volumes`.
    pub(crate) fn expand_volumes(
        self,
        expansions: &'s [cloud::Expansion],
    ) -> Running<'a, Vec<Element<u64, StorageError>>> {
        let Self {
            functions, store, ..
        } = self;
        let records: Vec<_> = expansions.iter().map(to_guest::expansion).collect();

        Box::pin(async move {
            let answer = call!(functions, store, ExpandVolumes: volume_expansion.call_expand_volumes(&records));

            // A volume that is larger than the limit stays as it is.
            let expanded = |question: &cloud::Expansion, size| {
                let limit = None;
                storage::size(
                    size,
                    cloud::SizeRange {
                        limit,
                        ..question.size
                    },
                )
            };
            Ok(each(expansions, answer, expanded))
        })
    }
}
