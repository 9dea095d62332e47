//! The interface `volume-attributes`.

use skydock_cloud::{self as cloud, StorageError};

use super::Guest;
use crate::{
    answers::Element,
    contract::{
        Running,
        v0_1::{from_guest::each, to_guest},
    },
};

impl<'a, 's> Guest<'a, 's> {
    /// Calls `volume-attributes.modify-volumes`.
    pub(crate) fn modify_volumes(
        self,
        modifications: &'s [cloud::Modification],
    ) -> Running<'a, Vec<Element<(), StorageError>>> {
        let Self {
            functions, store, ..
        } = self;
        let records: Vec<_> = modifications.iter().map(to_guest::modification).collect();

        Box::pin(async move {
            let answer = call!(functions, store, ModifyVolumes: volume_attributes.call_modify_volumes(&records));

            Ok(each(modifications, answer, |_, ()| Ok(())))
        })
    }
}
