"""The weights that bound shares best: quadratic programs near a fit, several solved together.

The guarantee of `bounds` holds for any weights returned here; only the height of the bounds depends on the
weights. A Newton step of one program is a few operations on short arrays and a factorisation. So programs are
solved in lockstep and share these operations.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.analysis.likelihood.information import Dense, whole_window_information

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from arcwise.analysis.estimators.knots import Knots
    from arcwise.analysis.likelihood.information import Matrix, Solve
    from arcwise.typing import BoolArray, FloatArray, IntArray

_LOOSE = 0.1
"""Largest residual of a solved program, divided by the squared distance. All iterates give valid weights."""

_BARRIER = 10.0
"""Residual of the barrier at the start, divided by the squared distance."""

_MOST_STEPS = 30

_EVEN, _FEW = 0.1, 1e6
"""Mass that the solver's start spreads evenly over the nodes, and the reports above which it is less.

With a constant mass, the distance from the fit in standard errors would grow with the number of reports: with
10^12 reports the solver would take twice as many steps.
"""

_NEAREST, _FURTHEST = 0.36, 3.0
"""Range of squared distances that are near enough, relative to the required squared distance."""

_STRIDE = 4.0  # the largest factor of lambda in a step

_NEARLY_ALL = 0.98
"""How far a change may go, as a part of the way from the fit to the functional's largest entry."""

_LEAST = 1e-200  # the least probability of a node, and the least multiplier
_SIZES = 32  # sizes of programs on some of the nodes are multiples of this
_FILLED = 1e-9  # the probability of a node that pads a program

_TOGETHER = 2**18
"""Approximate size of the matrices of programs solved together, so that they fit a processor's cache."""


