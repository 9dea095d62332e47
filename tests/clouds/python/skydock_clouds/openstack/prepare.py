"""The home folder as every cloud begins: databases, keys, the catalogue, the services' users, flavors, an image, networks outside, types of volumes."""

import concurrent.futures
import os
import shutil
import subprocess
import sys
import time

from . import config, services


def chore(home, name, *command):
    """Runs a program of the venv to its end."""
    began = time.monotonic()
    program = os.path.join(sys.prefix, "bin", command[0])
    log = os.path.join(home, "log", f"prepare-{name}.log")
    with open(log, "w") as out:
        done = subprocess.run(
            [sys.executable, program, *command[1:]], stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=config.environment(home)
        )
    if done.returncode:
        lines = []
        # Some say why in their service's log alone.
        for file in (os.path.join(home, "log", f"{name.split('-')[0]}.log"), log):
            if os.path.exists(file):
                with open(file, errors="replace") as text:
                    lines += [line for line in text if line.strip()][-10:]
        raise SystemExit(f"{' '.join(command[:1])} ({name}) failed with status {done.returncode}:\n{''.join(lines)}")
    print(f"{name}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)


def schemas(box):
    """All databases' tables; the long way, migration by migration, but two at a time."""

    def manage(name, program, *arguments):
        service = name.split("-")[0]
        chore(box.home, name, program, "--config-file", config.path(box.home, service), *arguments)

    def cell(name):
        # Filled in from [database] connection whenever it is used: the socket is in another place in each run.
        return f"{{scheme}}://{{username}}@{{hostname}}/{name}?{{query}}"

    def keystone_and_nova():
        who = [f"--keystone-{kind}={number}" for kind, number in (("user", os.getuid()), ("group", os.getgid()))]
        manage("keystone-fernet", "keystone-manage", "fernet_setup", *who)
        manage("keystone-credential", "keystone-manage", "credential_setup", *who)
        manage("keystone-tables", "keystone-manage", "db_sync")
        url = box.urls["keystone"] + "/v3"
        manage("keystone-bootstrap", "keystone-manage", "bootstrap", "--bootstrap-password", config.PASSWORD, "--bootstrap-region-id",
               "RegionOne", "--bootstrap-admin-url", url, "--bootstrap-public-url", url, "--bootstrap-internal-url", url)
        manage("nova-api", "nova-manage", "api_db", "sync")
        manage("nova-cell0", "nova-manage", "cell_v2", "map_cell0", "--database_connection", cell("nova_cell0"))
        manage("nova-tables", "nova-manage", "db", "sync")
        manage("nova-cell1", "nova-manage", "cell_v2", "create_cell", "--name", "cell1", "--database_connection", cell("nova"),
               "--transport-url", "fake:///")

    def others():
        manage("placement", "placement-manage", "db", "sync")
        manage("glance", "glance-manage", "db_sync")
        manage("octavia", "octavia-db-manage", "upgrade", "head")
        manage("cinder", "cinder-manage", "db", "sync")

    with concurrent.futures.ThreadPoolExecutor() as pool:
        work = [pool.submit(keystone_and_nova), pool.submit(others)]
        work.append(pool.submit(manage, "neutron", "neutron-db-manage", "upgrade", "heads"))
        for one in work:
            one.result()


class Api:
    """Requests as the admin."""

    def __init__(self, urls):
        import requests

        self.session, self.urls = requests.Session(), urls
        self.session.trust_env = False
        user = {"name": "admin", "domain": {"id": "default"}, "password": config.PASSWORD}
        answer = self.session.post(urls["keystone"] + "/v3/auth/tokens", json={"auth": {
            "identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {"project": {"name": "admin", "domain": {"id": "default"}}},
        }})
        answer.raise_for_status()
        self.session.headers["X-Auth-Token"] = answer.headers["X-Subject-Token"]

    def __call__(self, method, service, path, body=None, **how):
        answer = self.session.request(method, self.urls[service] + path, json=body, **how)
        if not answer.ok:
            raise SystemExit(f"{method} {service} {path} answered {answer.status_code}: {answer.text}")
        return answer.json() if answer.content else None

    def make(self, service, path, kind, **fields):
        return self("POST", service, path, {kind: fields})[kind]


def identity(box):
    """The services' users and the catalogue."""
    api = Api(box.urls)
    roles = {role["name"]: role["id"] for role in api("GET", "keystone", "/v3/roles")["roles"]}
    for name in ("service", "load-balancer_member", "load-balancer_admin"):
        if name not in roles:
            roles[name] = api.make("keystone", "/v3/roles", "role", name=name)["id"]
    project = api.make("keystone", "/v3/projects", "project", name="service", domain_id="default")["id"]
    for name, kind in config.TYPES.items():
        if name == "keystone":
            continue
        user = api.make("keystone", "/v3/users", "user", name=name, password=config.PASSWORD, domain_id="default")["id"]
        for role in ("admin", "service"):
            api("PUT", "keystone", f"/v3/projects/{project}/users/{user}/roles/{roles[role]}")
        service = api.make("keystone", "/v3/services", "service", name=name, type=kind)["id"]
        for interface in ("public", "internal", "admin"):
            url = box.urls[name] + config.PATHS.get(name, "")
            api.make("keystone", "/v3/endpoints", "endpoint", service_id=service, interface=interface, url=url, region_id="RegionOne")


def content(box):
    """What a project finds: flavors, an image, networks outside, and types of volumes."""
    api = Api(box.urls)
    for name, cpus, ram in (("m1.tiny", 1, 512), ("m1.small", 1, 2048), ("m1.large", 4, 8192)):
        # Without a disk Nova would deny it to all but the admin.
        api.make("nova", "/v2.1/flavors", "flavor", name=name, vcpus=cpus, ram=ram, disk=1)
    image = api("POST", "glance", "/v2/images", {
        "name": "tiny", "disk_format": "raw", "container_format": "bare", "visibility": "public",
    })["id"]
    api("PUT", "glance", f"/v2/images/{image}/file", data=b"\0", headers={"Content-Type": "application/octet-stream"})
    for name, subnets in (("public", ((4, "198.18.0.0/16"), (6, "2001:db8:1::/64"))), ("public-2", ((4, "203.0.113.0/24"),))):
        network = api.make("neutron", "/v2.0/networks", "network", **{
            "name": name, "router:external": True, "provider:network_type": "flat", "provider:physical_network": name,
        })["id"]
        for version, cidr in subnets:
            api.make("neutron", "/v2.0/subnets", "subnet", network_id=network, name=f"{name}-v{version}", ip_version=version, cidr=cidr,
                     enable_dhcp=False)
    for name in ("fast", "faulty"):
        api.make("cinder", "/v3/types", "volume_type", name=name)
    while not api("GET", "nova", "/v2.1/os-hypervisors")["hypervisors"]:
        time.sleep(0.2)


def authority(home):
    """What signs appliances' certificates, which nobody will ever present."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa
    import datetime

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "loopback")])
    begin = datetime.datetime(2025, 1, 1)
    certificate = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
        .not_valid_before(begin).not_valid_after(begin + datetime.timedelta(days=36500))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(key, hashes.SHA256())
    )
    plain = (serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
    for file, data in (("ca.key", key.private_bytes(serialization.Encoding.PEM, *plain)),
                       ("ca.pem", certificate.public_bytes(serialization.Encoding.PEM))):
        with open(os.path.join(home, "octavia", file), "wb") as out:
            out.write(data)


def prepare(box):
    try:
        began = time.monotonic()
        box.database.create(config.DATABASES)
        print(f"mariadb: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
        authority(box.home)
        schemas(box)
        services.preload()
        box.start(["keystone"])
        services.wait_until_answering({"keystone": box.urls["keystone"]}, box.check)
        identity(box)
        box.start([name for name in config.FILES if name != "keystone"])
        services.wait_until_answering(box.urls, box.check)
        content(box)
    finally:
        box.stop()
    # What is of this run alone.
    for name in ("etc", "log", "lock", "tmp", "my.sock", "my.pid"):
        path = os.path.join(box.home, name)
        shutil.rmtree(path) if os.path.isdir(path) else os.path.exists(path) and os.remove(path)
