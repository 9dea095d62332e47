# Generated from wit/ by `cargo run -p skydock-bindings`; do not edit.
"""The interface `node-sets`."""

from __future__ import annotations

from wit_world.imports import skydock_provider_node_sets_0_1_1 as wit_node_sets

import skydock as sdk

from . import types


def sdk_target(it: wit_node_sets.Target) -> sdk.Target:
    return sdk.Target(
        name=it.name,
        provider_id=it.provider_id,
        zone=it.zone,
        addresses=[types.sdk_node_address(one) for one in it.addresses],
    )


def sdk_node_changes(it: wit_node_sets.NodeChanges) -> sdk.NodeChanges:
    return sdk.NodeChanges(
        added=[sdk_target(one) for one in it.added],
        removed=[sdk_target(one) for one in it.removed],
    )
