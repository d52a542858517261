"""The cache of estimates: documents, with the revision of their counts."""

from __future__ import annotations

import threading
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from arcwise.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.server.estimates.parts import Part
    from arcwise.server.estimates.question import Question
    from arcwise.typing import IntArray

_MAX_KEPT = 256
_MAX_KEPT_BYTES = 32 << 20
"""Limits on the answers of all tasks, besides each task's plain estimate: readers can ask any question."""


class Cached(NamedTuple):
    """The answer to a question, as the cache keeps it.

    `revision` holds the `Store.revision` of each task in the question, read before the task's counts, or
    `Store.decided` for a task that shows only closed epochs. `digest` identifies the content of the answer,
    and `body` is its JSON, None until somebody needs it. `seconds` is its computing time, and `made` the time
    of the computation, by a monotonic clock.
    """

    revision: tuple[tuple[int, int], ...]
    digest: bytes
    body: bytes | None
    seconds: float = 0.0
    made: float = 0.0

    @property
    def size(self) -> int:
        """Approximate number of bytes."""
        return 256 + len(self.body or b"")


class Cache:
    """Keeps the last answer of each task, and a limited number of answers to other questions.

    May be used from any thread.
    """

    def __init__(self) -> None:
        self._last: dict[Question, Cached] = {}
        self._few: dict[Question, Cached] = {}  # least recently used first
        self._bytes = 0  # total size of `_few`
        self._lock = threading.Lock()

    def get(self, question: Question) -> Cached | None:
        """Return the cached answer to a question, or None."""
        with self._lock:
            if question.is_plain:
                return self._last.get(question)
            kept = self._few.pop(question, None)
            if kept is not None:
                self._few[question] = kept
            return kept

    def keep(self, question: Question, kept: Cached) -> None:
        """Keep an answer."""
        with self._lock:
            if question.is_plain:
                self._last[question] = kept
                return
            before = self._few.pop(question, None)
            self._few[question] = kept
            self._bytes += kept.size - (0 if before is None else before.size)
            while len(self._few) > _MAX_KEPT or self._bytes > _MAX_KEPT_BYTES:
                self._bytes -= self._few.pop(next(iter(self._few))).size


def digest_of(secret: bytes, parts: Sequence[Part], counts: IntArray, *, live: bool) -> bytes:
    """Return a 32-byte digest of the content of an answer: its parts and their counts, shape (parts, K).

    The digest is keyed. Without a key, readers could test guesses of the counts by the tag, because a report
    has only K values.
    """
    shown = repr((live, [(part.span, part.withheld, part.across) for part in parts])).encode()
    digest = blake2b(shown, key=secret, digest_size=32)
    digest.update(counts.data)
    return digest.digest()


def tag_of(digest: bytes, question: Question, form: str, min_reports: int) -> str:
    """Return the entity tag of an answer; it is the same in every worker."""
    what = repr((tuple(question), form, min_reports, __version__)).encode()
    return f'"{blake2b(digest + what, digest_size=16).hexdigest()}"'
