"""The clients of AWS, Google and Microsoft against the cloud of the tests, which so is not only our own opinion.

Needs botocore, google-auth, requests and msal:

    export SKYDOCK_SERVE=$(mktemp -d)
    cargo test -p skydock-egress --test credentials -- --ignored serve_for &
    python host/egress/tests/vendors.py "$SKYDOCK_SERVE"
"""

import json
import os
import pathlib
import sys
import time

folder = pathlib.Path(sys.argv[1])
while not (folder / "url").exists():
    time.sleep(0.1)
url = (folder / "url").read_text()


def text(name):
    return (folder / name).read_text().strip()


def aws():
    import botocore.session
    from botocore.credentials import ContainerProvider, InstanceMetadataProvider
    from botocore.utils import ContainerMetadataFetcher, InstanceMetadataFetcher

    fetcher = InstanceMetadataFetcher(base_url=url + "/", timeout=5, num_attempts=1)
    keys = InstanceMetadataProvider(fetcher).load().get_frozen_credentials()
    assert keys.access_key == "ASIAEXAMPLE" and keys.token.startswith("aws-session-issued-"), keys

    environ = {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": url + "/v1/credentials",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(folder / "pod-token"),
    }
    keys = ContainerProvider(environ, ContainerMetadataFetcher()).load().get_frozen_credentials()
    assert keys.access_key == "ASIAEXAMPLE", keys

    session = botocore.session.Session()
    session.set_credentials("AKIDEXAMPLE", text("aws-secret"))
    sts = session.create_client("sts", region_name="eu-central-1", endpoint_url=url + "/sts/")
    answer = sts.assume_role(RoleArn="arn:aws:iam::123456789012:role/a", RoleSessionName="ab")
    assert answer["Credentials"]["SessionToken"].startswith("sts-session&<-issued-"), answer
    answer = sts.assume_role_with_web_identity(
        RoleArn="arn:aws:iam::123456789012:role/a", RoleSessionName="ab", WebIdentityToken=text("web-identity")
    )
    assert answer["Credentials"]["AccessKeyId"] == "ASIASTS", answer


def google():
    # Read as the modules are.
    os.environ["GCE_METADATA_HOST"] = url.removeprefix("http://")
    from google.auth import identity_pool
    from google.auth.compute_engine import _metadata
    from google.auth.transport.requests import Request
    from google.oauth2 import service_account

    key = json.loads(text("google.json"))
    credentials = service_account.Credentials.from_service_account_info(key, scopes=["compute"])
    credentials.refresh(Request())
    assert credentials.token.startswith("access-issued-"), credentials.token

    credentials = identity_pool.Credentials(
        audience="//iam/pool",
        subject_token_type="urn:ietf:params:oauth:token-type:jwt",
        token_url=url + "/sts/v1/token",
        credential_source={"file": str(folder / "assertion")},
        scopes=["compute"],
    )
    credentials.refresh(Request())
    assert credentials.token.startswith("access-issued-"), credentials.token

    answer = _metadata.get(Request(), "instance/service-accounts/default/token")
    assert answer["access_token"].startswith("gce-issued-"), answer


def microsoft():
    import msal
    import requests

    class Plain(requests.Session):
        """msal speaks HTTPS only: the authority is answered here, its token endpoint by the cloud."""

        def request(self, method, to, **more):
            if "openid-configuration" in to:
                answer = requests.Response()
                answer.status_code = 200
                answer._content = json.dumps(
                    {
                        "issuer": "https://login.example.com/tenant",
                        "authorization_endpoint": "https://login.example.com/tenant/authorize",
                        "token_endpoint": "https://login.example.com/oauth/token",
                    }
                ).encode()
                return answer
            return super().request(method, to.replace("https://login.example.com", url), **more)

    def app(credential):
        return msal.ConfidentialClientApplication(
            "client",
            client_credential=credential,
            oidc_authority="https://login.example.com/tenant",
            http_client=Plain(),
        )

    for credential in [text("client-secret"), {"client_assertion": text("assertion")}]:
        answer = app(credential).acquire_token_for_client(["a"])
        assert answer.get("access_token", "").startswith("access-issued-"), answer

    os.environ["AZURE_POD_IDENTITY_AUTHORITY_HOST"] = url
    client = msal.ManagedIdentityClient(msal.SystemAssignedManagedIdentity(), http_client=requests.Session())
    answer = client.acquire_token_for_client(resource="https://management.azure.com/")
    assert answer.get("access_token", "").startswith("msi-issued-"), answer


try:
    for vendor in [aws, google, microsoft]:
        vendor()
        print(f"{vendor.__name__}: its own client takes the cloud of the tests for one")
finally:
    (folder / "url").unlink()
