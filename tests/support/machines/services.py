"""A replacement for systemd in docs/howto/run-a-server.md, with the same unit files."""

from __future__ import annotations

import configparser
import shlex
import signal
import socketserver
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Services"]

# The program that a shell finds as systemctl: it passes its arguments on; on failure it ends with 1 and a
# line.
_SYSTEMCTL = """#!{python} -IS
import socket, sys
with socket.socket(socket.AF_UNIX) as asked:
    asked.connect({path!r})
    asked.sendall("\\0".join(sys.argv[1:]).encode() + b"\\n")
    said = asked.makefile().read()
sys.exit(said or 0)
"""


class Services:
    """Starts a unit's ExecStart, and stops it as systemd does: SIGTERM, then TimeoutStopSec to end.

    A unit's restrictions are not applied, and nothing is restarted automatically.

    Parameters
    ----------
    root
        The folder with etc/systemd/system and var/lib. Output goes to ``UNIT.log`` in it.
    environment
        The environment of started units.

    Attributes
    ----------
    returned
        The exit codes of stopped units.
    """

    def __init__(self, root: Path, environment: dict[str, str]) -> None:
        self._root = root
        self._environment = environment
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._stop_seconds: dict[str, float] = {}
        self.returned: list[tuple[str, int]] = []

    def __enter__(self) -> Self:
        path = str(self._root / "run" / "systemd")
        self._listener = socketserver.ThreadingUnixStreamServer(path, self._handler())
        threading.Thread(target=self._listener.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown()
        self._listener.server_close()
        for unit, process in self._processes.items():
            if process.poll() is None:
                # nginx has child processes, which only it can end.
                process.send_signal(signal.SIGTERM if unit == "nginx" else signal.SIGKILL)
            process.wait(60)

    def program(self, python: str) -> str:
        """Return the text of a program that calls this object, for a folder of $PATH."""
        return _SYSTEMCTL.format(python=python, path=str(self._root / "run" / "systemd"))

    def _handler(self) -> type[socketserver.StreamRequestHandler]:
        services = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                words = self.rfile.readline().decode().rstrip("\n").split("\0")
                try:
                    services.control(*words)
                except Exception as error:
                    self.wfile.write(f"systemctl {' '.join(words)}: {error!r}".encode())

        return Handler

    def control(self, verb: str, *words: str) -> None:
        """Carry out a `systemctl` command; any command that the tests do not need is an error."""
        units = [word for word in words if word != "--now"]
        assert verb in ("daemon-reload", "enable", "start", "stop", "restart", "reload"), f"not known: {verb}"
        if verb == "enable":
            assert all("WantedBy" in self._unit(unit)["Install"] for unit in units)
        if verb == "reload":
            for unit in units:
                self._processes[unit].send_signal(signal.SIGHUP)
        if verb in ("stop", "restart"):
            self._stop(units)
        if verb in ("start", "restart") or "--now" in words:
            for unit in units:
                self._start(unit)

    def process(self, unit: str) -> subprocess.Popen[bytes]:
        """Return the process of a unit that was started."""
        return self._processes[unit]

    def run(self, unit: str, command: list[str], environment: dict[str, str]) -> None:
        """Start a unit by its command."""
        with (self._root / f"{unit}.log").open("ab") as log:
            self._processes[unit] = subprocess.Popen(
                command, cwd="/", env=environment, stdout=log, stderr=log
            )

    def _unit(self, unit: str) -> configparser.ConfigParser:
        name, at, instance = unit.partition("@")
        file = self._root / "etc" / "systemd" / "system" / f"{name}{at}.service"
        parser = configparser.ConfigParser(interpolation=None)
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        parser.read_string(file.read_text("utf-8").replace("%i", instance))
        return parser

    def _start(self, unit: str) -> None:
        running = self._processes.get(unit)
        if running is not None and running.poll() is None:
            return
        service = self._unit(unit)["Service"]
        home = self._root / "var" / "lib" / service["StateDirectory"]
        home.mkdir(exist_ok=True)
        assert not Path(service["EnvironmentFile"].removeprefix("-")).exists(), "it is not read here"
        # PostgreSQL takes an account's name over a local socket; here it is passed explicitly.
        own = {"HOME": str(home), "PGUSER": service["User"]}
        self.run(unit, shlex.split(service["ExecStart"]), self._environment | own)
        self._stop_seconds[unit] = float(service["TimeoutStopSec"])

    def _stop(self, units: list[str]) -> None:
        for unit in units:
            self._processes[unit].terminate()
        for unit in units:
            self.returned.append((unit, self._processes[unit].wait(self._stop_seconds[unit])))
