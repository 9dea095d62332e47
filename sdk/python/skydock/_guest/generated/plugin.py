# Generated from wit/ by `cargo run -p skydock-bindings`; do not edit.
"""The interface `plugin`."""

from __future__ import annotations

from typing import cast

from wit_world.exports import skydock_provider_plugin_0_1_1 as wit_plugin

import skydock as sdk

from ..._plugin import registered
from ..._wire import number, text
from ..call import at_once


def sdk_settings(it: wit_plugin.Settings) -> sdk.Settings:
    return sdk.Settings(
        cluster_name=it.cluster_name,
        cluster_cidrs=it.cluster_cidrs,
        cloud_config=it.cloud_config,
        cloud_config_path=it.cloud_config_path,
        options=dict(it.options),
    )


def wit_overlap(it: sdk.Overlap) -> wit_plugin.Overlap:
    return wit_plugin.Overlap[sdk.Overlap(it).name]


def wit_plugin_info(it: sdk.PluginInfo) -> wit_plugin.PluginInfo:
    return wit_plugin.PluginInfo(
        name=text(it.name, "name"),
        version=text(it.version, "version"),
        provider_id_prefixes=[text(one, "provider ID prefix") for one in it.provider_id_prefixes],
        wanted_hosts=[text(one, "wanted host") for one in it.wanted_hosts],
        max_batch=number(it.max_batch, "max_batch", 2**32 - 1),
        unused=[text(one, "unused capability") for one in it.unused],
        overlap=wit_overlap(it.overlap),
        annotation_prefixes=[text(one, "annotation prefix") for one in it.annotation_prefixes],
    )


__all__ = ["SkydockProviderPlugin011"]


class SkydockProviderPlugin011:
    """The exported functions."""

    def info(self) -> wit_plugin.PluginInfo:
        return wit_plugin_info(_provider().info())

    def configure(self, settings: wit_plugin.Settings) -> None:
        at_once(lambda: _provider().configure(sdk_settings(settings)), lambda _: None)


def _provider() -> sdk.Plugin:
    return cast(sdk.Plugin, registered())
