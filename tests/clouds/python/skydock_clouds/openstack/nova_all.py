"""Nova's conductor, scheduler, compute service on a fake hypervisor, and API, in one process: then the in-memory transport is enough."""

import sys

import nova.cmd  # noqa: F401  changes Python's sockets and threads, so it comes first

import socket

import eventlet
import nova.conf
import os_brick
import os_vif
from nova import config, context, exception, objects, service
from nova.api import wsgi
from nova.compute import rpcapi as compute
from nova.conductor import rpcapi as conductor
from nova.objects import host_mapping
from nova.scheduler import rpcapi as scheduler
from nova.virt import node
from oslo_log import log as logging
from oslo_service import service as launcher
from oslo_utils.fixture import uuidsentinel
from skydock_clouds import green

CONF = nova.conf.CONF


def map_host():
    """Waits until the compute host has reported and is in its cell; in a prepared database it is."""
    admin = context.get_admin_context()
    while True:
        try:
            return objects.HostMapping.get_by_host(admin, CONF.host)
        except exception.HostMappingNotFound:
            host_mapping.discover_hosts(admin)
            eventlet.sleep(0.2)


def main():
    listener = socket.socket(fileno=int(sys.argv[1]))
    log = sys.argv[2]
    config.parse_args(["nova", *sys.argv[3:]])
    logging.setup(CONF, "nova")
    objects.register_all()
    os_brick.setup(CONF)
    os_vif.initialize()
    # The fake driver draws a new node in each process; the one of this host stays.
    uuidsentinel._sentinels["node_" + CONF.host] = node.get_local_node_uuid()
    services = launcher.ServiceLauncher(CONF, restart_method="mutate")
    for binary, topic in (
        ("nova-conductor", conductor.RPC_TOPIC), ("nova-scheduler", scheduler.RPC_TOPIC), ("nova-compute", compute.RPC_TOPIC),
    ):
        services.launch_service(service.Service.create(binary=binary, topic=topic))

    def serve():
        map_host()
        services.launch_service(green.Api(lambda: wsgi.Loader().load_app("osapi_compute"), listener, log))

    eventlet.spawn(serve)
    services.wait()


main()
