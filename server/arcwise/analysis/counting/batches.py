"""Counts of wire bodies in memory, computed in this process."""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.counting.bodies import check_bodies
from arcwise.analysis.counting.result import BatchCounts
from arcwise.analysis.counting.rules import ACCEPTED, CONFLICTING, REASONS, REPLAYED, make_rules, tally
from arcwise.checks import explained
from arcwise.errors import ParameterError
from arcwise.wire import BATCH_ID_BYTES, MAX_BODY_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from arcwise.analysis.counting.bodies import Bodies
    from arcwise.analysis.counting.rules import Rules
    from arcwise.tasks import Task
    from arcwise.typing import IntArray

_MOST_BODIES = 4096
_MOST_BYTES = 4 << 20


@explained
def count_batches(
    tasks: Task | Iterable[Task],
    bodies: Iterable[bytes],
    *,
    now: float | None = None,
    max_batch_codes: int = MAX_BODY_BYTES,
) -> BatchCounts:
    """Count the reports in raw wire bodies, such as those from a message broker, by task and epoch.

    Bodies that a server would answer with an error are rejected for the same reason. A batch id counts once
    for its task, in any epoch. Of several bodies with one id the first is counted, as on a server. Later
    bodies with the same content are "replayed", and those with other content "conflicting-batch".

    Parameters
    ----------
    tasks
        One task, or several: their reports may be mixed.
    bodies
        Each holds the bytes of one batch, as encoded by `arcwise.wire.encode_batch`. May be a generator: a
        few thousand bodies are in memory at a time, plus 250 bytes for every counted batch.
    now
        The time in Unix seconds: epochs that begin more than a day later are "epoch-ahead". None means the
        current time; `math.inf` accepts every epoch.
    max_batch_codes
        Most codes of a batch; servers have a setting of the same name.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or a body is not bytes.

    Examples
    --------
    >>> from arcwise.domains import Circle
    >>> from arcwise.tasks import Task
    >>> from arcwise.wire import Batch, encode_batch
    >>> task = Task("heading", Circle(360), epsilon=1.0)
    >>> body = encode_batch(Batch(bytes.fromhex(task.id), bytes(16), 20_000, bytes([3, 7, 3])))
    >>> result = count_batches(task, [body, body, b"heading"])
    >>> result
    <BatchCounts: 3 reports of 1 tasks in 1 epochs, 2 batches not counted>
    >>> int(result.counts[task.id, 20_000][3])
    2
    >>> [tuple(row) for row in result.rejected]
    [('malformed-batch', 1, 0), ('replayed', 1, 3)]
    """
    rules = make_rules(tasks, now, max_batch_codes)
    counter = _Counter(rules)
    for some in _portions(bodies):
        offsets = np.fromiter(accumulate(map(len, some), initial=0), np.int64, len(some) + 1)
        data = b"".join(some)
        counter.add(check_bodies(np.frombuffer(data, np.uint8), offsets, rules), data)
    return counter.result()


def _portions(bodies: Iterable[bytes]) -> Iterator[list[bytes]]:
    if isinstance(bodies, (bytes, bytearray, memoryview, str)):
        raise ParameterError("bodies must be an iterable of bodies, got a single one")
    some: list[bytes] = []
    size = 0
    for body in bodies:
        if not isinstance(body, (bytes, bytearray, memoryview)):
            raise ParameterError(f"bodies must hold bytes, got a {type(body).__name__}")
        some.append(bytes(body))
        size += len(some[-1])
        if len(some) == _MOST_BODIES or size >= _MOST_BYTES:
            yield some
            some, size = [], 0
    yield some


class _Counter:
    """Counts and the ids of batches, updated portion by portion."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._counts: dict[tuple[int, int], IntArray] = {}
        self._rejected = {reason: [0, 0] for reason in REASONS}
        # By task: the epoch and a hash of the codes in one integer, which takes less memory than a pair.
        self._seen: defaultdict[int, dict[bytes, int]] = defaultdict(dict)

    def add(self, bodies: Bodies, data: bytes) -> None:
        """Count the bodies that are accepted and new; `data` holds their bytes."""
        reasons = self._without_replays(bodies, data)
        for reason in np.unique(reasons[reasons != ACCEPTED]).tolist():
            theirs = reasons == reason
            self._rejected[reason][0] += int(theirs.sum())
            self._rejected[reason][1] += int(bodies.reports[theirs].sum())
        rows = np.flatnonzero(reasons == ACCEPTED)
        if not len(rows):
            return
        codes = bodies.codes[np.repeat(reasons == ACCEPTED, bodies.lengths)]
        keys = bodies.tasks[rows] << 32 | bodies.fields.epochs[rows]
        found, group = np.unique(keys, return_inverse=True)
        group = np.repeat(group, bodies.lengths[rows])
        order = np.argsort(group, kind="stable")
        ends = np.cumsum(np.bincount(group, minlength=len(found)))
        for key, end, start in zip(found.tolist(), ends, [0, *ends[:-1]], strict=True):
            task, epoch = key >> 32, key & 0xFFFFFFFF
            size = int(self._rules.codes[task])
            new = np.bincount(codes[order[start:end]], minlength=size)
            held = self._counts.get((task, epoch))
            self._counts[task, epoch] = new if held is None else held + new

    def _without_replays(self, bodies: Bodies, data: bytes) -> IntArray:
        reasons = bodies.reasons.astype(np.int64)
        fields = bodies.fields
        ids, tasks, epochs = fields.batch_ids.tobytes(), bodies.tasks.tolist(), fields.epochs.tolist()
        begins, ends = fields.begins.tolist(), (fields.begins + fields.sizes).tolist()
        for row in np.flatnonzero(reasons == ACCEPTED).tolist():
            codes = data[begins[row] : ends[row]]
            content = epochs[row] << 64 | hash(codes) & 0xFFFFFFFFFFFFFFFF
            seen, batch_id = self._seen[tasks[row]], ids[BATCH_ID_BYTES * row : BATCH_ID_BYTES * (row + 1)]
            first = seen.get(batch_id)
            if first is None:
                seen[batch_id] = content
            else:
                reasons[row] = REPLAYED if first == content else CONFLICTING
        return reasons

    def result(self) -> BatchCounts:
        tasks = self._rules.tasks
        return BatchCounts(
            tasks,
            {(tasks[task].id, epoch): counts for (task, epoch), counts in self._counts.items()},
            tally((reason, some, their) for reason, (some, their) in self._rejected.items()),
            self._ids,
        )

    def _ids(self) -> Iterator[tuple[str, int, bytes]]:
        for task, seen in self._seen.items():
            for batch_id, content in seen.items():
                yield self._rules.tasks[task].id, content >> 64, batch_id
