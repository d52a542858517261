"""Counters for Prometheus, of one worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from arcwise.server.store import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from prometheus_client.core import Metric

    from arcwise.server.store import StoredSource
    from arcwise.wire import Batch

__all__ = ["Metrics"]

_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_GROUPS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


class Metrics:
    """What one worker did since it started.

    Each app has its own, so that two in one process do not add up to nonsense; what several workers did is
    added up by Prometheus.
    """

    CONTENT_TYPE = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        batches = Counter(
            "arcwise_batches",
            "Batches that were accepted, by outcome",
            ("outcome",),
            registry=self._registry,
        )
        self._reports = Counter(
            "arcwise_reports", "Reports that were counted", ("task", "task_id"), registry=self._registry
        )
        self._refused = Counter(
            "arcwise_refused",
            "Requests that were answered with a problem, by kind",
            ("reason",),
            registry=self._registry,
        )
        self._cut = Counter(
            "arcwise_connections_cut",
            "Connections that the server closed before their client did, by reason",
            ("reason",),
            registry=self._registry,
        )
        self._commit = Histogram(
            "arcwise_commit_seconds",
            "Time that the store took for a group of batches",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._group = Histogram(
            "arcwise_group_batches",
            "Batches in a group, which share a commit",
            buckets=_GROUPS,
            registry=self._registry,
        )
        self._failed = Counter(
            "arcwise_groups_failed", "Groups that could not be stored", registry=self._registry
        )
        self._batches = {outcome: batches.labels(outcome.value) for outcome in Outcome}
        self._names: dict[bytes, tuple[str, str, int]] = {}
        self._sources = _Sources()
        self._registry.register(self._sources)

    def gauge(self, name: str, what: str, read: Callable[[], float]) -> None:
        """Show a number as it is when it is asked for."""
        Gauge(name, what, registry=self._registry).set_function(read)

    def sources(self, stored: list[StoredSource], names: Mapping[str, str]) -> None:
        """Show what a store has of sources from now on; `names` are those of tasks by id."""
        self._sources.stored, self._sources.names = stored, names

    def name_task(self, task_id: str, name: str, width: int) -> None:
        """Say what a task is called in metrics, and how many bytes its codes take."""
        self._names[bytes.fromhex(task_id)] = name, task_id, width

    def refused(self, kind: str) -> None:
        """Count an answer that is a problem."""
        self._refused.labels(kind).inc()

    def cut(self, reason: str) -> None:
        """Count a connection that the server ended before its client did."""
        self._cut.labels(reason).inc()

    def added(self, batches: Sequence[Batch], outcomes: Sequence[Outcome], seconds: float) -> None:
        """Count a group that the store took, on the writer's thread."""
        self._commit.observe(seconds)
        self._group.observe(len(batches))
        for outcome, number in self._batches.items():
            number.inc(outcomes.count(outcome))
        sizes: dict[bytes, int] = {}
        for batch, outcome in zip(batches, outcomes, strict=True):
            if outcome is Outcome.COUNTED:
                sizes[batch.task_id] = sizes.get(batch.task_id, 0) + len(batch.codes)
        for task_id, size in sizes.items():
            name, text, width = self._names.get(task_id, ("", task_id.hex(), 1))
            self._reports.labels(name, text).inc(size // width)

    def failed(self) -> None:
        """Count a group that the store did not take."""
        self._failed.inc()

    def text(self) -> bytes:
        """Return everything in Prometheus's text format."""
        return generate_latest(self._registry)


class _Sources(Collector):
    """Gauges of sources, which may be dropped."""

    def __init__(self) -> None:
        self.stored: list[StoredSource] = []
        self.names: Mapping[str, str] = {}

    def collect(self) -> Iterator[Metric]:
        reports = GaugeMetricFamily(
            "arcwise_source_reports", "Reports that a source has", labels=("source", "task", "task_id")
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
