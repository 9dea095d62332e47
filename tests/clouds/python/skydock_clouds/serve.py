"""A WSGI application on a socket that listens already, in threads, with a log of its requests."""

import json
import socket
import time

import waitress


def listen(port):
    """A socket that listens before its service is there: who comes too early waits in its queue."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("127.0.0.1", port))
    one.listen(1024)
    return one


class AccessLog:
    """Writes a JSON object a line for each answer: method, path with query, status, milliseconds until it began."""

    def __init__(self, application, path):
        self.application = application
        self.log = open(path, "a", buffering=1)

    def __call__(self, environ, start_response):
        began = time.monotonic()

        def start(status, headers, exc_info=None):
            query = environ.get("QUERY_STRING")
            path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
            self.log.write(json.dumps({
                "method": environ["REQUEST_METHOD"],
                "path": f"{path}?{query}" if query else path,
                "status": int(status.split()[0]),
                "ms": round((time.monotonic() - began) * 1000, 1),
            }) + "\n")
            return start_response(status, headers, exc_info) if exc_info else start_response(status, headers)

        return self.application(environ, start)


def serve(application, listener, log, threads=8):
    """Serves until the process ends."""
    waitress.serve(
        AccessLog(application, log),
        sockets=[listener],
        threads=threads,
        ident=None,
        clear_untrusted_proxy_headers=True,
        channel_timeout=600,
        connection_limit=1000,
    )
