"""Read estimates from a server, as the objects that `estimate`, `series` and `compare_samples` return."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

from arcwise.analysis.estimators.comparison import Comparison
from arcwise.analysis.estimators.quantiles import checked_levels
from arcwise.analysis.estimators.result import Estimate
from arcwise.analysis.timeseries.result import Series
from arcwise.checks import checked_bool, explained, real_or_nan
from arcwise.connections import check_given, connected, host_at_home, way_out
from arcwise.errors import AnswerError, ArcwiseError, ParameterError
from arcwise.tasks import Task
from arcwise.urls import checked_key, checked_url
from arcwise.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable

    import httpx
    from typing_extensions import Self

    from arcwise.analysis.estimators.inference_target import Target

Time: TypeAlias = "str | int | date | datetime"
"""A date, a time (UTC unless it has an offset) or the number of an epoch."""

_MAX_KEPT = 64
"""Number of answers in the cache; for a cached answer, a request only asks whether it has changed."""

_MAX_SAID = 300
"""Most characters of an answer that an error quotes, if the answer is not a problem document."""


class Reader:
    """Reads tasks and estimates from a server.

    Answers are cached: if a request is repeated and no report has arrived since, the server answers with a
    few bytes. A `Reader` may be used from several threads.

    Parameters
    ----------
    url
        The base URL of the server: "https://reports.example".
    key
        A read key, from ``arcwise key new --scope read``; None if the server requires none.
    timeout
        Seconds to wait for a connection, and for each part of an answer; an estimate of a large task with
        bands takes a few seconds.
    insecure
        Whether to allow http:// to other machines too; use it only if something else encrypts the connection.
    client
        An `httpx.Client` that provides the connections: its proxies, its TLS, its pool. No other setting of
        the client is used, so its authentication cannot be sent in place of the key. The reader does not
        close it.

    Raises
    ------
    ParameterError
        If the URL or the key is not valid. Without `insecure`, also if the URL is http:// to another machine,
        or if a proxy of the client could send the key for an http:// URL of this machine elsewhere.

    Notes
    -----
    Every method raises `AnswerError` if there is no answer, or if the server refuses the request; the error
    then quotes the server's reason.

    Examples
    --------
    >>> with Reader("https://reports.example", key="arcwise_read_...") as reader:  # doctest: +SKIP
    ...     print(reader.estimate("delay").mean)
    42.1 [41.8, 42.4]
    """

    @explained
    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: float = 60.0,
        insecure: bool = False,
        client: httpx.Client | None = None,
    ) -> None:
        self._url = checked_url(url, insecure=insecure)
        key = checked_key(key, ("read", "admin"))
        if not 0.0 < real_or_nan(timeout) <= 86_400.0:
            raise ParameterError(f"timeout must be above 0 and at most 86400 seconds, got {timeout!r}")
        self._headers = {"Accept": "application/json", "User-Agent": f"arcwise/{__version__}"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._timeout = float(timeout)
        check_given(client, "Client")
        clear = key is not None and not insecure and self._url.lower().startswith("http:")
        if clear and (way := way_out(client, {}, self._url)):
            raise ParameterError(
                f"key for {self._url!r} would leave this machine unencrypted by {way}: give a client without "
                "it, or insecure=True"
            )
        self._client = client
        self._own: httpx.Client | None = None
        self._kept: dict[str, tuple[str, bytes]] = {}

    def tasks(self) -> list[Task]:
        """Return the server's tasks that the key may read, including closed ones."""
        tasks = self._document("/v1/tasks", ()).get("tasks")
        if not isinstance(tasks, list):
            raise AnswerError("the answer is not that of an arcwise server: it has no tasks", status=200)
        return [_task(each) for each in tasks]

    def task(self, task: Task | str) -> Task:
        """Return a task by its id, or by its name if exactly one open task has it."""
        found = _task(self._document(_path(task), ()))
        if isinstance(task, Task) and found != task:
            raise AnswerError("the server returned another task than the requested one")
        return found

    def estimate(
        self,
        task: Task | str,
        *,
        start: Time | None = None,
        end: Time | None = None,
        level: float = 0.95,
        between: Iterable[tuple[float, float]] = (),
        target: Target = "population",
        reports_per_device: float | None = None,
        memoised: bool = False,
        bands: bool = False,
        origin: float | None = None,
        quantiles: Iterable[float] = (),
    ) -> Estimate:
        """Return the estimate of a task; without reports it has ``n == 0`` and no values.

        Parameters
        ----------
        task
            The task, its id, or its name if exactly one open task has it.
        start, end
            Use the reports of epochs that start at `start` or later, and before `end`; None sets no limit.
        level, between, target, reports_per_device, memoised, bands, origin, quantiles
            As for `arcwise.analysis.estimate`.
        """
        asked = _times("from", "to", start, end)
        asked += _asked(
            level=level,
            share=between,
            target=target,
            reports_per_device=reports_per_device,
            memoised=memoised,
            bands=bands,
            origin=origin,
            quantile=quantiles,
        )
        return Estimate.from_dict(self.document(task, "estimate", asked))

    def series(
        self,
        task: Task | str,
        *,
        every: int | str = "epoch",
        start: Time | None = None,
        end: Time | None = None,
        level: float = 0.95,
        simultaneous: bool = False,
        between: Iterable[tuple[float, float]] = (),
        quantiles: bool | Iterable[float] = False,
        origin: float | None = None,
        target: Target = "population",
        reports_per_device: float | None = None,
        memoised: bool = False,
    ) -> Series:
        """Return the estimates of a task over time.

        Parameters
        ----------
        task, start, end
            As for `estimate`.
        every
            "epoch", "day", "week", "month", or the number of epochs of a point.
        level, simultaneous, between, quantiles, origin, target, reports_per_device, memoised
            As for `arcwise.analysis.series`.
        """
        asked = [("every", str(every)), *_times("from", "to", start, end)]
        asked += _asked(
            level=level,
            share=between,
            target=target,
            reports_per_device=reports_per_device,
            memoised=memoised,
            quantile=() if isinstance(quantiles, bool) else quantiles,
            quantiles=quantiles is True,
            origin=origin,
            simultaneous=simultaneous,
        )
        return Series.from_dict(self.document(task, "series", asked))

    def difference(
        self,
        task: Task | str,
        other: Task | str | None = None,
        *,
        start: Time | None = None,
        end: Time | None = None,
        other_start: Time | None = None,
        other_end: Time | None = None,
        level: float = 0.95,
        between: Iterable[tuple[float, float]] = (),
        target: Target = "population",
        reports_per_device: float | None = None,
        memoised: bool = False,
        bands: bool = False,
        origin: float | None = None,
    ) -> Comparison:
        """Return how the population of a second set of reports differs from that of a task's reports.

        Parameters
        ----------
        task, start, end
            As for `estimate`.
        other, other_start, other_end
            The task and the epochs of the second set, as for `estimate`; by default all epochs of the same
            task.
        level, between, target, reports_per_device, memoised, bands, origin
            As for `arcwise.analysis.compare_samples`.
        """
        asked = _times("from", "to", start, end)
        asked += _times("against_from", "against_to", other_start, other_end)
        if other is not None:
            asked.append(("against", other.id if isinstance(other, Task) else other))
        asked += _asked(
            level=level,
            share=between,
            target=target,
            reports_per_device=reports_per_device,
            memoised=memoised,
            bands=bands,
            origin=origin,
        )
        return Comparison.from_dict(self.document(task, "difference", asked))

    def document(
        self, task: Task | str, kind: str = "estimate", asked: Iterable[tuple[str, str]] = ()
    ) -> dict[str, Any]:
        """Return the JSON object of an answer, with the server's additions, such as withheld parts.

        Parameters
        ----------
        task
            As for `estimate`.
        kind
            The last part of the path: "estimate", "series", "difference", "fit" or "plan".
        asked
            Pairs of a parameter and its text; docs/reference/http.md lists them.
        """
        return self._document(f"{_path(task)}/{quote(kind, safe='')}", asked)

    def close(self) -> None:
        """Close the reader's own connections."""
        own, self._own = self._own, None
        if own is not None:
            own.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Reader of {self._url}>"

    def _document(self, path: str, asked: Iterable[tuple[str, str]]) -> dict[str, Any]:
        import httpx

        client = self._own
        if client is None:
            client = self._own = connected(httpx.Client, self._client, {}, host_at_home(self._url))
        url = str(httpx.URL(self._url + path, params=list(asked))) if asked else self._url + path
        kept = self._kept.get(url)
        headers = self._headers | ({"If-None-Match": kept[0]} if kept is not None else {})
        try:
            answer = client.get(url, headers=headers, timeout=self._timeout, follow_redirects=False)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise AnswerError(f"no answer from {self._url}: {str(error) or type(error).__name__}") from None
        if answer.status_code == 304 and kept is not None:
            return _object(kept[1])
        if answer.status_code != 200:
            raise _refused(answer)
        tag = answer.headers.get("etag")
        self._kept.pop(url, None)
        if tag:
            self._kept[url] = (tag, answer.content)
        while len(self._kept) > _MAX_KEPT:
            self._kept.pop(next(iter(self._kept)), None)
        return _object(answer.content)


