"""Files of counts by task and epoch: what `arcwise count -o` writes and `arcwise estimate --counts` reads.

As JSON, with all codes of an epoch in a list::

    {"arcwise_counts": 1, "tasks": [{"task": "delay", "task_id": "...", "epochs": {"20000": [3, 0, ...]}}],
     "rejected": [{"reason": "replayed", "batches": 2, "reports": 200}]}

As CSV, with a line for each code that was reported: task, task_id, epoch, code, reports.
"""

from __future__ import annotations

import csv
import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.analysis.csv_rows import write_rows
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from arcwise.analysis import BatchCounts
    from arcwise.tasks import Task
    from arcwise.typing import IntArray

_FORMAT = 1
_COLUMNS = ("task", "task_id", "epoch", "code", "reports")
_MOST = 2**63


class CountFile:
    """Counts by task and epoch as a file has them, checked against a task when they are asked for.

    `option` is the option that named the file, for errors.
    """

    def __init__(self, text: str, option: str) -> None:
        self._option = option
        self._found: dict[str, dict[int, dict[int, int]]] = {}
        self._sizes: dict[tuple[str, int], int] = {}
        try:
            if text.lstrip().startswith("{"):
                self._read_json(json.loads(text))
            else:
                self._read_csv(text)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, csv.Error) as error:
            raise ParameterError(f"{option} must be a file of arcwise count -o, and is not") from error

    @staticmethod
    def begins(text: str) -> bool:
        """Return whether a file is meant to be of this kind, and not bare numbers."""
        csv_head = ",".join(_COLUMNS)
        return text.lstrip("\ufeff").startswith(csv_head) or bool(re.match(r'\s*{\s*"arcwise_counts"', text))

    def _read_json(self, document: dict[str, Any]) -> None:
        if document["arcwise_counts"] != _FORMAT:
            raise ValueError
        for entry in document["tasks"]:
            for epoch, counts in entry["epochs"].items():
                self._sizes[entry["task_id"], int(epoch)] = len(counts)
                for code, reports in enumerate(counts):
                    self._add(entry["task_id"], int(epoch), code, reports)

    def _read_csv(self, text: str) -> None:
        for row in csv.DictReader(text.lstrip("\ufeff").splitlines(), strict=True):
            self._add(row["task_id"], int(row["epoch"]), int(row["code"]), int(row["reports"]))

    def _add(self, task_id: str, epoch: int, code: int, reports: int) -> None:
        numbers = self._found.setdefault(task_id, {}).setdefault(epoch, {})
        if type(reports) is not int or not 0 <= reports < _MOST or epoch < 0 or code < 0 or code in numbers:
            raise ValueError
        numbers[code] = reports

    def by_epoch(self, task: Task) -> dict[int, IntArray]:
        """Return the reports per code, shape (K,), of each epoch that the file has of a task.

        Raises `ParameterError` when they do not fit the task.
        """
        codes = task.mechanism.kernel.codes
        found: dict[int, IntArray] = {}
        for epoch, numbers in self._found.get(task.id, {}).items():
            if self._sizes.get((task.id, epoch), codes) != codes or max(numbers, default=0) >= codes:
                raise ParameterError(f"{self._option} must have counts of {codes} codes for {task.name}")
            counts = found[epoch] = np.zeros(codes, np.int64)
            counts[list(numbers)] = list(numbers.values())
        return found


def write_counts(path: Path, result: BatchCounts, *, as_csv: bool) -> None:
    """Write counts as CSV, or as JSON together with the rejected rows."""
    if as_csv:
        with path.open("w", newline="", encoding="utf-8") as file:
            write_rows(file, _COLUMNS, _rows(result))
        return
    tasks = [
        {
            "task": task.name,
            "task_id": task.id,
            "epochs": {str(epoch): counts.tolist() for epoch, counts in result.by_epoch(task).items()},
        }
        for task in result.tasks
    ]
    rejected = [row._asdict() for row in result.rejected]
    document = {"arcwise_counts": _FORMAT, "tasks": tasks, "rejected": rejected}
    path.write_text(json.dumps(document) + "\n", encoding="utf-8")


def _rows(result: BatchCounts) -> Iterator[dict[str, Any]]:
    for task in result.tasks:
        head = {"task": task.name, "task_id": task.id}
        for epoch, counts in result.by_epoch(task).items():
            for code in np.flatnonzero(counts).tolist():
                yield head | {"epoch": epoch, "code": code, "reports": int(counts[code])}
