//! The interface `attachments`.

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
    /// Calls `attachments.attach-volumes`.
    pub(crate) fn attach_volumes(
        self,
        attachments: &'s [cloud::NewAttachment],
    ) -> Running<'a, Vec<Element<cloud::Pairs, StorageError>>> {
        let Self {
            functions, store, ..
        } = self;
        let records: Vec<_> = attachments.iter().map(to_guest::new_attachment).collect();

        Box::pin(async move {
            let answer =
                call!(functions, store, AttachVolumes: attachments.call_attach_volumes(&records));

            Ok(each(attachments, answer, |_, it| storage::context(it)))
        })
    }

    /// Calls `attachments.detach-volumes`.
    pub(crate) fn detach_volumes(
        self,
        attachments: &'s [cloud::Attachment],
    ) -> Running<'a, Vec<Element<(), StorageError>>> {
        let Self {
            functions, store, ..
        } = self;
        let records: Vec<_> = attachments.iter().map(to_guest::attachment).collect();

        Box::pin(async move {
            let answer =
                call!(functions, store, DetachVolumes: attachments.call_detach_volumes(&records));

            Ok(each(attachments, answer, |_, ()| Ok(())))
        })
    }
}
