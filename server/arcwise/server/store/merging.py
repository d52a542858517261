"""What every store refuses to merge, because it would count reports twice."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["refuse_known_batches", "refuse_known_origins"]


def refuse_known_origins(origins: Iterable[bytes], known: Mapping[bytes, int | None]) -> None:
    """Raise when the reports of one of the origins are in the store already.

    Parameters
    ----------
    origins
        Whose reports are to be added.
    known
        Whose reports are in the store, and when they were merged, in Unix seconds; None for its own.

    Raises
    ------
    ParameterError
        Naming the origin.
    """
    for origin in origins:
        if origin in known:
            merged = known[origin]
            if merged is None:
                raise ParameterError("these reports are of this very store: they would count twice")
            date = datetime.fromtimestamp(merged, timezone.utc).date()
            raise ParameterError(
                f"reports of store {origin.hex()} were merged on {date}; merging them again would count them "
                "twice. A store is merged once, when it takes no more reports"
            )


def refuse_known_batches(known: int) -> None:
    """Raise when some of the batches to be merged are in the store already.

    Raises
    ------
    ParameterError
        With what to do.
    """
    if known:
        raise ParameterError(
            f"at least {known:,} batches are in both: devices sent them to both stores. Nothing was merged. "
            "Without batch ids the merge takes place and counts them twice"
        )
