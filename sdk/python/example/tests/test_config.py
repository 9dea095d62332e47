import unittest

import skydock
from simcloud.cloud import deleted, provider_id, server_id
from simcloud.config import Config


class ConfigTest(unittest.TestCase):
    def test_an_invalid_configuration_is_rejected(self) -> None:
        def parse(text: str) -> Config:
            return Config.parse(skydock.Settings(cloud_config=text))

        self.assertEqual(parse('{"url": "http://c:80", "region": "r"}').url, "http://c:80")
        for text in (
            "",
            "[]",
            '{"url": "http://c:80"}',
            '{"url": "http://c:80", "region": ""}',
            '{"url": "http://c:80", "region": "r", "token": "secret"}',
            '{"url": "http://c", "region": "r"}',
            '{"url": "http://c:80/", "region": "r"}',
            '{"url": "http://c:99999", "region": "r"}',
            '{"url": "http://c/x:80", "region": "r"}',
            '{"url": "http://:80", "region": "r"}',
            '{"url": "ftp://c:80", "region": "r"}',
        ):
            with self.subTest(text), self.assertRaises(skydock.Invalid) as raised:
                parse(text)
            self.assertNotIn("secret", str(raised.exception))

    def test_a_provider_id_contains_the_server(self) -> None:
        self.assertEqual(server_id(provider_id("zone-a", "srv-1")), "srv-1")
        for other in ("simcloud://zone-a/srv-1", "simcloud:///srv-1", "simcloud:///zone-a/", "simcloud:///a/b/c", "aws:///a/i-1"):
            with self.subTest(other), self.assertRaises(skydock.Invalid):
                server_id(other)

    def test_only_the_cloud_can_say_that_something_is_gone(self) -> None:
        deleted(skydock.http.Response(204))
        deleted(skydock.http.Response(404, body=b'{"code": "not_found", "message": "", "field": null}'))
        for status, body in ((404, b"<html>no such page</html>"), (404, b'{"code": "no_such_path"}'), (500, b'{"code": "not_found"}')):
            with self.subTest(body), self.assertRaises(skydock.CloudError):
                deleted(skydock.http.Response(status, body=body))