class Near:
    """A fit to each part of the reports on the nodes of some programs, and the start of the solver.

    `fits` has the shape (2, N), and `usual` is the number of standard errors that the solver's start assumes.
    """

    def __init__(self, knots: Knots, n: float, fits: FloatArray, usual: float) -> None:
        self.knots, self.n = knots, n
        masses = np.array([knots.mass(fit) for fit in fits])
        parts, nodes = masses.shape
        self.codes = np.maximum(knots.laws(masses), _LEAST)
        # Programs of different places have different numbers of nodes. To solve them together, pad them with
        # nodes that have almost no people, each with its own code: the solver leaves these unchanged.
        size = nodes if knots.all else -(-nodes // _SIZES) * _SIZES
        self.fit = np.full((parts, size), _FILLED)
        self.fit[:, :nodes] = masses
        # The start of the solver. The matrix at the start is the same for every functional, and gives the
        # approximate standard error of each functional.
        share = _EVEN * math.sqrt(min(1.0, _FEW / n))
        self.start = self.fit.copy()
        self.start[:, :nodes] = (1.0 - share) * masses + share / nodes
        self.slack = _BARRIER * usual**2 / size / self.start
        self.information: list[Matrix] = []
        self.solvers: list[Solve] = []
        sides = np.empty((2, parts, size))
        for part, codes in enumerate(self.codes):
            information = _information(knots, n / codes, size)
            back = information.times(self.fit[part] - self.start[part])
            solve = _solver(information, self.slack[part] / self.start[part])
            self.information.append(information)
            self.solvers.append(solve)
            sides[:, part] = solve(np.array([np.ones(size), back]))
        self.level, self.home = sides

    def filled(self, phi: FloatArray) -> FloatArray:
        """Return a functional's numbers at the program's nodes, shape (M,)."""
        at = self.knots.at_knots(phi)
        return np.pad(at, (0, self.fit.shape[1] - len(at)), constant_values=at.min())


def _information(knots: Knots, weights: FloatArray, size: int) -> Matrix:
    """Return H, with a row for each of the program's nodes and for those that pad it to a size."""
    if knots.banded:
        return whole_window_information(knots.banded, knots.order, weights)
    nodes = len(knots.rows)
    scaled = knots.rows * np.sqrt(weights)
    matrix = np.zeros((size, size))
    np.matmul(scaled, scaled.T, out=matrix[:nodes, :nodes])
    matrix.ravel()[nodes * (size + 1) :: size + 1] = _FILLED**-2
    return Dense(matrix)


def _solver(information: Matrix, more: FloatArray, within: FloatArray | None = None) -> Solve:
    """Return a solver for H with `more` on the diagonal; solutions beyond the precision of floats are NaN."""
    return information.solver(more, within) or (lambda sides: np.full_like(sides, np.nan))


class Programs:
    """The best weights for a population near a fit, for each part of the reports.

    With n reports, the kernel's rows P and ``q = g P``, let ``H = n P diag(1/q) P'`` be the information about
    the node distribution at the fit g. Among all distributions f at the distance
    ``(f - g)' H (f - g) = root^2``, the one with the largest ``phi . f`` is the least favourable: the reports
    hardly distinguish it from g. It satisfies ``H (f - g) + nu = lambda phi + z`` with multipliers nu, lambda
    and z >= 0. So the weights ``(n (f - g)P/q + nu) / lambda`` have means of at least phi. The deficit from
    rounding and from an unfinished solution is added, so this holds for every result of the solver.

    All programs in `near` have the same number of nodes.
    """

    def __init__(self, near: Sequence[Near]) -> None:
        self._near = near
        self._parts = len(near[0].fit)
        self._fit, self._start, self._slack, self._level, self._home = (
            np.concatenate(each)
            for each in zip(
                *((one.fit, one.start, one.slack, one.level, one.home) for one in near), strict=True
            )
        )
        self._information = [each for one in near for each in one.information]
        self._solvers = [each for one in near for each in one.solvers]
        entries = self._information[0].entries
        # Allocated once: new arrays of this size would be requested from the system each time.
        self._spare = [np.empty_like(entries) for _ in range(max(1, _TOGETHER // entries.size))]

    def weights(self, several: Sequence[FloatArray], of: Sequence[int], root: float) -> FloatArray:
        """Return weights for bounds `root` standard errors above the average, shape (M, 2, K).

        `several` holds M arrays of functionals, each of shape (A, N), by cells; the means of the weights are
        above one of the A functionals. `of` holds the index in `near` for each of the M.
        """
        parts, codes = self._parts, self._near[0].knots.codes
        rows = np.concatenate(several)
        owner = np.repeat(of, [len(each) for each in several])
        options = np.array([self._near[k].filled(row) for k, row in zip(owner, rows, strict=True)])
        part = (parts * owner + np.arange(parts)[:, None]).ravel()
        phi = np.tile(options, (parts, 1))
        tilt = self._begun(part, phi)
        error, middle = self._errors(part, phi, tilt), _dots(phi, self._fit[part])
        about = (middle + root * error).reshape(parts, -1)
        ends = np.cumsum([0, *(len(each) for each in several)])
        best = np.array([[a + int(np.argmin(each[a:b])) for a, b in pairwise(ends)] for each in about])
        weights: FloatArray = np.repeat(rows[best].max(axis=2)[:, :, None], codes, axis=2)
        flat = weights.reshape(-1, codes)
        row, chosen = best.ravel(), (best + len(options) * np.arange(parts)[:, None]).ravel()
        # For the other functionals, no bound is lower than the functional's largest entry.
        todo = np.flatnonzero((phi.max(axis=1) - middle >= 0.05 * root * error)[chosen])
        for some in np.array_split(todo, -(-len(todo) // len(self._spare))) if len(todo) else ():
            which = chosen[some]
            change, pull = self._solved(part[which], phi[which], tilt[which], 1.0 / error[which], root)
            for one in np.unique(part[which]).tolist():
                mine = part[which] == one
                near = self._near[one // parts]
                fresh = near.knots.changes(change[mine]) * (near.n / pull[mine])[:, None]
                fresh /= near.codes[one % parts]
                fresh += (rows[row[some[mine]]] - near.knots.means(fresh)).max(axis=1)[:, None]
                flat[some[mine]] = near.knots.per_code(fresh)
        by_functional: FloatArray = weights.swapaxes(0, 1)
        return by_functional

    def _begun(self, part: IntArray, sides: FloatArray) -> FloatArray:
        """Return solutions with the initial matrix of the solver, shape (P, N)."""
        result = np.empty_like(sides)
        for which in np.unique(part).tolist():
            mine = part == which
            result[mine] = self._solvers[which](sides[mine])
        return result

    def _errors(self, part: IntArray, phi: FloatArray, tilt: FloatArray) -> FloatArray:
        """Return approximate standard errors of functionals, shape (P,), as first guesses; see `_solved`."""
        level = self._level[part]
        variance = _dots(phi, tilt) - _dots(phi, level) ** 2 / level.sum(axis=1)
        errors: FloatArray = np.sqrt(np.maximum(variance, 1e-20))
        return errors

    @np.errstate(over="ignore", divide="ignore", invalid="ignore")  # steps that are not finite are not taken
    def _solved(
        self, part: IntArray, phi: FloatArray, tilt: FloatArray, pull: FloatArray, root: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return changes of the fits at about the distance `root`, shape (P, N), and multipliers lambda.

        `part`, shape (P,), holds the indices of the fits; each program in `near` has two fits. `tilt` holds
        the solutions for the functionals `phi` with the initial matrix of the solver, and `pull` first
        guesses of lambda.
        """
        fit, start, slack = self._fit[part], self._start[part], self._slack[part]
        room = _NEARLY_ALL * (phi.max(axis=1) - _dots(phi, fit))
        away = zip(start - fit, part.tolist(), strict=True)
        pushed = np.array([self._information[which].times(change) for change, which in away])
        lack = pull[:, None] * phi - pushed + slack
        still = np.zeros(len(part), dtype=bool)
        state = _State(part, phi, room, start, start - fit, pushed, slack, lack, pull, still)
        changes, pulls = np.zeros_like(phi), np.zeros(len(part))
        left = np.arange(len(part))
        for step in range(_MOST_STEPS + 1):
            done = state.near_enough(root) | state.still | (step == _MOST_STEPS)
            changes[left[done]], pulls[left[done]] = state.change[done], state.pull[done]
            left, state = left[~done], state.only(~done)
            if not len(left):
                break
            if step:
                state = state.stepped(*self._factored(state), root)
            else:
                right = self._home[part[left]] + state.pull[:, None] * tilt[left]
                solutions = np.stack([self._level[part[left]], tilt[left], right])
                state = state.stepped(solutions, partial(self._begun, state.part), root)
        return changes, np.maximum(pulls, _LEAST)

    def _factored(self, state: _State) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
        """Return a state's solutions, as `_State.stepped` takes them, and a solver for other right sides."""
        sides = np.stack([np.ones_like(state.phi), state.phi, state.lack - state.z], axis=1)
        solvers = [
            _solver(self._information[part], more, spare)
            for part, more, spare in zip(state.part.tolist(), state.z / state.f, self._spare, strict=False)
        ]
        solutions = np.array([solve(each) for solve, each in zip(solvers, sides, strict=True)])

        def solve(more: FloatArray) -> FloatArray:
            return np.array([each(side) for each, side in zip(solvers, more, strict=True)])

        return solutions.swapaxes(0, 1), solve


class _State(NamedTuple):
    """The state of the solver for some programs, with one row, or one number, for each."""

    part: IntArray
    """The index of the fit g."""
    phi: FloatArray
    """The functional."""
    room: FloatArray
    """The largest increase of the functional that is allowed."""
    f: FloatArray
    change: FloatArray
    """``f - g``."""
    pushed: FloatArray
    """``H (f - g)``, updated at every step, so no product with H is needed."""
    z: FloatArray
    """The multipliers of ``f >= 0``."""
    lack: FloatArray
    """The residual of stationarity."""
    pull: FloatArray
    """The functional's multiplier lambda."""
    still: BoolArray
    """Whether the last step was not finite, so that the state did not change."""

    def only(self, rows: BoolArray) -> _State:
        """Return some of the programs."""
        return self if rows.all() else _State._make(each[rows] for each in self)

    def near_enough(self, root: float) -> BoolArray:
        """Return a mask of programs nearly solved, at about the distance `root` or at the limit of `room`."""
        squares = _dots(self.change, self.pushed) / root**2
        there = (squares >= _NEAREST) | (_dots(self.phi, self.change) >= _NEARLY_ALL * self.room)
        off = _dots(self.f, self.z) + np.abs(self.lack).max(axis=1)
        near: BoolArray = there & (squares <= _FURTHEST) & (off < _LOOSE * root**2)
        return near

    def stepped(
        self, solutions: FloatArray, solve: Callable[[FloatArray], FloatArray], root: float
    ) -> _State:
        """Return the state after a step of Mehrotra's predictor and corrector.

        A step is linear in the change of lambda, which is chosen so that the distance after the step is
        `root`. The distributions sum to 1 at the start and after every step.

        `solutions` has the shape (3, P, N), for the matrix ``H + diag(z/f)`` and three right sides: ones,
        phi, and the predictor's right side ``lack - z``. `solve` takes other right sides, shape (P, N), and
        returns their solutions.
        """
        _, phi, room, f, change, pushed, z, lack, pull, _ = self
        level, tilt, right = solutions
        ratio = z / f
        total, share = level.sum(axis=1), _dots(phi, level) / level.sum(axis=1)
        along = tilt - share[:, None] * level  # the direction of a change of lambda
        pushed_along = phi - share[:, None] - ratio * along
        squares = _dots(along, pushed_along)
        room = room - _dots(phi, change)

        def ends(right: FloatArray, sides: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
            """Return a step, H times it, and the change of lambda."""
            shift = right.sum(axis=1) / total
            step = right - shift[:, None] * level
            pushed_step = sides - shift[:, None] - ratio * step
            whole = pushed + pushed_step
            mixed, rest = _dots(along, whole), _dots(change + step, whole) - root**2
            more = (np.sqrt(np.maximum(mixed**2 - squares * rest, 0.0)) - mixed) / squares
            more = np.minimum(more, (room - _dots(phi, step)) / _dots(phi, along))
            # Even if the nearest end is too far away, lambda has to stay positive.
            more = np.clip(more, (1.0 / _STRIDE - 1.0) * pull, (_STRIDE - 1.0) * pull)
            return step + more[:, None] * along, pushed_step + more[:, None] * pushed_along, more

        step, *_ = ends(right, lack - z)
        relative = step / f
        reach = (
            0.99 / np.maximum(0.99, np.maximum(-relative.min(axis=1), 1.0 + relative.max(axis=1)))[:, None]
        )
        complement, dz = f * z, -z * (1.0 + relative)
        mu = complement.mean(axis=1)
        ahead = _dots(f + reach * step, z + reach * dz) / len(f.T)
        aim = ((ahead / mu) ** 3 * mu)[:, None] - complement - step * dz
        sides = lack + aim / f
        step, pushed_step, more = ends(solve(sides), sides)
        dz = (aim - z * step) / f
        reach = _reach(-np.minimum((step / f).min(axis=1), (dz / z).min(axis=1)))
        still = ~np.isfinite(step.sum(axis=1) + dz.sum(axis=1) + reach)
        for each in (step, pushed_step, dz, more, reach):
            each[still] = 0.0
        by = reach[:, None]
        return self._replace(
            f=np.maximum(f + by * step, _LEAST),
            change=change + by * step,
            pushed=pushed + by * pushed_step,
            z=z + by * dz,
            lack=(1.0 - by) * lack,
            pull=pull + reach * more,
            still=still,
        )


def _dots(rows: FloatArray, others: FloatArray) -> FloatArray:
    """Return the dot products of the rows of two arrays, shape (P, N) and (P, N) to (P,)."""
    products: FloatArray = np.einsum("ij,ij->i", rows, others)
    return products


def _reach(shrink: FloatArray) -> FloatArray:
    """Return steps, at most 1, that leave at least 1 % of a quantity that a full step reduces by `shrink`."""
    reach: FloatArray = 0.99 / np.maximum(0.99, shrink)
    return reach
