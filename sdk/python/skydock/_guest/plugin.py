"""Exports `plugin`, which every component does."""

from __future__ import annotations

import random

from componentize_py_types import Err
from wit_world.exports import skydock_provider_plugin_0_1_0 as wit

from .. import _parallel, http
from .._host import install
from .._plugin import Overlap, Settings, registered
from .._wire import number, text
from . import convert, log, modules, sockets
from .host import WitHost
from .http import send

install(WitHost())
http.swap_transport(send)
log.install()
sockets.deny()
__all__ = ["SkydockProviderPlugin010", "modules"]


class SkydockProviderPlugin010:
    """The exported functions."""

    def configure(self, settings: wit.Settings) -> None:
        # The state of the generator was saved with the component.
        random.seed()
        options = dict(settings.options)
        config, path = settings.cloud_config, settings.cloud_config_path
        try:
            registered().configure(Settings(settings.cluster_name, settings.cluster_cidrs, config, path, options))
            return
        except BaseException as error:
            failed = convert.wit_error(_parallel.told(error))
        raise Err(failed)

    def info(self) -> wit.PluginInfo:
        it = registered().info()
        return wit.PluginInfo(
            name=text(it.name, "name"),
            version=text(it.version, "version"),
            provider_id_prefixes=[text(prefix, "provider ID prefix") for prefix in it.provider_id_prefixes],
            wanted_hosts=[text(host, "wanted host") for host in it.wanted_hosts],
            max_batch=number(it.max_batch, "max_batch", 2**32 - 1),
            unused=[text(name, "unused capability") for name in it.unused],
            overlap=wit.Overlap[Overlap(it.overlap).name],
            annotation_prefixes=[text(prefix, "annotation prefix") for prefix in it.annotation_prefixes],
        )
