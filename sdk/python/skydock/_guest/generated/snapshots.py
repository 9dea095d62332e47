# Generated from wit/ by `cargo run -p skydock-bindings`; do not edit.
"""The interface `snapshots`."""

from __future__ import annotations

from typing import cast

from componentize_py_types import Result
from wit_world.imports import skydock_provider_storage_0_1_1 as wit_storage
from wit_world.exports import skydock_provider_snapshots_0_1_1 as wit_snapshots

import skydock as sdk

from ..._plugin import registered
from ..._wire import number, optional, text
from .. import convert, volume_errors
from ..call import answer
from . import storage


def wit_snapshot(it: sdk.Snapshot) -> wit_snapshots.Snapshot:
    return wit_snapshots.Snapshot(
        id=text(it.id, "ID of a snapshot"),
        volume=text(it.volume, "volume"),
        size_bytes=number(it.size_bytes, "size bytes", 2**64 - 1),
        creation_timestamp=number(it.creation_timestamp, "creation timestamp", 2**64 - 1),
        ready=bool(it.ready),
    )


def sdk_new_snapshot(it: wit_snapshots.NewSnapshot) -> sdk.NewSnapshot:
    return sdk.NewSnapshot(
        name=it.name,
        volume=it.volume,
        parameters=dict(it.parameters),
        owner=None if it.owner is None else storage.sdk_owner(it.owner),
    )


def wit_snapshot_page(it: sdk.SnapshotPage) -> wit_snapshots.SnapshotPage:
    return wit_snapshots.SnapshotPage(
        snapshots=[wit_snapshot(one) for one in it.snapshots],
        next=optional(it.next, "token of the next page"),
    )


__all__ = ["SkydockProviderSnapshots011"]


class SkydockProviderSnapshots011:
    """The exported functions."""

    def create_snapshots(self, snapshots: list[wit_snapshots.NewSnapshot]) -> list[Result[wit_snapshots.Snapshot, wit_storage.StorageError]]:
        return answer(
            lambda: _provider().create_snapshots([sdk_new_snapshot(one) for one in snapshots]),
            lambda found: volume_errors.wit_results(found, wit_snapshot),
        )

    def get_snapshots(self, ids: list[str]) -> list[Result[wit_snapshots.Snapshot, wit_storage.StorageError]]:
        return answer(
            lambda: _provider().get_snapshots(ids),
            lambda found: volume_errors.wit_results(found, wit_snapshot),
        )

    def list_snapshots(self, page: str | None) -> wit_snapshots.SnapshotPage:
        return answer(
            lambda: _provider().list_snapshots(page),
            wit_snapshot_page,
        )

    def delete_snapshots(self, ids: list[str]) -> list[Result[None, wit_storage.StorageError]]:
        return answer(
            lambda: _provider().delete_snapshots(ids),
            lambda found: volume_errors.wit_results(found, convert.nothing("id")),
        )


def _provider() -> sdk.Snapshots:
    return cast(sdk.Snapshots, registered())
