"""The tables and figures of the sources, computed anew: `arcwise reproduce`.

One file per source; each holds its reproductions and lists them in `REPRODUCTIONS`.
"""

from __future__ import annotations

from arcwise.checks import did_you_mean
from arcwise.errors import ParameterError
from arcwise.papers.base import Check, Outcome, Reproduction, Table
from arcwise.papers.output import write_outcome

__all__ = ["Check", "Outcome", "Reproduction", "Table", "find", "reproductions", "write_outcome"]

_SOURCES = (
    "zero_delta",
    "soria_comas_shapes",
    "soria_comas_univariate",
    "soria_comas_regions",
    "soria_comas_components",
    "soria_comas_vectors",
    "truncated_laplace",
    "hypothesis_testing",
    "staircase_noise",
    "staircase_gamma",
    "staircase_integers",
    "opm_density",
    "opm_interval",
    "opm_noise",
    "opm_own_domains",
    "opm_circle",
    "opm_pieces",
    "opm_gap",
    "opm_distribution",
    "unbiased_variance",
)


def reproductions() -> dict[str, Reproduction]:
    """Return every reproduction by its name, in the order of the sources."""
    from importlib import import_module

    found: dict[str, Reproduction] = {}
    for source in _SOURCES:
        for one in import_module(f"arcwise.papers.{source}").REPRODUCTIONS:
            found[one.name] = one
    return found


def find(name: str) -> Reproduction:
    """Return the reproduction of this name."""
    known = reproductions()
    if name not in known:
        hint = did_you_mean(name, known)
        raise ParameterError(f"name must be one of {', '.join(known)}; got {name!r}{hint}")
    return known[name]
