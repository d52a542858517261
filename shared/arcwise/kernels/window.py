"""The window kernel: the 3-piece mechanism in integers, and its sampler.

K is the number of codes. In the row of node s, every code has the weight b (the background), W consecutive
codes have the extra weight g (the window), and the codes 0..L-1 have one more unit (the leftover)::

    K*b + W*g + L = 2**64,   0 <= L < K,   1 + g/b <= e^epsilon

One 64-bit draw u picks the code. The background and the leftover are the same for every node, so a report can
only reveal whether its code lies in the window:

    u <  K*b          code u // b                       background
    u <  K*b + W*g    window code (u - K*b) // g        extra weight
    otherwise         code u - K*b - W*g                leftover, one unit for each of the codes 0..L-1

There is no rejection: every draw yields a code, so the number of draws cannot reveal which of the three cases
picked the code.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from arcwise.checks import checked_bool
from arcwise.errors import ParameterError
from arcwise.kernels.base import MAX_CODES, Kernel
from arcwise.kernels.certificate import UNIT, exp_lower_bound
from arcwise.values import Value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from arcwise.typing import FloatArray


class WindowKernel(Value, Kernel):
    """N rows over K codes; row s has the extra weight on the codes s, s+1, ..., s+W-1.

    K is N + W - 1 on a line, and N on a circle, where windows wrap modulo K. K is at most 65,536, N is at
    least 2, W is from 1 to K - 1, and both b (`background`) and g (`extra`) are at least 1. Raises
    `ParameterError` if the integers do not make rows that sum to exactly 2**64.

    Examples
    --------
    >>> kernel = WindowKernel.fit(nodes=128, window=77, epsilon=1.0, circular=False)
    >>> kernel.codes, kernel.sample(node=5, u=0), kernel.sample(node=5, u=2**64 - 2**32)
    (204, 0, 81)
    >>> float(kernel.ratio())
    2.718281828459045
    """

    __match_args__ = ("codes", "nodes", "window", "background", "extra", "circular")
    __slots__ = (*__match_args__, "inside_from", "leftover_from")

    codes: int
    nodes: int
    window: int
    background: int
    extra: int
    circular: bool

    # Precomputed, because the sampler compares with them for every report.
    inside_from: int
    leftover_from: int

    def __init__(  # noqa: PLR0917 (in the order of a task's fields)
        self, codes: int, nodes: int, window: int, background: int, extra: int, circular: bool
    ) -> None:
        integers = {
            "codes": codes,
            "nodes": nodes,
            "window": window,
            "background": background,
            "extra": extra,
        }
        for name, value in integers.items():
            if type(value) is not int:
                raise ParameterError(f"{name} must be an integer, got {value!r}")
        circular = checked_bool("circular", circular)
        if not 2 <= nodes <= codes <= MAX_CODES:
            raise ParameterError(
                f"nodes and codes must satisfy 2 <= nodes <= codes <= {MAX_CODES}, got {nodes} and {codes}"
            )
        expected = nodes if circular else nodes + window - 1
        if not 1 <= window < codes or codes != expected:
            raise ParameterError(
                f"window must be from 1 to codes - 1, with codes = "
                f"{'nodes' if circular else 'nodes + window - 1'}; "
                f"got window {window}, nodes {nodes}, codes {codes}"
            )
        if background < 1 or extra < 1:
            raise ParameterError(f"background and extra must be at least 1, got {background} and {extra}")
        inside_from = codes * background
        leftover_from = inside_from + window * extra
        self._set(**integers, circular=circular, inside_from=inside_from, leftover_from=leftover_from)
        if not 0 <= self.leftover < self.codes:
            raise ParameterError(
                "codes*background + window*extra must lie in (2**64 - codes, 2**64], "
                f"got {self.leftover_from}"
            )

    @classmethod
    def fit(cls, *, nodes: int, window: int, epsilon: float, circular: bool) -> WindowKernel:
        """Return the kernel with these nodes and this window that has the largest extra weight for e^epsilon.

        With ``b = (2**64 - W*g) // K``, a larger g means a smaller b. Feasibility of
        ``g <= b * (e^epsilon - 1)`` is therefore monotone in g, and bisection finds the largest feasible g.
        """
        codes = nodes if checked_bool("circular", circular) else nodes + window - 1
        growth = exp_lower_bound(epsilon) - 1
        low, high = 0, UNIT // window  # low is always feasible, high + 1 never
        while low < high:
            middle = (low + high + 1) // 2
            if middle <= (UNIT - window * middle) // codes * growth:
                low = middle
            else:
                high = middle - 1
        background = (UNIT - window * low) // codes
        return cls(codes, nodes, window, background, low, circular)

    @property
    def leftover(self) -> int:
        """L: the codes 0..L-1 have one extra unit in every row."""
        return UNIT - self.leftover_from

    def ratio(self) -> Fraction:
        """Return the largest ratio of two weights of one code, exactly ``1 + g/b``.

        Proof. Let [j < L] be 1 if j < L and 0 otherwise. A code j has the weight b + [j < L] outside and b +
        g + [j < L] inside a window, so no ratio exceeds 1 + g/b. Code K-1 attains it: K-1 >= L, and the code
        is inside the window of one node. It is outside the window of another, because W < K on a circle and N
        >= 2 on a line.
        """
        return 1 + Fraction(self.extra, self.background)

    def row(self, node: int) -> list[int]:
        """Return the K integer weights of `node`; they sum to exactly 2**64."""
        if not 0 <= node < self.nodes:
            raise ParameterError(f"node must be from 0 to {self.nodes - 1}, got {node!r}")
        weights = [self.background] * self.codes
        for j in range(self.leftover):
            weights[j] += 1
        for j in range(node, node + self.window):
            weights[j % self.codes] += self.extra
        return weights

    def sample(self, node: int, u: int) -> int:
        """Return the code that the draw `u`, uniform in [0, 2**64), picks from the row of `node`."""
        if u < self.inside_from:
            return u // self.background
        if u < self.leftover_from:
            code = node + (u - self.inside_from) // self.extra
            return code if code < self.codes else code - self.codes
        return u - self.leftover_from

    def sample_many(self, nodes: NDArray[Any], u: NDArray[np.uint64]) -> NDArray[Any]:
        """Return the codes that the draws `u` pick from the rows of `nodes`, see `Kernel.sample_many`."""
        import numpy as np

        u = np.ascontiguousarray(u)  # u may be a strided view, on which the divisions are slow
        inside_from = np.uint64(self.inside_from)
        # Unsigned arithmetic wraps for background draws; those entries are replaced below.
        offset = u - inside_from
        offset //= np.uint64(self.extra)
        inside = offset.astype(np.uint32)
        inside += nodes.astype(np.uint32, copy=False)
        if self.circular:
            np.minimum(inside, inside - np.uint32(self.codes), out=inside)  # if below K, the difference wraps
        dtype = self.code_dtype
        background = (u // np.uint64(self.background)).astype(dtype)
        codes: NDArray[Any] = np.where(u < inside_from, background, inside.astype(dtype))
        # leftover_from is 2**64 when nothing is left over: uint64 cannot hold it, and no draw needs fixing.
        if self.leftover and u.size and u.max() >= self.leftover_from:
            left = u >= np.uint64(self.leftover_from)
            codes[left] = u[left] - np.uint64(self.leftover_from)
        return codes

    def probabilities(self, nodes: ArrayLike) -> FloatArray:
        """Return the rows of some nodes as probabilities, see `Kernel.probabilities`."""
        import numpy as np

        code = np.arange(self.codes)
        ahead = code - np.asarray(nodes, dtype=np.int64)[:, None]
        inside = (ahead % self.codes if self.circular else ahead.view(np.uint64)) < self.window
        one_more = code < self.leftover

        def level(weight: int) -> FloatArray:
            return np.where(one_more, (weight + 1) / UNIT, weight / UNIT)

        return np.where(inside, level(self.background + self.extra), level(self.background))
