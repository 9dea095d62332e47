# Generated from wit/ by `cargo run -p skydock-bindings`; do not edit.
"""The interface `storage`."""

from __future__ import annotations

from wit_world.imports import skydock_provider_storage_0_1_1 as wit_storage

import skydock as sdk



def sdk_access_mode(it: wit_storage.AccessMode) -> sdk.AccessMode:
    return sdk.AccessMode[it.name]


def wit_access_mode(it: sdk.AccessMode) -> wit_storage.AccessMode:
    return wit_storage.AccessMode[sdk.AccessMode(it).name]


def sdk_volume_capability(it: wit_storage.VolumeCapability) -> sdk.VolumeCapability:
    return sdk.VolumeCapability(
        mode=sdk_access_mode(it.mode),
        file_system=it.file_system,
    )


def sdk_owner(it: wit_storage.Owner) -> sdk.Owner:
    return sdk.Owner(
        namespace=it.namespace,
        name=it.name,
        annotations=dict(it.annotations),
    )
