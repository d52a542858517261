"""The reports of a sample, and what its estimators have in common: computed once, when it is asked for."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from arcwise.analysis.counts import check_counts
from arcwise.analysis.estimators.bounds import Bounds
from arcwise.analysis.estimators.inference_target import Users, check_sampled, check_target
from arcwise.analysis.likelihood.distribution import fit_held_out

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from arcwise.analysis.estimators.bounds import Evidence
    from arcwise.analysis.estimators.inference_target import Target
    from arcwise.analysis.likelihood.em import EMFit
    from arcwise.mechanisms.base import Mechanism
    from arcwise.tasks import Task
    from arcwise.typing import FloatArray

__all__ = ["Profile", "Survey"]


class Profile(Protocol):
    """What estimators of shares and places are given: a `Survey`, or what strata make up together."""

    @property
    def mechanism(self) -> Mechanism:
        """Of the reports."""

    @property
    def n(self) -> float:
        """How many reports there are; of several samples, in the smallest one."""

    @property
    def probabilities(self) -> FloatArray:
        """The fitted node distribution, shape (N,): where point values come from."""

    @property
    def bounds(self) -> Evidence:
        """What gives upper bounds of shares."""


class Survey:
    """The reports of one sample of devices.

    Parameters
    ----------
    mechanism
        On any domain.
    counts
        Reports per code, shape (K,), at least one report.
    target, sampled
        Whom intervals of means and directions are for, as of `estimate`.
    probabilities
        A node distribution, shape (N,), to be taken instead of the fit.

    Raises
    ------
    ParameterError
        When the target or `sampled` is out of its bounds. Counts are not checked: see `of`.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        counts: FloatArray,
        *,
        target: Target = "population",
        sampled: float = 1.0,
        probabilities: FloatArray | None = None,
    ) -> None:
        check_target(target)
        self.mechanism, self.counts = mechanism, counts
        self.target, self.sampled = target, check_sampled(sampled)
        self.n = float(counts.sum())
        if probabilities is not None:
            self.probabilities = probabilities

    @classmethod
    def of(
        cls,
        task: Task,
        counts: ArrayLike,
        *,
        target: Target = "population",
        sampled: float = 1.0,
        name: str = "counts",
    ) -> Survey:
        """Return the survey of a task's counts, or raise `ParameterError` that names them."""
        numbers = check_counts(counts, task.mechanism.kernel.codes, name)
        return cls(task.mechanism, numbers, target=target, sampled=sampled)

    def __repr__(self) -> str:
        return f"<Survey of {self.n:,g} reports by {self.mechanism.name}, target {self.target}>"

    @cached_property
    def fit(self) -> EMFit:
        """The fit of the node distribution."""
        return fit_held_out(self.mechanism, self.counts)

    @cached_property
    def probabilities(self) -> FloatArray:
        """The fitted node distribution, shape (N,)."""
        return self.fit.probabilities

    @cached_property
    def bounds(self) -> Bounds:
        """Bounds of shares that hold for every population."""
        return Bounds(self.mechanism, self.counts)

    @cached_property
    def users(self) -> Users | None:
        """The users whom intervals are for; None for the population."""
        return Users(self.probabilities, self.sampled) if self.target == "users" else None
