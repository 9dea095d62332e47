"""The services' configuration files, from `etc/`."""

import os
import string
import sys

PASSWORD = "loopback"  # of every service's user and of the admin; who can read it can read the database too
TEMPLATES = os.path.join(os.path.dirname(__file__), "etc")
FILES = {
    "keystone": "keystone.conf",
    "placement": "placement.conf",
    "glance": "glance-api.conf",
    "neutron": "neutron.conf",
    "octavia": "octavia.conf",
    "nova": "nova.conf",
    "cinder": "cinder.conf",
}
DATABASES = ("keystone", "placement", "glance", "neutron", "octavia", "nova_api", "nova", "nova_cell0", "cinder")
# Sections with credentials, beside [keystone_authtoken].
CREDENTIALS = {
    "nova": {"placement": "placement", "neutron": "neutron", "cinder": "nova", "service_user": "nova"},
    "neutron": {"nova": "neutron"},
    "octavia": {"service_auth": "octavia"},
    "cinder": {"nova": "cinder"},
}
# Where an endpoint begins, after the address.
PATHS = {"keystone": "/v3", "nova": "/v2.1", "cinder": "/v3"}
TYPES = {
    "keystone": "identity",
    "placement": "placement",
    "glance": "image",
    "neutron": "network",
    "octavia": "load-balancer",
    "nova": "compute",
    "cinder": "block-storage",
}


def path(home, service):
    return os.path.join(home, "etc", FILES[service])


def database(home, name):
    return f"mysql+pymysql://root@localhost/{name}?unix_socket={home}/my.sock&charset=utf8"


def credentials(section, user, identity):
    return f"""
[{section}]
auth_type = password
auth_url = {identity}/v3
www_authenticate_uri = {identity}/v3
username = {user}
password = {PASSWORD}
user_domain_name = Default
project_domain_name = Default
project_name = service
region_name = RegionOne
# Seconds for which a service takes a token that has been revoked: by default 300, which no test waits for.
token_cache_time = 2
"""


def write(home, urls):
    """Writes all of them, for services at these addresses."""
    for folder in ("etc", "log", "lock", "images", "nova", "octavia", "cinder", "tmp"):
        os.makedirs(os.path.join(home, folder), exist_ok=True)
    values = dict(
        urls,
        home=home,
        venv=sys.prefix,
        database="mysql+pymysql://root@localhost",
        options=f"?unix_socket={home}/my.sock&charset=utf8",
    )
    for service, file in FILES.items():
        with open(os.path.join(TEMPLATES, file)) as template:
            text = string.Template(template.read()).substitute(values)
        sections = {"keystone_authtoken": service} if service != "keystone" else {}
        sections.update(CREDENTIALS.get(service, {}))
        for section, user in sections.items():
            header = f"[{section}]\n"
            block = credentials(section, user, urls["keystone"]).lstrip()
            # A section of the template goes on; oslo.config reads a section twice as gladly as once, people do not.
            text = text.replace(header, block) if header in text else f"{text}{block}"
        with open(path(home, service), "w") as out:
            out.write(text)


def environment(home):
    """What the services, and the programs that prepare their databases, read from their environment."""
    etc = os.path.join(home, "etc")
    return {
        "PATH": os.environ.get("PATH", ""),
        "HOME": home,
        "TMPDIR": os.path.join(home, "tmp"),
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LANG": "C.UTF-8",
        "no_proxy": "*",
        "OS_KEYSTONE_CONFIG_DIR": etc,
        "OS_KEYSTONE_CONFIG_FILES": FILES["keystone"],
        "OS_GLANCE_CONFIG_DIR": etc,
        "OS_PLACEMENT_CONFIG_DIR": etc,
        "OS_NEUTRON_CONFIG_DIR": etc,
        "OS_NEUTRON_CONFIG_FILES": FILES["neutron"],
        "OS_NOVA_CONFIG_DIR": etc,
        "OCTAVIA_CONF": path(home, "octavia"),
    }
