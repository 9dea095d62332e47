"""A cloud in a process of its own, and what the host would do."""

from __future__ import annotations

import json
import os
import subprocess
import unittest
import urllib.request
from pathlib import Path
from typing import Any

import skydock
import skydock.testing
from simcloud.cloud import Cloud
from simcloud.config import Config

PROGRAM = os.environ.get("SKYDOCK_SIMCLOUD") or Path(__file__).parents[4] / "target/debug/skydock-simcloud"


class World(unittest.IsolatedAsyncioTestCase):
    """A test with a cloud that has three servers."""

    @classmethod
    def setUpClass(cls) -> None:
        try:
            command = [PROGRAM, "--listen", "127.0.0.1:0", "--servers", "3"]
            cls.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        except FileNotFoundError:
            raise RuntimeError(f"{PROGRAM} is missing: run `cargo build -p skydock-simcloud`") from None
        cls.addClassCleanup(cls.end)
        assert cls.process.stdout
        cls.url = next(word for word in cls.process.stdout.readline().split() if word.startswith("http://")).rstrip(".,")
        cls.config = Config(cls.url, "sim")

    @classmethod
    def end(cls) -> None:
        cls.process.kill()
        cls.process.wait()
        assert cls.process.stdout
        cls.process.stdout.close()

    def setUp(self) -> None:
        self.hook("POST", "/_sim/reset")
        # Adds the token, which is the host's task.
        host = skydock.testing.Host(headers={"authorization": "Bearer simcloud"})
        self.enterContext(host)
        self.cloud = self.cluster("c1")

    def cluster(self, uid: str) -> Cloud:
        """Returns the cloud as a cluster sees it."""
        return Cloud(self.config, uid)

    def hook(self, method: str, path: str, body: Any = None) -> Any:
        """Uses a hook of the cloud."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"authorization": "Bearer simcloud"}, method=method)
        with urllib.request.urlopen(request) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def break_(self, operation: str, **failure: Any) -> None:
        """Makes the next call of an operation fail: without a status, its answer is lost."""
        self.hook("POST", "/_sim/failures", {"operation": operation, **failure})

    def all(self, kind: str) -> list[dict[str, Any]]:
        """Returns everything of a kind that exists."""
        found: list[dict[str, Any]] = self.hook("GET", "/_sim/state")[kind]
        return found

    def calls(self) -> list[str]:
        """Returns the operations since the last call of this."""
        log = self.hook("GET", "/_sim/calls")
        self.hook("DELETE", "/_sim/calls")
        return [call["operation"] for call in log["calls"]]

    async def raises(self, error: type[skydock.CloudError], work: Any) -> Any:
        """Awaits work that ends with an error, and returns it."""
        with self.assertRaises(error) as raised:
            await work
        return raised.exception


def targets(*servers: int) -> list[skydock.Target]:
    """Returns nodes with these servers."""
    return [skydock.Target(f"node-{it}", f"simcloud:///zone-a/srv-{it}") for it in servers]


def service() -> skydock.Service:
    """Returns a Service with a TCP and a UDP port."""
    ports = [
        skydock.ServicePort(80, "http", node_port=30080),
        skydock.ServicePort(53, "dns", skydock.Transport.UDP, node_port=30053),
    ]
    return skydock.Service("shop", "web", uid="5f0c", ports=ports)
