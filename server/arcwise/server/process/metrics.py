"""The metrics of one worker: for Prometheus since its start, for the operator page over the last minutes.

docs/reference/metrics.md lists them; `tests/server/test_metrics.py` compares the two.
"""

from __future__ import annotations

import platform
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from arcwise.server.process.recent import RecentSlots
from arcwise.server.store import Outcome
from arcwise.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from prometheus_client.core import Metric

    from arcwise.server.collect.clock import Clock
    from arcwise.server.process.recent import Recent
    from arcwise.server.store import StoredSource
    from arcwise.wire import Batch

_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_ESTIMATE_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_GROUPS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


class Metrics:
    """The counts and times of one worker since its start.

    Each app has its own, so that two apps in one process are not added up; Prometheus adds up the metrics of
    several workers.
    """

    CONTENT_TYPE = CONTENT_TYPE_LATEST

    def __init__(self, clock: Clock = time) -> None:
        self._registry = CollectorRegistry()
        self._recent = RecentSlots(clock.monotonic)
        ProcessCollector(registry=self._registry)  # without /proc it shows nothing
        GCCollector(registry=self._registry)
        gauge = partial(Gauge, registry=self._registry)
        counter = partial(Counter, registry=self._registry)
        histogram = partial(Histogram, registry=self._registry)
        build = gauge(
            "arcwise_build_info", "1, with the versions of arcwise and Python", ("version", "python")
        )
        build.labels(__version__, platform.python_version()).set(1)
        self._tasks = gauge("arcwise_tasks", "Tasks in the store", ("state",))
        self._keys = gauge("arcwise_keys", "Keys of the store that are not revoked, by scope", ("scope",))
        self._estimate = histogram(
            "arcwise_estimate_seconds",
            "Time that an estimate took, by kind",
            ("kind",),
            buckets=_ESTIMATE_SECONDS,
        )
        batches = counter("arcwise_batches", "Batches that were accepted, by outcome", ("outcome",))
        self._reports = counter("arcwise_reports", "Reports that were counted", ("task", "task_id"))
        self._refused = counter(
            "arcwise_refused", "Requests that were answered with a problem, by kind", ("reason",)
        )
        self._cut = counter(
            "arcwise_connections_cut",
            "Connections that the server closed before their client did, by reason",
            ("reason",),
        )
        self._commit = histogram(
            "arcwise_commit_seconds", "Time that the store took for a group of batches", buckets=_SECONDS
        )
        self._group = histogram(
            "arcwise_group_batches", "Batches in a group, which share a commit", buckets=_GROUPS
        )
        self._failed = counter("arcwise_groups_failed", "Groups that could not be stored")
        self._batches = {outcome: batches.labels(outcome.value) for outcome in Outcome}
        self._names: dict[bytes, tuple[str, str, int]] = {}
        self._sources = _Sources()
        self._registry.register(self._sources)

    def gauge(self, name: str, what: str, read: Callable[[], float]) -> None:
        """Show a number that is read at each scrape."""
        Gauge(name, what, registry=self._registry).set_function(read)

    def counter(self, name: str, what: str, read: Callable[[], float]) -> None:
        """Show a number that only grows and is read at each scrape."""
        self._registry.register(_Counter(name, what, read))

    def tasks(self, open_: int, closed: int) -> None:
        """Set the numbers of open and closed tasks in the store."""
        self._tasks.labels("open").set(open_)
        self._tasks.labels("closed").set(closed)

    def keys(self, by_scope: Mapping[str, int]) -> None:
        """Set the number of keys in the store, by scope."""
        for scope, number in by_scope.items():
            self._keys.labels(scope).set(number)

    @contextmanager
    def estimating(self, kind: str) -> Iterator[None]:
        """Measure the time of an estimate that is computed in this block, unless it fails.

        `kind` is "picture", or the kind of a question: "estimate", "series", "difference", "fit" or "plan".
        """
        start = time.perf_counter()
        yield
        self._estimate.labels(kind).observe(time.perf_counter() - start)

    def recent(self, seconds: float = 300.0) -> Recent:
        """Return the work of this worker in the last `seconds`, at most a quarter of an hour."""
        return self._recent.read(seconds)

    def sources(self, stored: list[StoredSource], names: Mapping[str, str]) -> None:
        """Set the sources of the store; `names` are the names of tasks by id."""
        self._sources.stored, self._sources.names = stored, names

    def name_task(self, task_id: str, name: str, width: int) -> None:
        """Set the name of a task in metrics, and the bytes that each of its codes takes."""
        self._names[bytes.fromhex(task_id)] = name, task_id, width

    def refused(self, kind: str) -> None:
        """Count an answer with a problem."""
        self._refused.labels(kind).inc()
        self._recent.refused(kind)

    def cut(self, reason: str) -> None:
        """Count a connection that the server closed before its client did."""
        self._cut.labels(reason).inc()

    def added(self, batches: Sequence[Batch], outcomes: Sequence[Outcome], seconds: float) -> None:
        """Count a group that the store accepted, on the writer's thread."""
        self._commit.observe(seconds)
        self._group.observe(len(batches))
        became = {outcome: outcomes.count(outcome) for outcome in Outcome}
        for outcome, number in self._batches.items():
            number.inc(became[outcome])
        sizes: dict[bytes, int] = {}
        for batch, outcome in zip(batches, outcomes, strict=True):
            if outcome is Outcome.COUNTED:
                sizes[batch.task_id] = sizes.get(batch.task_id, 0) + len(batch.codes)
        reports = 0
        for task_id, size in sizes.items():
            name, text, width = self._names.get(task_id, ("", task_id.hex(), 1))
            self._reports.labels(name, text).inc(size // width)
            reports += size // width
        self._recent.added(reports, became[Outcome.COUNTED], became[Outcome.REPLAYED], seconds)

    def failed(self) -> None:
        """Count a group that the store failed to accept."""
        self._failed.inc()
        self._recent.failed()

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self._registry)


class _Counter(Collector):
    """A counter that is kept elsewhere."""

    def __init__(self, name: str, what: str, read: Callable[[], float]) -> None:
        self._name, self._what, self._read = name, what, read

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(self._name, self._what, value=self._read())


class _Sources(Collector):
    """Gauges of sources; they are read at each scrape, because sources may be dropped."""

    def __init__(self) -> None:
        self.stored: list[StoredSource] = []
        self.names: Mapping[str, str] = {}

    def collect(self) -> Iterator[Metric]:
        reports = GaugeMetricFamily(
            "arcwise_source_reports", "Reports of a source", labels=("source", "task", "task_id")
        )
        replaced = GaugeMetricFamily(
            "arcwise_source_replaced_timestamp_seconds",
            "When the counts of a source were last replaced",
            labels=("source",),
        )
        for source in self.stored:
            replaced.add_metric((source.name,), source.replaced)
            for task in source.tasks:
                name = self.names.get(task.task_id, "")
                reports.add_metric((source.name, name, task.task_id), task.reports)
        yield reports
        yield replaced
