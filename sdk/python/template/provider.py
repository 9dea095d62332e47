"""A cloud provider with instances. Query your cloud (skydock.http) instead of the node's labels."""

import skydock


@skydock.plugin
class Provider(skydock.Instances):
    """A cloud in which a label of the node has the rack of its machine, which is its zone."""

    def configure(self, settings: skydock.Settings) -> None:
        self.region = settings.options.get("region")
        if self.region is not None and not self.region.isidentifier():
            raise skydock.Invalid("option region: expected letters and digits, for example north")

    def info(self) -> skydock.PluginInfo:
        return skydock.PluginInfo("my-cloud", "0.1.0", provider_id_prefixes=["my-cloud://"])

    # The host deletes nodes that are reported as absent: only report what the cloud has confirmed.
    async def check(self, nodes: list[skydock.Node]) -> list[skydock.Presence | skydock.CloudError]:
        return [skydock.Presence.RUNNING for _ in nodes]

    async def describe(self, nodes: list[skydock.Node]) -> list[skydock.Instance | skydock.CloudError]:
        return await skydock.each(nodes, self.describe_node, parallel=16)

    async def describe_node(self, node: skydock.Node) -> skydock.Instance:
        # Only a new node has no provider ID, and is looked up by its name.
        provider_id = node.provider_id or f"my-cloud://{node.name}"
        rack = node.labels.get("my-cloud.example/rack", "rack-1")
        return skydock.Instance(provider_id=provider_id, zone=rack, region=self.region)
