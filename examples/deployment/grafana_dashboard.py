"""Builds grafana_dashboard.json for Grafana's import. It needs grafana-foundation-sdk and Python 3.11.

    python examples/deployment/grafana_dashboard.py

All queries cover all workers. docs/howto/run-a-server.md explains the metrics.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from grafana_foundation_sdk.builders import common, prometheus, stat, timeseries
from grafana_foundation_sdk.builders import dashboard as board
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import BigValueGraphMode, LegendDisplayMode, VisibilityMode
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    Threshold,
    ThresholdsMode,
)

FILE = Path(__file__).with_suffix(".json")
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
COLUMNS = 24


class Panel(NamedTuple):
    """The content of a panel: its queries by their legend, and the value from which it is red."""

    title: str
    unit: str
    queries: dict[str, str]
    what: str
    red_from: float | None = None


def quantile(level: float, metric: str, labels: str = "") -> str:
    """Return the query of a quantile of a histogram over all workers."""
    by = f"le, {labels}" if labels else "le"
    return f"histogram_quantile({level}, sum by ({by}) (rate({metric}_bucket[$__rate_interval])))"


def per_second(metric: str, label: str = "") -> str:
    """Return the query of a counter's rate over all workers."""
    by = f" by ({label})" if label else ""
    return f"sum{by} (rate({metric}[$__rate_interval]))"


NOW = [
    Panel("Workers ready", "short", {"": "sum(arcwise_ready)"}, "Workers that can accept reports."),
    Panel("Workers not ready", "short", {"": "count(arcwise_ready == 0) or vector(0)"}, "Should be 0.", 1),
    Panel("Reports", "short", {"": "sum(increase(arcwise_reports_total[$__range]))"}, "In the time shown."),
    Panel("Batches in the queue", "short", {"": "sum(arcwise_queue_batches)"}, "Waiting for the store."),
    Panel("Store", "bytes", {"": "max(arcwise_store_bytes)"}, "Its size on disk."),
    Panel(
        "Versions",
        "short",
        {"": "count(count by (version) (arcwise_build_info))"},
        "1, except during a rolling restart.",
        2,
    ),
]
ROWS = {
    "Reports": [
        Panel(
            "Reports a second",
            "cps",
            {"{{task}}": per_second("arcwise_reports_total", "task")},
            "Reports that were counted, by task.",
        ),
        Panel(
            "Batches a second",
            "cps",
            {"{{outcome}}": per_second("arcwise_batches_total", "outcome")},
            "Replayed batches had been counted before: devices send unacknowledged batches again.",
        ),
        Panel(
            "Refused requests a second",
            "cps",
            {"{{reason}}": per_second("arcwise_refused_total", "reason")},
            "Requests that were answered with a problem, by kind.",
        ),
        Panel(
            "Connections cut a second",
            "cps",
            {"{{reason}}": per_second("arcwise_connections_cut_total", "reason")},
            "Connections that the server closed before their client did.",
        ),
    ],
    "The store": [
        Panel(
            "Time of a commit",
            "s",
            {
                "median": quantile(0.5, "arcwise_commit_seconds"),
                "99 %": quantile(0.99, "arcwise_commit_seconds"),
            },
            "Reports are acknowledged after a commit. Above a second, something is wrong with the disk.",
        ),
        Panel(
            "Batches in a commit",
            "short",
            {
                "median": quantile(0.5, "arcwise_group_batches"),
                "99 %": quantile(0.99, "arcwise_group_batches"),
            },
            "Batches that arrive during a commit share the next one.",
        ),
        Panel(
            "Groups that were not stored",
            "cps",
            {"a second": per_second("arcwise_groups_failed_total")},
            "Their senders got 503 and send again. The log says why.",
        ),
        Panel(
            "Waiting",
            "bytes",
            {
                "for the store": "sum(arcwise_queue_bytes)",
                "being received": "sum(arcwise_reading_bytes)",
                "for the archive": "max(arcwise_archive_staged_bytes)",
            },
            "Memory of the workers; for the archive, bytes in the store. Each has a limit in the settings.",
        ),
        Panel(
            "Size",
            "bytes",
            {"store": "max(arcwise_store_bytes)"},
            "Size of the store on disk, with the ids of batches.",
        ),
        Panel(
            "Tasks and keys",
            "short",
            {
                "{{state}} tasks": "max by (state) (arcwise_tasks)",
                "{{scope}} keys": "max by (scope) (arcwise_keys)",
            },
            "Keys that are not revoked.",
        ),
    ],
    "Readers": [
        Panel(
            "Time of an estimate",
            "s",
            {
                "{{kind}}, median": quantile(0.5, "arcwise_estimate_seconds", "kind"),
                "{{kind}}, 95 %": quantile(0.95, "arcwise_estimate_seconds", "kind"),
            },
            "Without answers from the cache.",
        ),
        Panel(
            "Estimates a second",
            "cps",
            {"{{kind}}": per_second("arcwise_estimate_seconds_count", "kind")},
            "Estimates that were computed.",
        ),
    ],
    "Workers": [
        Panel(
            "Processor",
            "percentunit",
            {"{{instance}}": 'rate(process_cpu_seconds_total{job="arcwise"}[$__rate_interval])'},
            "Share of one core, without the process that computes estimates.",
        ),
        Panel(
            "Memory",
            "bytes",
            {"{{instance}}": 'process_resident_memory_bytes{job="arcwise"}'},
            "Resident.",
        ),
        Panel(
            "Open files and connections",
            "percentunit",
            {"{{instance}}": 'process_open_fds{job="arcwise"} / process_max_fds{job="arcwise"}'},
            "Share of those that the process may have.",
        ),
        Panel(
            "Running for",
            "s",
            {"{{instance}}": 'time() - process_start_time_seconds{job="arcwise"}'},
            "Falls to 0 at every start.",
        ),
    ],
}