def _path(task: Task | str) -> str:
    text = task.id if isinstance(task, Task) else task
    if not isinstance(text, str) or not text:
        raise ParameterError(f"task must be a Task, an id or a name, got {task!r}")
    # Software that normalises paths would treat a name of only dots as a step in the path.
    return "/v1/tasks/" + (quote(text, safe="") if text.strip(".") else text.replace(".", "%2E"))


def _times(first: str, second: str, start: Time | None, end: Time | None) -> list[tuple[str, str]]:
    return [(name, _time(time)) for name, time in ((first, start), (second, end)) if time is not None]


def _time(time: Time) -> str:
    if isinstance(time, datetime):
        utc = time if time.tzinfo is None else time.astimezone(timezone.utc).replace(tzinfo=None)
        return f"{utc.isoformat()}Z"
    return time.isoformat() if isinstance(time, date) else str(time)


def _asked(
    share: Iterable[tuple[float, float]], quantile: Iterable[float] = (), **options: Any
) -> list[tuple[str, str]]:
    """Return the parameters that differ from their defaults; numbers keep all their digits."""
    several = [("share", f"{float(low)!r}:{float(high)!r}") for low, high in share]
    several += [("quantile", f"{each!r}") for each in checked_levels(quantile)]
    return several + [
        (name, str(checked_bool(name, value)).lower() if name in _FLAGS else str(value))
        for name, value in options.items()
        if value is not None and value is not False and (name, value) not in _DEFAULTS
    ]


_FLAGS = ("bands", "memoised", "quantiles", "simultaneous")
_DEFAULTS = (("level", 0.95), ("target", "population"))


def _object(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise AnswerError("the answer is not that of an arcwise server: it is not a JSON object", status=200)
    return document


def _task(data: Any) -> Task:
    try:
        return Task.from_json(data)
    except ArcwiseError as error:
        raise AnswerError(f"the server returned something that is not a task: {error}", status=200) from None


def _refused(answer: httpx.Response) -> AnswerError:
    status, kind, detail = answer.status_code, "", ""
    if answer.headers.get("content-type", "").startswith("application/problem+json"):
        problem = _object(answer.content)
        kind = str(problem.get("type", "")).removeprefix("urn:arcwise:problem:")
        detail = str(problem.get("detail", ""))
    said = detail or f"HTTP {status} {answer.reason_phrase}: {answer.text[:_MAX_SAID]}".strip(": ")
    return AnswerError(said, status=status, kind=kind)
