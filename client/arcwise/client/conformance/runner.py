"""Sends every case to an executable, one line at a time, and checks the answers."""

from __future__ import annotations

import hashlib
import json
import queue
import subprocess
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from arcwise.client.conformance.cases import OPTIONAL, Case, Object, all_cases
from arcwise.client.conformance.deliveries import Known
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

_MOST_DEATHS = 3
"""If the executable ends this many times in a row without an answer, the remaining cases are not sent."""


class Failure(NamedTuple):
    """A case that a client failed."""

    case: Case
    expected: str
    got: str


class Tally:
    """The results for the cases of one kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.passed = 0
        self.skipped = 0
        self.why_skipped = ""
        self.failures: list[Failure] = []

    @property
    def cases(self) -> int:
        """Number of cases."""
        return self.passed + self.skipped + len(self.failures)

    @property
    def holds(self) -> bool:
        """Whether no case failed and, unless the kind is optional, no case was skipped."""
        return not self.failures and (not self.skipped or self.kind in OPTIONAL)


class Report(NamedTuple):
    """The results for all cases, by kind."""

    tallies: list[Tally]

    @property
    def passed(self) -> bool:
        """Whether the client conforms: every case passed, or was skipped in an optional kind."""
        return all(tally.holds for tally in self.tallies)


def check(
    command: Sequence[str],
    *,
    kinds: Collection[str] | None = None,
    timeout: float = 60.0,
    progress: Callable[[Tally], None] = lambda tally: None,
) -> Report:
    """Run the cases (of some kinds, or all) against the client that a command starts; return the results.

    `timeout` is the number of seconds to wait for each answer; `progress` is called after each kind.
    """
    cases = list(all_cases())
    known = list(dict.fromkeys(case.kind for case in cases))
    if unknown := sorted(set(kinds or ()) - set(known)):
        raise ParameterError(f"there is no kind {unknown[0]!r}; the kinds are {', '.join(known)}")
    tallies: dict[str, Tally] = {}
    shown = Known()
    with _Executable(command, timeout) as executable:
        for kind in known:
            if kinds and kind not in kinds:
                continue
            tally = tallies[kind] = Tally(kind)
            for case in cases:
                if case.kind == kind:
                    _ask(executable, case, tally, shown)
            progress(tally)
    return Report(list(tallies.values()))


def _ask(executable: _Executable, case: Case, tally: Tally, shown: Known) -> None:
    """Send one case and count its result."""
    began = time.time()
    faults: list[str] = []
    if case.server is None:
        answer = executable.ask(case.request)
    else:
        with case.server.serving() as (url, seen):
            answer = executable.ask({**case.request, "url": url})
        if isinstance(answer, dict) and "result" in answer:
            faults = case.server.faults(seen, began, shown)
    if isinstance(answer, dict) and isinstance(answer.get("skip"), str):
        tally.skipped += 1
        tally.why_skipped = answer["skip"]
        return
    expected = {"refused": "..."} if case.expected is None else {"result": case.expected}
    if _fits(answer, case.expected) and not faults:
        tally.passed += 1
    else:
        got = answer if isinstance(answer, str) else json.dumps(answer)
        tally.failures.append(Failure(case, json.dumps(expected), "; ".join([got, *faults])))


def _fits(answer: Any, expected: Object | None) -> bool:
    """Return whether an answer has all expected members; it may have other members too."""
    if not isinstance(answer, dict):
        return False
    if expected is None:
        return isinstance(answer.get("refused"), str) and "result" not in answer
    result = answer.get("result")
    if not isinstance(result, dict) or "refused" in answer:
        return False
    if "body_sha256" in expected:  # for a body that is too long for a file of vectors
        result = {**result, **_digest(result.get("body"))}
    return all(name in result and _same(result[name], value) for name, value in expected.items())


def _digest(body: Any) -> Object:
    try:
        data = bytes.fromhex(body)
    except (TypeError, ValueError):
        return {}
    return {"body_bytes": len(data), "body_sha256": hashlib.sha256(data).hexdigest()}


def _same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal: 1 equals 1.0, but not true."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


class _Executable:
    """A process that answers line by line; if it has ended, the next line starts it again."""

    def __init__(self, command: Sequence[str], timeout: float) -> None:
        self._command = list(command)
        self._timeout = timeout
        self._deaths = 0
        self._running: _Running | None = None

    def __enter__(self) -> _Executable:
        self._running = _Running(self._command)
        return self

    def __exit__(self, *error: object) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._running is not None:
            self._running.stop()
            self._running = None

    def ask(self, request: Object) -> Any:
        """Return the answer to a request, or a string that describes the fault."""
        if self._deaths >= _MOST_DEATHS:
            return "not asked: the executable has ended too often"
        if self._running is None:
            self._running = _Running(self._command)
        try:
            line = self._running.ask(json.dumps(request), self._timeout)
        except queue.Empty:
            self._running.kill()
            fault = f"no answer within {self._timeout:g} seconds"
        else:
            if line:
                self._deaths = 0
                return _parsed(line)
            fault = "no answer: the executable ended"
        self._stop()
        self._deaths += 1
        return fault


class _Running:
    """One process, and a thread that reads its lines, so that waiting for a line can time out."""

    def __init__(self, command: list[str]) -> None:
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the command that the user wants to check
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                bufsize=1,
            )
        except OSError as error:
            raise ParameterError(f"{command[0]} cannot be started: {error.strerror}") from error
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._forward, daemon=True)
        self._reader.start()

    def _forward(self) -> None:
        """Forward each line, and an empty string at the end."""
        for line in self._process.stdout or ():
            self._lines.put(line)
        self._lines.put("")

    def ask(self, line: str, timeout: float) -> str:
        """Return the line that answers `line`, or "" if the process has ended."""
        if self._process.stdin:
            with suppress(OSError):  # the answer shows that it has ended
                self._process.stdin.write(f"{line}\n")
        return self._lines.get(timeout=timeout)

    def kill(self) -> None:
        self._process.kill()

    def stop(self) -> None:
        """Close the input, which should end the process, and kill the process if it does not end."""
        with suppress(OSError):
            if self._process.stdin:
                self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        if self._process.stdout:
            self._process.stdout.close()


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return f"not JSON: {line.strip()[:200]!r}"
