"""Run pages as pasted: ``python -m tests.docs.pages PAGE...`` runs their blocks in a temporary folder."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from arcwise.cli import main as arcwise
from tests.docs.blocks import ROOT, Block, blocks, differs, unsaid

__all__ = ["Page"]

_SHELL = re.compile(r"[|;&<>$`*?~(){}=\[\]]")
_KEEPS_RUNNING = re.compile(r"^(?:\w+=\S+ )*(?:python -m )?arcwise (?:serve|dashboard)\b", re.MULTILINE)
_SECONDS = 120


class Page:
    """A session in which the blocks of a page run one after the other.

    Parameters
    ----------
    path
        The page.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._groups: list[int] = []
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        os.environ.update(
            {
                "ARCWISE_PORT": str(self._port),
                "BROWSER": "true",
                "MPLBACKEND": "agg",
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "COLUMNS": "200",
            }
        )

    def run(self) -> int:
        """Run all blocks in the working folder, and return their number."""
        count = 0
        try:
            for block in blocks(self._path.read_text(encoding="utf-8")):
                if block.language in ("python", "sh", "console") and not block.left_out:
                    self._run(block)
                    count += 1
        finally:
            for group in self._groups:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(group, signal.SIGTERM)
        return count

    def _run(self, block: Block) -> None:
        text = self._placed(block.text)
        varies = "varies" in block.comments
        try:
            if block.language == "python":
                said = self._python(text, block)
                wrong = unsaid(text, said)
            elif block.language == "sh":
                said, wrong = self._shell(text, keeps="keeps running" in block.comments), ""
            else:
                said, wrong = "", self._console(text, varies=varies)
            if block.shown is not None:
                wrong = wrong or differs(self._placed(block.shown), said, varies=varies)
        except BaseException as error:
            raise RuntimeError(f"{self._path}:{block.line}: {type(error).__name__}: {error}") from error
        if wrong:
            raise AssertionError(f"{self._path}:{block.line}: {wrong}")

    def _placed(self, text: str) -> str:
        here = f"127.0.0.1:{self._port}"
        text = re.sub(r"(?:127\.0\.0\.1|localhost|0\.0\.0\.0):8000", here, text)
        text = re.sub(r"(--port[ =])8000", rf"\g<1>{self._port}", text)
        return re.sub(r"https://reports\.example(?![.\w])", f"http://{here}", text)

    def _python(self, text: str, block: Block) -> str:
        padded = "\n" * block.line + text
        with contextlib.redirect_stdout(io.StringIO()) as said:
            exec(compile(padded, str(self._path), "exec"), self._names)
        return said.getvalue()

    def _console(self, text: str, *, varies: bool) -> str:
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, shown = re.fullmatch(r"((?:[^\n]*\\\n)*[^\n]*\n)(.*)", part, re.DOTALL).groups()  # type: ignore[union-attr]
            if wrong := differs(shown, self._shell(command, keeps=False), varies=varies):
                return wrong
        return ""

    def _shell(self, text: str, *, keeps: bool) -> str:
        lines = [line for line in text.replace("\\\n", " ").splitlines() if line and line[0] != "#"]
        installs = [line for line in lines if re.match(r"(?:python3? -m )?pip install ", line)]
        for line in installs:
            _check_extras(line)
        if installs:
            lines = [line for line in lines if line not in installs]
            text = "\n".join(lines) + "\n"
        if keeps or _KEEPS_RUNNING.search(text):
            self._start(text)
            return ""
        commands = [shlex.split(line, comments=True) for line in lines if not _SHELL.search(line)]
        if len(commands) == len(lines) and all(command[:1] == ["arcwise"] for command in commands):
            return "".join(_arcwise(command[1:]) for command in commands)
        return self._bash(text)

    def _bash(self, text: str) -> str:
        with tempfile.TemporaryFile() as said, tempfile.NamedTemporaryFile() as state:
            script = f"set -eEuo pipefail -o allexport\n{text}\nenv -0 > {state.name}\n"
            process = subprocess.Popen(
                ["bash", "-c", script], stdout=said, stderr=subprocess.STDOUT, start_new_session=True
            )
            self._groups.append(process.pid)
            status = process.wait(_SECONDS)
            said.seek(0)
            output = said.read().decode()
            if status:
                raise AssertionError(f"exit status {status}\n{output}")
            variables = dict(
                each.split("=", 1) for each in Path(state.name).read_text("utf-8").split("\0") if each
            )
            os.chdir(variables["PWD"])
            os.environ.update(variables)
            return output

    def _start(self, text: str) -> None:
        """Start a long-running command, and wait until it listens at the address on the page."""
        log = tempfile.TemporaryFile()  # noqa: SIM115 (it keeps being written)
        process = subprocess.Popen(
            ["bash", "-euc", text], stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        self._groups.append(process.pid)
        until = time.monotonic() + _SECONDS
        while time.monotonic() < until and process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port)):
                return
            time.sleep(0.05)
        log.seek(0)
        raise AssertionError(f"nobody listens; exit status {process.poll()}\n{log.read().decode()}")


def _arcwise(arguments: list[str]) -> str:
    """Run a command in this process, which saves a second of imports."""
    done = CliRunner().invoke(arcwise, arguments)
    if done.exit_code:
        raise AssertionError(f"arcwise {shlex.join(arguments)}: exit status {done.exit_code}\n{done.output}")
    return done.output


def _check_extras(line: str) -> None:
    """Check the extras of an install command: they must be extras of arcwise itself."""
    listed = (ROOT / "pyproject.toml").read_text("utf-8").partition("[project.optional-dependencies]")[2]
    extras = re.findall(r"^(\w+) = \[", listed.partition("\n[")[0], re.MULTILINE)
    for names in re.findall(r"arcwise\[([^\]]*)\]", line):
        for name in names.split(","):
            assert name.strip() in extras, f"{line}: there is no extra {name}"


def main(paths: list[str]) -> int:
    """Run pages, each in a separate folder."""
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", ResourceWarning)  # of objects that live to the end of a page
    warnings.filterwarnings("ignore", "fetch_arrow_table", DeprecationWarning)  # of ibis
    for path in [Path(each).resolve() for each in paths]:
        # Servers of the page may still be ending, and write there.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            os.chdir(folder)
            sys.path.insert(0, folder)
            count = Page(path).run()
            os.chdir(ROOT)
        sys.stdout.write(f"{path}: {count} blocks\n")
    return 0


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(status)  # threads and servers of a page end with it