def targets(panel: Panel) -> list[prometheus.Dataquery]:
    """Return the queries of a panel."""
    return [
        prometheus.Dataquery()
        .datasource(SOURCE)
        .expr(query)
        .legend_format(legend)
        .ref_id(chr(ord("A") + place))
        for place, (legend, query) in enumerate(panel.queries.items())
    ]


def colours(panel: Panel) -> board.ThresholdsConfig:
    """Return the thresholds of green and red."""
    steps = [Threshold(value=None, color="green")]
    if panel.red_from is not None:
        steps.append(Threshold(value=panel.red_from, color="red"))
    return board.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)


def number(panel: Panel, width: int) -> stat.Panel:
    """Return a panel with one number."""
    shown = stat.Panel().title(panel.title).description(panel.what).datasource(SOURCE).unit(panel.unit)
    shown = shown.targets(targets(panel)).thresholds(colours(panel)).graph_mode(BigValueGraphMode.NONE)
    return shown.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"])).height(4).span(width)


def lines(panel: Panel, width: int) -> timeseries.Panel:
    """Return a panel with lines over time."""
    shown = timeseries.Panel().title(panel.title).description(panel.what).datasource(SOURCE).unit(panel.unit)
    legend = common.VizLegendOptions().show_legend(True).display_mode(LegendDisplayMode.LIST)
    shown = (
        shown.targets(targets(panel)).legend(legend).min(0).line_width(2).show_points(VisibilityMode.NEVER)
    )
    return shown.height(8).span(width)


def dashboard() -> str:
    """Return the dashboard in the JSON that Grafana reads."""
    made = (
        board.Dashboard("arcwise")
        .uid("arcwise")
        .description("Servers that collect locally private reports.")
        .tags(["arcwise"])
        .refresh("30s")
        .time("now-6h", "now")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(board.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    )
    for panel in NOW:
        made = made.with_panel(number(panel, COLUMNS // len(NOW)))
    for title, panels in ROWS.items():
        made = made.with_row(board.Row(title))
        for panel in panels:
            made = made.with_panel(lines(panel, COLUMNS // 2))
    return json.dumps(made.build(), cls=JSONEncoder, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(dashboard(), "utf-8")
