"""Cinder's scheduler, volume service on disks that are not there, and API, in one process: then the in-memory transport is enough."""

import sys

from cinder.cmd import volume  # changes Python's sockets and threads, so it comes first

import socket

import eventlet
from cinder import context, coordination, objects, service, version
from oslo_log import log as logging
from oslo_service import service as launcher
from oslo_service import wsgi
from skydock_clouds import green

CONF = volume.CONF
BACKEND = "disks"


class Service(service.Service):
    """Reports for itself. Cinder expects one service in a process, and would report for the last."""

    def report_state(self):
        service.Service.service_id = self.origin_service_id
        super().report_state()


def main():
    listener = socket.socket(fileno=int(sys.argv[1]))
    log = sys.argv[2]
    objects.register_all()
    CONF(sys.argv[3:], project="cinder", version=version.version_string())
    logging.setup(CONF, "cinder")
    CONF.register_opt(volume.host_opt, group=BACKEND)
    coordination.COORDINATOR.start()
    scheduler = Service.create(binary="cinder-scheduler")
    disks = Service.create(binary="cinder-volume", host=f"{CONF.host}@{BACKEND}", service_name=BACKEND)
    services = launcher.ServiceLauncher(CONF, restart_method="mutate")
    for one in (scheduler, disks):
        services.launch_service(one)

    def serve():
        while not (scheduler.rpcserver and disks.backend_rpcserver):
            eventlet.sleep(0.05)
        # They do so by themselves, but seconds later; until then there is no backend for a volume.
        for one in (scheduler, disks):
            one.report_state()
        while not scheduler.manager.driver.host_manager.service_states:
            disks.manager.publish_service_capabilities(context.get_admin_context())
            eventlet.sleep(0.05)
        services.launch_service(green.Api(lambda: wsgi.Loader(CONF).load_app("osapi_volume"), listener, log))

    eventlet.spawn(serve)
    services.wait()


main()
