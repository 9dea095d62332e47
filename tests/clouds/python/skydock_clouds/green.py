"""A WSGI application on a socket that listens already, like `serve`, but in eventlet's threads. Imported after Python has been changed."""

import json

import eventlet
import eventlet.wsgi
from oslo_service import service

THREADS = 32


class Api(service.ServiceBase):
    """What `load` answers, with a log of its requests."""

    def __init__(self, load, listener, log):
        self.load, self.listener, self.log = load, listener, open(log, "a", buffering=1)
        self.green = None

    def write(self, line):
        self.log.write(line + "\n")

    def start(self):
        form = json.dumps({"method": "%(x)s"}).replace('"%(x)s"', '"%(request_line)s", "status": %(status_code)s, "s": %(wall_seconds).6f')
        self.green = eventlet.spawn(
            eventlet.wsgi.server, self.listener, self.load(), log=Lines(self.write), log_format=form,
            custom_pool=eventlet.GreenPool(THREADS), keepalive=True, socket_timeout=600,
        )

    def stop(self):
        self.green.kill()

    def wait(self):
        self.green.wait()

    def reset(self):
        pass


class Lines:
    """eventlet's log lines as those of the other services."""

    def __init__(self, write):
        self._write = write

    def _record(self, line):
        try:
            entry = json.loads(line)
            method, path, _ = entry["method"].split()
        except (ValueError, KeyError):
            return
        self._write(json.dumps({"method": method, "path": path, "status": entry["status"], "ms": round(entry["s"] * 1000, 1)}))

    def debug(self, line, *_):
        self._record(line)

    info = write = debug
