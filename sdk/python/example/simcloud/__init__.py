"""The example provider: what every provider has to get right, in few lines, for the cloud simcloud.

This module takes what a call needs from the host, and passes it on. It has no rules of its own.
"""

import skydock

from . import instances, load_balancers, routes
from .cloud import SCHEME, Cloud
from .config import Config


@skydock.plugin
class Simcloud(skydock.Instances, skydock.LoadBalancers, skydock.Routes):
    """The provider."""

    config: Config

    def configure(self, settings: skydock.Settings) -> None:
        self.config = Config.parse(settings)

    def info(self) -> skydock.PluginInfo:
        return skydock.PluginInfo(
            "simcloud", "0.1.0-python", provider_id_prefixes=[SCHEME], wanted_hosts=[self.config.url]
        )

    async def check(self, nodes: list[skydock.Node]) -> list[skydock.Presence | skydock.CloudError]:
        return await instances.check(self.config, nodes)

    async def describe(self, nodes: list[skydock.Node]) -> list[skydock.Instance | skydock.CloudError]:
        return await instances.describe(self.config, nodes)

    async def get(self, service: skydock.Service) -> skydock.LoadBalancerStatus | None:
        return await load_balancers.get(self.cloud(), service)

    async def ensure(self, service: skydock.Service, nodes: skydock.NodeSet) -> skydock.LoadBalancerStatus:
        return await load_balancers.ensure(self.cloud(), service, nodes.targets())

    async def update_nodes(self, service: skydock.Service, nodes: skydock.NodeSet) -> None:
        await load_balancers.update_nodes(self.cloud(), service, nodes.targets())

    async def ensure_deleted(self, service: skydock.Service) -> None:
        await load_balancers.ensure_deleted(self.cloud(), service)

    async def list_routes(self, page: str | None) -> skydock.RoutePage:
        return await routes.list_page(self.cloud(), skydock.host().nodes(), page)

    async def create_routes(self, routes_: list[skydock.NewRoute]) -> list[skydock.CloudError | None]:
        return await routes.create(self.cloud(), routes_)

    async def delete_routes(self, routes_: list[skydock.Route]) -> list[skydock.CloudError | None]:
        return await routes.delete(self.cloud(), routes_)

    def cloud(self) -> Cloud:
        """Returns the cloud and this cluster, of which the host knows the UID soon after its start."""
        cluster = skydock.host().cluster_uid()
        if cluster is None:
            raise skydock.Unavailable("the UID of the cluster is not known yet")
        return Cloud(self.config, cluster)
