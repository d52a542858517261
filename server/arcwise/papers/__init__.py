"""Recomputed tables and figures of publications, for `arcwise reproduce`.

Each publication has one or several files. A reproduction is a function with the decorator `@reproduction` in
such a file.
"""

from __future__ import annotations

from arcwise.checks import did_you_mean
from arcwise.errors import ParameterError
from arcwise.papers.base import Check, Outcome, Reproduction, Table, write_outcome

__all__ = ["Check", "Outcome", "Reproduction", "Table", "find", "reproductions", "write_outcome"]

_SOURCES = (
    "zero_delta",
    "soria_comas_univariate",
    "soria_comas_attributes",
    "truncated_laplace",
    "staircase_noise",
    "staircase_integers",
    "opm_interval",
    "opm_circle",
    "opm_optimality",
    "opm_distribution",
    "unbiased_variance",
)


def reproductions() -> dict[str, Reproduction]:
    """Return every reproduction by its name, in the order of the sources."""
    from importlib import import_module

    modules = [import_module(f"arcwise.papers.{source}") for source in _SOURCES]
    found = [one for module in modules for one in vars(module).values() if isinstance(one, Reproduction)]
    return {one.name: one for one in found}


def find(name: str) -> Reproduction:
    """Return the reproduction of this name."""
    known = reproductions()
    if name not in known:
        hint = did_you_mean(name, known)
        raise ParameterError(f"name must be one of {', '.join(known)}; got {name!r}{hint}")
    return known[name]
