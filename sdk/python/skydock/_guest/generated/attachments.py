# Generated from wit/ by `cargo run -p skydock-bindings`; do not edit.
"""The interface `attachments`."""

from __future__ import annotations

from typing import cast

from componentize_py_types import Result
from wit_world.imports import skydock_provider_storage_0_1_1 as wit_storage
from wit_world.exports import skydock_provider_attachments_0_1_1 as wit_attachments

import skydock as sdk

from ..._plugin import registered
from ..._wire import pairs
from .. import convert, volume_errors
from ..call import answer
from . import storage


def sdk_new_attachment(it: wit_attachments.NewAttachment) -> sdk.NewAttachment:
    return sdk.NewAttachment(
        volume=it.volume,
        node=it.node,
        capability=storage.sdk_volume_capability(it.capability),
        context=dict(it.context),
    )


def sdk_attachment(it: wit_attachments.Attachment) -> sdk.Attachment:
    return sdk.Attachment(
        volume=it.volume,
        node=it.node,
    )


__all__ = ["SkydockProviderAttachments011"]


class SkydockProviderAttachments011:
    """The exported functions."""

    def attach_volumes(self, attachments: list[wit_attachments.NewAttachment]) -> list[Result[list[tuple[str, str]], wit_storage.StorageError]]:
        return answer(
            lambda: _provider().attach_volumes([sdk_new_attachment(one) for one in attachments]),
            lambda found: volume_errors.wit_results(found, lambda found: pairs(found, "context of an attachment")),
        )

    def detach_volumes(self, attachments: list[wit_attachments.Attachment]) -> list[Result[None, wit_storage.StorageError]]:
        return answer(
            lambda: _provider().detach_volumes([sdk_attachment(one) for one in attachments]),
            lambda found: volume_errors.wit_results(found, convert.nothing("attachment")),
        )


def _provider() -> sdk.Attachments:
    return cast(sdk.Attachments, registered())
