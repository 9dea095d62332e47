"""The services as processes: all but Nova and Cinder are forked from one interpreter that has loaded what they share."""

import importlib
import os
import signal
import subprocess
import sys
import time

from skydock_clouds import life, serve

from . import config

# Loaded once, before any fork. Nothing here starts a thread or reads a configuration.
SHARED = (
    "alembic", "cryptography.fernet", "cryptography.x509", "dogpile.cache", "jsonschema", "keystoneauth1.session",
    "keystonemiddleware.auth_token", "lxml.etree", "netaddr", "oslo_cache", "oslo_concurrency.lockutils", "oslo_context.context",
    "oslo_db.sqlalchemy.enginefacade", "oslo_log.log", "oslo_messaging", "oslo_middleware", "oslo_policy.policy",
    "oslo_serialization.jsonutils", "oslo_utils.timeutils", "oslo_versionedobjects.base", "osprofiler.web", "paste.deploy", "pecan",
    "pymysql", "requests", "routes", "sqlalchemy.orm", "stevedore", "waitress", "webob.dec", "yaml",
)


def keystone():
    return importlib.import_module("keystone.wsgi.api").application


def placement():
    return importlib.import_module("placement.wsgi.api").application


def glance():
    return importlib.import_module("glance.wsgi.api").application


def neutron():
    application = importlib.import_module("neutron.wsgi.api").application
    # It is made by the first request, and the second must not find it half-made.
    importlib.import_module("neutron.policy").init()
    return application


def octavia():
    """The API, and the worker as a thread, so that oslo.messaging's in-memory transport connects them."""
    sys.argv += ["--config-file", os.environ["OCTAVIA_CONF"]]
    from octavia.api import app

    application = app.setup_app(argv=sys.argv)
    import oslo_messaging
    from octavia.common import constants, rpc
    from octavia.controller.queue.v2 import endpoints
    from oslo_config import cfg

    target = oslo_messaging.Target(topic=constants.TOPIC_AMPHORA_V2, server=cfg.CONF.host, fanout=False)
    rpc.get_server(target, [endpoints.Endpoints()], executor="threading").start()
    return application


APPLICATIONS = {"keystone": keystone, "neutron": neutron, "octavia": octavia, "placement": placement, "glance": glance}
THREADS = {"keystone": 8, "neutron": 12, "octavia": 8, "placement": 4, "glance": 4}


def preload():
    for module in SHARED:
        try:
            importlib.import_module(module)
        except ImportError as error:  # slower, not wrong
            print(f"not preloaded: {error}", file=sys.stderr)


def _child(home, name, listeners):
    life.die_with_parent()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    log = os.open(os.path.join(home, "log", f"{name}.out"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    for other, listener in listeners.items():
        if other != name:
            listener.close()
    os.environ.clear()
    os.environ.update(config.environment(home))
    sys.argv = [name]  # the services would parse ours
    serve.serve(APPLICATIONS[name](), listeners[name], os.path.join(home, "log", f"{name}.access"), THREADS[name])


def fork(home, name, listeners):
    """Starts a service on its socket; answers its process ID."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        _child(home, name, listeners)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)


def spawn(home, name, listener):
    """Starts Nova or Cinder, which change Python itself before anything is loaded; answers the process."""
    with open(os.path.join(home, "log", f"{name}.out"), "a") as log:
        return subprocess.Popen(
            [sys.executable, "-m", f"skydock_clouds.openstack.{name}_all", str(listener.fileno()),
             os.path.join(home, "log", f"{name}.access"), "--config-file", config.path(home, name)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=config.environment(home),
            pass_fds=[listener.fileno()], preexec_fn=life.die_with_parent,
        )


def wait_until_answering(urls, alive, patience=180):
    """Waits until each answers anything at all; calls `alive` while it does, which raises if it is no use."""
    import requests

    session = requests.Session()
    session.trust_env = False
    began = time.monotonic()
    for name, url in urls.items():
        while True:
            alive()
            try:
                session.get(f"{url}/", timeout=1)
                break
            except requests.RequestException:
                if time.monotonic() - began > patience:
                    raise RuntimeError(f"{name} has not answered for {patience} s") from None
                time.sleep(0.05)
        print(f"{time.monotonic() - began:.1f} s {name} answers", file=sys.stderr, flush=True)
