"""MariaDB on a Unix socket, from packages unpacked into the cache."""

import os
import subprocess
import time

import pymysql

from skydock_clouds import life

OPTIONS = [
    "--skip-networking",
    "--skip-log-bin",
    "--skip-name-resolve",
    "--performance-schema=OFF",
    "--innodb-buffer-pool-size=96M",
    "--innodb-log-file-size=16M",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-flush-method=nosync",
    "--innodb-doublewrite=OFF",
    "--innodb-fast-shutdown=1",
    "--max-connections=500",
    "--thread-cache-size=64",
]


class Database:
    """`root` is the folder the packages were unpacked into, or / for those of the system."""

    def __init__(self, root, home):
        self.root, self.home = root, home
        self.socket = os.path.join(home, "my.sock")
        self.process = None

    def _environment(self):
        libraries = [folder for folder in self._folders() if os.path.isdir(folder)]
        return dict(os.environ, LD_LIBRARY_PATH=":".join(libraries)) if self.root != "/" else dict(os.environ)

    def _folders(self):
        for folder in ("usr/lib", "lib"):
            path = os.path.join(self.root, folder)
            yield path
            if os.path.isdir(path):
                yield from (os.path.join(path, name) for name in os.listdir(path) if name.endswith("-linux-gnu"))

    def _share(self):
        # By its older name in Debian 12, by its newer in Debian 13.
        folders = (os.path.join(self.root, "usr/share", name) for name in ("mariadb", "mysql"))
        return next(folder for folder in folders if os.path.exists(os.path.join(folder, "mysql_system_tables.sql")))

    def _command(self):
        user = ["--user=root"] if os.geteuid() == 0 else []
        share = self._share()
        return [
            os.path.join(self.root, "usr/sbin/mariadbd"),
            "--no-defaults",
            *user,
            f"--lc-messages-dir={share}",
            f"--character-sets-dir={share}/charsets",
            f"--datadir={self.home}/mysql",
            f"--tmpdir={self.home}/tmp",
        ]

    def create(self, names):
        """Makes an empty server with these databases, in which root needs no password on the socket, and starts it."""
        os.makedirs(os.path.join(self.home, "mysql"))
        share = self._share()
        statements = ["create database mysql;", "use mysql;"]
        for name in ("mysql_system_tables", "mysql_performance_tables", "mysql_system_tables_data"):
            with open(os.path.join(share, f"{name}.sql")) as file:
                statements.append(file.read())
        command = [*self._command(), "--bootstrap", "--max_allowed_packet=8M", "--net_buffer_length=16K", *OPTIONS[1:]]
        with open(os.path.join(self.home, "log", "mariadb-bootstrap.log"), "w") as log:
            # One statement a line; these two are read by the scripts.
            text = "\n".join(["set @current_hostname='localhost';", "set @auth_root_socket=NULL;", *statements])
            subprocess.run(command, input=text.encode(), stdout=log, stderr=log, env=self._environment(), check=True)
        self.start()
        for name in names:
            self.execute(f"CREATE DATABASE {name} CHARACTER SET utf8")

    def start(self):
        with open(os.path.join(self.home, "log", "mariadb.log"), "a") as log:
            self.process = subprocess.Popen(
                [*self._command(), f"--socket={self.socket}", f"--pid-file={self.home}/my.pid", *OPTIONS],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment(), preexec_fn=life.die_with_parent,
            )
        for _ in range(600):
            try:
                return self.execute("SELECT 1")
            except pymysql.err.OperationalError:
                if self.process.poll() is not None:
                    raise RuntimeError(f"mariadbd ended with status {self.process.returncode}") from None
                time.sleep(0.05)
        raise RuntimeError("mariadbd does not listen")

    def execute(self, statement, values=()):
        with pymysql.connect(unix_socket=self.socket, user="root", autocommit=True) as connection:
            with connection.cursor() as cursor:
                cursor.execute(statement, values)

    def stop(self):
        self.process.terminate()
        self.process.wait()
