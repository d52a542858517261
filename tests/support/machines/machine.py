"""A machine in a folder, for the steps of docs/howto/run-a-server.md and examples/deployment.

The shell, arcwise, nginx, PostgreSQL, openssl and curl are real. `Services` replaces systemd. The account is
always this one; PostgreSQL gets the name that `sudo -u` asks for.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.support.machines.services import Services
from tests.support.machines.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Self

__all__ = ["DEPLOYMENT", "Machine", "find_program"]

DEPLOYMENT = Path(__file__).parents[3] / "examples" / "deployment"
_FOLDERS = "bin etc/nginx/conf.d etc/prometheus etc/systemd/system run usr/local/bin var/lib"

# Debian's /etc/nginx/nginx.conf around conf.d, and a place for nginx's own files.
_NGINX = """
{user}
worker_processes 2;
pid {root}/run/nginx.pid;
error_log {root}/nginx-error.log;
daemon off;
events {{ worker_connections 768; }}
http {{
    access_log {root}/nginx-access.log;
    client_body_temp_path {root}/run/body;
    proxy_temp_path {root}/run/proxy;
    fastcgi_temp_path {root}/run/fastcgi;
    uwsgi_temp_path {root}/run/uwsgi;
    scgi_temp_path {root}/run/scgi;
    include {root}/etc/nginx/conf.d/*.conf;
}}
"""
_SUDO = """#!/bin/sh
if [ "$1" = -u ]; then PGUSER=$2; export PGUSER; shift 2; fi
exec "$@"
"""


def find_program(name: str) -> str | None:
    """Return the path of a program that tests can do without, or None; if CI asks for all, that fails."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None and os.environ.get("ARCWISE_TEST_PROGRAMS") == "all":
        pytest.fail(f"ARCWISE_TEST_PROGRAMS asks for all programs, and there is no {name}")
    return found


class Machine:
    """A folder with an /etc and so on, programs that act on it, and processes that end with it.

    Parameters
    ----------
    root
        The folder.
    environment
        The environment of services and commands.
    table
        Replacements in texts, besides paths and ports.
    """

    def __init__(self, root: Path, environment: Mapping[str, str], table: Mapping[str, str]) -> None:
        self.root = root
        self.nginx = find_program("nginx")
        self.ports = dict(zip(("8000", "8001", "8002", "443"), _free_ports(4), strict=True))
        self.url = f"https://127.0.0.1:{self.ports['443']}"
        self._table = {
            **{path: f"{root}{path}" for path in ("/etc/", "/var/lib/", "/opt/", "/usr/local/bin/")},
            **{port: str(self.ports[port]) for port in ("8000", "8001", "8002")},
            "listen 443": f"listen 127.0.0.1:{self.ports['443']}",
            "listen [::]:443 ssl default_server;": "",
            **table,
        }
        self._environment = {
            **environment,
            "PATH": f"{root}/bin:{root}/usr/local/bin:{environment['PATH']}",
            "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        }
        self.services = Services(root, self._environment)
        for folder in _FOLDERS.split():
            (root / folder).mkdir(parents=True)
        shutil.copytree(
            DEPLOYMENT, root / "examples" / "deployment", ignore=shutil.ignore_patterns("__pycache__")
        )
        for file in (root / "examples" / "deployment").rglob("*"):
            if file.is_file():
                file.write_text(self.place(file.read_text("utf-8")), "utf-8")
        (root / ".curlrc").write_text("silent\nshow-error\n", "utf-8")
        self._write_programs()

    def place(self, text: str) -> str:
        """Return a text with the paths and ports of this machine; the longest entry of the table wins."""
        entries = sorted(self._table, key=len, reverse=True)
        return re.sub("|".join(map(re.escape, entries)), lambda found: self._table[found[0]], text)

    def _write_programs(self) -> None:
        root, python = self.root, shlex.quote(sys.executable)
        options = f"-p {root} -e {root}/nginx-error.log -c {root}/etc/nginx/nginx.conf"
        programs = {
            "sudo": _SUDO,
            "systemctl": self.services.program(sys.executable),
            "nginx": f'#!/bin/sh\nexec {self.nginx} {options} "$@"\n',
            "python3": f'#!/bin/sh\nexec {python} "$@"\n',
            "arcwise": f'#!/bin/sh\nexec {python} -m arcwise.cli "$@"\n',
        }
        for name, text in programs.items():
            (root / "bin" / name).write_text(text, "utf-8")
            (root / "bin" / name).chmod(0o755)

    def __enter__(self) -> Self:
        self.services.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.services.__exit__()

    def shell(self) -> Shell:
        """Return a shell in the folder; `arcwise serve` takes the port that represents 8000."""
        own = {"CURL_HOME": str(self.root), "ARCWISE_PORT": str(self.ports["8000"])}
        return Shell(self.root, self._environment | own)

    def start_nginx(self) -> None:
        """Make a certificate for reports.example, let curl trust it, and start nginx as Debian has it."""
        folder = self.root / "etc" / "letsencrypt" / "live" / "reports.example"
        folder.mkdir(parents=True)
        self.certificate = folder / "fullchain.pem"
        command = shlex.split("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=arcwise -addext")
        names = "subjectAltName=DNS:reports.example,IP:127.0.0.1"
        files = ["-keyout", str(folder / "privkey.pem"), "-out", str(self.certificate)]
        subprocess.run([*command, names, *files], check=True, capture_output=True)
        with (self.root / ".curlrc").open("a", encoding="utf-8") as settings:
            place = f"reports.example:443:127.0.0.1:{self.ports['443']}"
            settings.write(f'cacert = "{self.certificate}"\nconnect-to = "{place}"\n')
        user = "user root;" if os.getuid() == 0 else ""  # nginx's own user cannot reach the folder
        configuration = self.root / "etc" / "nginx" / "nginx.conf"
        configuration.write_text(_NGINX.format(user=user, root=self.root), "utf-8")
        self.services.run("nginx", [str(self.root / "bin" / "nginx")], self._environment)
        wait_until((self.root / "run" / "nginx.pid").exists)

    def wait_until_ready(self, port: str) -> None:
        """Wait until the worker on a port of the page accepts reports."""
        url = f"http://127.0.0.1:{self.ports[port]}/health/ready"

        def ready() -> bool:
            with contextlib.suppress(httpx.TransportError):
                return httpx.get(url).status_code == 200
            return False

        wait_until(ready)

    def logs(self) -> dict[str, str]:
        """Return everything that this machine has written to its logs."""
        return {file.name: file.read_text("utf-8") for file in self.root.glob("*.log")}


def wait_until(done: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [each.getsockname()[1] for each in sockets]
