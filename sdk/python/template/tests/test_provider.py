import unittest

import skydock
import skydock.testing
from provider import Provider


class ProviderTest(unittest.IsolatedAsyncioTestCase):
    async def test_a_rack_is_a_zone(self) -> None:
        provider = Provider()
        provider.configure(skydock.Settings(options={"region": "north"}))
        nodes = [
            skydock.Node("n1", labels={"my-cloud.example/rack": "r7"}),
            skydock.Node("n2", provider_id="my-cloud://7"),
        ]
        with skydock.testing.Host():
            labeled, other = await provider.describe(nodes)
        self.assertEqual(labeled, skydock.Instance(provider_id="my-cloud://n1", zone="r7", region="north"))
        self.assertIsInstance(other, skydock.Instance)
        self.assertEqual(other.provider_id, "my-cloud://7")
        self.assertTrue(other.zone)

    async def test_the_configuration_is_checked(self) -> None:
        with self.assertRaises(skydock.Invalid):
            Provider().configure(skydock.Settings(options={"region": "not a label"}))
