"""The errors that requests end with if there is no response: the codes of `wasi:http`."""

from __future__ import annotations

import re

from ._errors import CloudError, Denied, Internal, Unavailable

#: The egress rules do not allow the request.
DENIED = {"HttpRequestDenied", "DestinationIpProhibited", "HttpRequestMethodInvalid", "HttpRequestUriInvalid"}
#: The cloud cannot be reached at present.
UNAVAILABLE = {
    "DnsTimeout",
    "DnsError",
    "DestinationNotFound",
    "DestinationUnavailable",
    "DestinationIpUnroutable",
    "ConnectionRefused",
    "ConnectionTerminated",
    "ConnectionTimeout",
    "ConnectionReadTimeout",
    "ConnectionWriteTimeout",
    "ConnectionLimitReached",
    "TlsProtocolError",
    "TlsCertificateError",
    "TlsAlertReceived",
    "HttpResponseTimeout",
    "HttpResponseIncomplete",
    "HttpProtocolError",
    "HttpResponseTransferCoding",
    "HttpResponseContentCoding",
}


def failure(request: str, code: str, detail: object = None) -> CloudError:
    """Returns the error for a code, which is the name of a case in CamelCase."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", code).lower()
    text = f"{request}: {name}" + (f": {detail}" if isinstance(detail, (str, int)) and detail != "" else "")
    if code in DENIED:
        return Denied(f"{text}: the egress rules do not allow this request")
    return Unavailable(text) if code in UNAVAILABLE else Internal(text)
