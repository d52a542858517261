"""The cache of estimates: documents, and which counts each is of."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from arcwise.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.analysis.timeseries.epochs import Span
    from arcwise.server.estimates.parts import Part
    from arcwise.typing import IntArray

__all__ = ["Cache", "Cached", "Question", "digest_of", "tag_of"]

_MAX_KEPT = 16
"""Series and estimates of a part of the epochs that are kept, over all tasks: some 2 MB each at most."""


class Question(NamedTuple):
    """Estimates of a task: of which epochs (None: all), in points of how many epochs (0: one estimate)."""

    task_id: str
    span: Span | None
    every: int


class Cached(NamedTuple):
    """What is known of a question.

    Attributes
    ----------
    revision
        `Store.revision` from before the counts were read.
    digest
        Of what it shows.
    document
        The estimates; None while nobody needed them.
    """

    revision: tuple[int, int]
    digest: bytes
    document: dict[str, Any] | None


class Cache:
    """The last document of each task, and of other questions, of which readers can ask any number, a few."""

    def __init__(self) -> None:
        self._last: dict[Question, Cached] = {}
        self._few: dict[Question, Cached] = {}  # the one used last stands last

    def get(self, question: Question) -> Cached | None:
        """Return what is known of a question."""
        return self._last.get(question) or self._few.get(question)

    def keep(self, question: Question, kept: Cached) -> None:
        """Take note of an answer, also of one that was given again."""
        if question.span is None:
            self._last[question] = kept
            return
        self._few.pop(question, None)
        self._few[question] = kept
        while len(self._few) > _MAX_KEPT:
            del self._few[next(iter(self._few))]


def digest_of(secret: bytes, parts: Sequence[Part], sums: IntArray) -> bytes:
    """Return 32 bytes that stand for what an answer shows, its parts and, shape (parts, K), their counts.

    Keyed, or whoever has a tag could try which counts it is of: a single report has K possible ones.
    """
    shown = repr([(part.span, part.withheld, part.across) for part in parts]).encode()
    digest = blake2b(shown, key=secret, digest_size=32)
    digest.update(sums.data)
    return digest.digest()


def tag_of(digest: bytes, question: Question, form: str, min_reports: int) -> str:
    """Return an entity tag: counts, question and library make an estimate, so it holds in every worker."""
    what = repr((question.task_id, question.span, question.every, form, min_reports, VERSION)).encode()
    return f'"{blake2b(digest + what, digest_size=16).hexdigest()}"'
