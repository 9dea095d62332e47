"""The operator's configuration."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import skydock

_URL = re.compile(r"https?://[^/?#@]+:(\d{1,5})")


@dataclass(frozen=True)
class Config:
    """The file of `cloudConfig`. There is no token in it: the host adds that to each request."""

    #: URL of the cloud with its port, without a path.
    url: str
    #: The cluster's region. Servers of other regions are not its nodes.
    region: str

    @classmethod
    def parse(cls, settings: skydock.Settings) -> Config:
        """Reads and checks the configuration."""
        path = settings.cloud_config_path or "the cloud configuration"
        try:
            fields = json.loads(settings.cloud_config or "")
        except ValueError as error:
            raise skydock.Invalid(f"{path}: not valid JSON: {error}") from error
        if not isinstance(fields, dict) or set(fields) != {"url", "region"}:
            raise skydock.Invalid(f"{path}: expected an object with the fields `url` and `region`, and no others")
        url, region = fields["url"], fields["region"]
        found = _URL.fullmatch(url) if isinstance(url, str) else None
        if found is None or int(found.group(1)) > 65535:
            raise skydock.Invalid(f"{path}: `url`: expected a URL with a port and no path, as in https://cloud.example:443")
        if not isinstance(region, str) or not region:
            raise skydock.Invalid(f"{path}: `region`: expected the name of a region")
        return cls(url, region)

    def list(self, kind: str) -> str:
        """Returns the URL of a list."""
        return f"{self.url}/v1/{kind}"

    def object(self, kind: str, id: str) -> str:
        """Returns the URL of an object."""
        return f"{self.list(kind)}/{skydock.http.segment(id)}"
