"""`python -m skydock_clouds.openstack init|run`: prepares a home folder for all services, or runs them in one."""

import argparse
import json
import os
import signal
import sys
import time

from skydock_clouds import life
from skydock_clouds.serve import listen

from . import config, services
from .database import Database


class Ended(Exception):
    """A service has ended by itself."""


class Box:
    def __init__(self, home, root, ports=None):
        self.home, self.database = home, Database(root, home)
        self.listeners = {name: listen((ports or {}).get(name, 0)) for name in config.FILES}
        self.urls = {name: f"http://127.0.0.1:{one.getsockname()[1]}" for name, one in self.listeners.items()}
        self.processes, self.spawned = {}, []
        config.write(home, self.urls)

    def start(self, names):
        for name in names:
            if name in services.APPLICATIONS:
                self.processes[services.fork(self.home, name, self.listeners)] = name
            else:
                self.spawned.append(services.spawn(self.home, name, self.listeners[name]))
                self.processes[self.spawned[-1].pid] = name

    def point_catalogue_here(self):
        for name, kind in config.TYPES.items():
            self.database.execute(
                "UPDATE keystone.endpoint, keystone.service SET endpoint.url = %s"
                " WHERE endpoint.service_id = service.id AND service.type = %s",
                (self.urls[name] + config.PATHS.get(name, ""), kind),
            )

    def check(self):
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        name = self.processes.pop(pid, "mariadb")
        raise Ended(f"{name} ended with status {os.waitstatus_to_exitcode(status)}; the end of its log:\n{self.log_of(name)}")

    def log_of(self, name):
        lines = []
        for end in ("out", "log"):
            try:
                with open(os.path.join(self.home, "log", f"{name}.{end}"), errors="replace") as log:
                    lines = [line for line in log if line.strip()] or lines
            except OSError:
                continue
            if lines:
                break
        return "".join(lines[-15:]).rstrip()

    def stop(self):
        """The database in peace, the others at once."""
        for pid in self.processes:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ChildProcessError, ProcessLookupError):
                pass
        self.processes.clear()
        if self.database.process:
            self.database.stop()


def init(arguments):
    from . import prepare

    prepare.prepare(Box(arguments.home, arguments.mariadb))


def run(arguments):
    if arguments.detach:
        life.detach()
    else:
        life.end_with_stdin(lambda: os.kill(os.getpid(), signal.SIGTERM))
    ended = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.append(True) or (_ for _ in ()).throw(KeyboardInterrupt))
    began = time.monotonic()
    box = Box(arguments.home, arguments.mariadb, json.loads(arguments.ports))
    try:
        box.start(["nova"])  # the slowest of all, and first
        box.database.start()
        box.start(["cinder"])
        box.point_catalogue_here()
        services.preload()
        box.start(services.APPLICATIONS)
        services.wait_until_answering(box.urls, box.check)
        ready = {"urls": box.urls, "pid": os.getpid(), "seconds": round(time.monotonic() - began, 1), "password": config.PASSWORD}
        temporary = os.path.join(arguments.home, "ready.tmp")
        with open(temporary, "w") as out:
            json.dump(ready, out)
        os.rename(temporary, os.path.join(arguments.home, "ready.json"))
        while True:
            time.sleep(0.2)
            box.check()
    except KeyboardInterrupt:
        pass
    except (Ended, RuntimeError) as error:
        life.keep(arguments.home)
        sys.exit(str(error))
    finally:
        box.stop()
        if not arguments.detach:
            life.remove(arguments.home)


def main():
    parser = argparse.ArgumentParser(prog="skydock_clouds.openstack")
    parser.add_argument("chore", choices=("init", "run"))
    parser.add_argument("--home", required=True, help="folder of this cloud's own; its path is short, since sockets are in it")
    parser.add_argument("--mariadb", required=True, help="folder MariaDB's packages were unpacked into")
    parser.add_argument("--detach", action="store_true", help="live on when standard input ends")
    parser.add_argument("--ports", default="{}", help="JSON: ports by service, for those that are not to be chosen freely")
    arguments = parser.parse_args()
    {"init": init, "run": run}[arguments.chore](arguments)


main()
