"""The base class of mechanisms. Each mechanism is a class in this package with a line in `registry`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from arcwise.checks import explained
from arcwise.errors import DomainError, ParameterError
from arcwise.kernels.certificate import Certificate, certify
from arcwise.lattice import MOST_VALUES
from arcwise.randomness import SYSTEM, Randomness

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from arcwise.domains import Circle, Domain, Interval
    from arcwise.kernels.base import Kernel
    from arcwise.lattice import Lattice
    from arcwise.typing import FloatArray, IntArray


class Mechanism(ABC):
    """A mechanism for local privacy: a domain, an epsilon, and a finite kernel with integer weights.

    A value maps to a real-valued node. The node is rounded up with a probability equal to its fraction, and
    otherwise down. The code is drawn from the row of the rounded node. The distribution of the code for a
    real input is therefore a mixture of two rows of the kernel. Ratios of mixtures do not exceed the largest
    ratio of weights. So float errors in the map to nodes can cost accuracy, but never privacy.

    On a lattice of at most 1,024 values nothing is rounded: every value has its node (`place_node`). A larger
    lattice is treated as a continuous domain.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> from arcwise.mechanisms import OptimalPiecewise
    >>> mechanism = OptimalPiecewise(Interval(0, 100), epsilon=1.0)
    >>> isinstance(mechanism, Mechanism), mechanism.name, mechanism.default_goal
    (True, 'optimal-piecewise', 'distribution')
    >>> codes = mechanism.randomize_many([30.0] * 1000)  # what a device may send
    >>> codes.shape, codes.dtype.name
    ((1000,), 'uint8')
    >>> mechanism.decode(codes).shape, round(mechanism.mean(30.0), 6)  # unbiased
    ((1000,), 30.0)
    >>> round(mechanism.expected_error(30.0), 1)
    80.1
    """

    __slots__ = ("_centre", "_values", "domain", "epsilon", "kernel", "lattice")

    name: ClassVar[str]
    """The name in the registry. Its meaning never changes."""
    version: ClassVar[int]
    """Increases when sampling or decoding changes for the same integers."""
    kind: ClassVar[str]
    """The kind of its kernel, as named in tasks: "window", "table" or "circulant"."""
    domain_type: ClassVar[type[Interval] | type[Circle]]
    """The type of domain that it supports."""
    approximate: ClassVar[bool] = False
    """Whether it spends a delta: then the certificate gives the exact delta, and epsilon may be 0."""

    domain: Domain
    """The values that it accepts."""
    epsilon: float
    """The epsilon that one report spends; the certificate may be smaller."""
    kernel: Kernel
    """The integer weights that it samples from: N nodes, K codes."""
    lattice: Lattice | None
    """The domain's lattice if every value has a node; None on a continuous domain or a larger lattice."""
    _centre: int
    _values: FloatArray | None

    def __init_subclass__(cls) -> None:
        if "__init__" in vars(cls):  # a constructor that is not inherited
            cls.__init__ = explained(cls.__init__)  # type: ignore[method-assign]

    @property
    @abstractmethod
    def placement(self) -> str:
        """How values are placed on nodes: "inset", "clamp" or "wrap"."""

    @property
    def end_zones(self) -> bool:
        """Whether values near an end of the interval share a node, which makes them indistinguishable."""
        return self.placement == "clamp"

    @property
    @abstractmethod
    def default_goal(self) -> str:
        """The goal of a task that has this mechanism but no explicit goal."""

    @property
    @abstractmethod
    def unbiased(self) -> bool:
        """Whether `decode` is unbiased for every input of an interval."""

    @abstractmethod
    def position(self, unit: float) -> float:
        """Return the real-valued node of a position on the unit domain."""

    @abstractmethod
    def positions(self, unit: FloatArray) -> FloatArray:
        """Return the real-valued nodes of positions on the unit domain, any shape."""

    @abstractmethod
    def node_units(self, nodes: FloatArray) -> FloatArray:
        """Return the positions of real-valued nodes on the unit domain (on a circle, not taken modulo 1)."""

    @abstractmethod
    def code_units(self) -> FloatArray:
        """Return the decoded value of each of the K codes, in units of the domain's length."""

    @abstractmethod
    def kernel_fields(self) -> list[Any]:
        """Return the fields of the kernel in a task, after its kind and the placement."""

    @classmethod
    @abstractmethod
    def from_fields(cls, domain: Domain, epsilon: float, placement: str, fields: list[Any]) -> Mechanism:
        """Return the mechanism that samples from the kernel of these `kernel_fields`.

        Raises
        ------
        ParameterError
            When the fields do not describe a kernel of this mechanism.
        """

    def place_node(self, place: float) -> float:
        """Return the node of the lattice value with the number `place`; a whole place has a whole node.

        The place k has the node ``k`` for "inset" and ``(k - W // 2) mod K`` for "wrap" (W is 0 for a
        circulant). For "clamp" it has the node ``k - W // 2``, moved into the range from 0 to N-1. A place
        between two values, which the rounding "stochastic" allows, maps to a position between their nodes.
        """
        node = place - self._centre
        kernel = self.kernel
        if kernel.circular:
            if node < 0.0:
                node += kernel.nodes
            return node if node < kernel.nodes else 0.0  # a tiny negative number plus K is K
        return min(max(node, 0.0), kernel.nodes - 1.0)

    def place_nodes(self, places: FloatArray) -> FloatArray:
        """Return `place_node` of each place, in the shape of `places`."""
        import numpy as np

        nodes = np.asarray(places - self._centre)
        kernel = self.kernel
        if kernel.circular:
            nodes = np.where(nodes < 0.0, nodes + kernel.nodes, nodes)
            return np.where(nodes >= kernel.nodes, 0.0, nodes)
        return nodes.clip(0.0, kernel.nodes - 1.0)

    def node_places(self) -> IntArray:
        """Return the number of the value at each node of a lattice, shape (N,).

        For "clamp", other values share the first or the last node with the value returned here.

        Raises
        ------
        ParameterError
            When the mechanism has no lattice.
        """
        import numpy as np

        if self.lattice is None:
            raise ParameterError(
                f"domain must have a step and at most {MOST_VALUES} values, got {self.domain}"
            )
        places: IntArray = (np.arange(self.kernel.nodes) + self._centre) % self.lattice.size
        return places

    @property
    def rounds(self) -> bool:
        """Whether a value may be between two nodes, and is then rounded to one of them at random.

        False on a lattice, unless its rounding is "stochastic".
        """
        return self.lattice is None or self.domain.rounding == "stochastic"

    def certificate(self) -> Certificate:
        """Return the exact privacy bound that the kernel's integers satisfy.

        Raises
        ------
        CertificateError
            When the integers do not satisfy the mechanism's epsilon, and the mechanism is not `approximate`.
        """
        if self.approximate:
            from arcwise.kernels.approximate import certify_approximate

            return certify_approximate(self.kernel, self.epsilon)
        return certify(self.kernel.ratio(), self.epsilon)

    def randomize(self, value: Any, *, randomness: Randomness = SYSTEM) -> int:
        """Return one report, a code in [0, K). The method is pure Python and takes one draw.

        Parameters
        ----------
        value
            A real number in the domain.
        randomness
            The source of random bytes: the operating system's CSPRNG. Use another source only in tests.

        Raises
        ------
        DomainError
            When the value is not in the domain.
        """
        return self.randomize_at(self.locate(value), randomness=randomness)

    def randomize_at(self, position: float, *, randomness: Randomness = SYSTEM) -> int:
        """Return one report of a located value, see `locate` and `randomize`."""
        r, u = randomness.draw()
        return self.kernel.sample(_rounded(position, r), u)

    def locate(self, value: Any) -> float:
        """Return the real-valued node of a value, from 0 to N; between two nodes it has a fraction.

        Raises
        ------
        DomainError
            When the value is not in the domain.
        """
        if self.lattice is not None:
            return self.place_node(self.domain.to_place(value))
        return self.position(self.domain.to_unit(value))

    def node(self, value: Any, r: int) -> int:
        """Return the node in [0, N) to which `r`, the first half of a draw, rounds a value.

        With the same `r` for all values, the node is a function of the value, as memoisation needs.

        Parameters
        ----------
        value
            A real number in the domain.
        r
            From 0 to 2**64 - 1.

        Raises
        ------
        DomainError
            When the value is not in the domain.
        """
        return self.node_at(self.locate(value), r)

    def node_at(self, position: float, r: int) -> int:
        """Return the node of a located value, see `locate` and `node`."""
        node = _rounded(position, r)
        return 0 if node == self.kernel.nodes else node  # on a circle, the node after the last is node 0

    def randomize_many(self, values: ArrayLike, *, randomness: Randomness = SYSTEM) -> NDArray[Any]:
        """Return one code for each value, as an unsigned array of the shape of `values`.

        It takes the same draws in the same order as `randomize` called on each value in turn (in C order).

        Raises
        ------
        DomainError
            When a value is not in the domain; nothing is drawn then.
        """
        import numpy as np

        places = self.domain.to_unit_many(values) if self.lattice is None else self.domain.to_places(values)
        to_positions = self.positions if self.lattice is None else self.place_nodes
        flat, rounds = places.ravel(), self.rounds
        codes = np.empty(flat.shape, self.kernel.code_dtype)
        for start in range(0, flat.size, _CHUNK):
            part = flat[start : start + _CHUNK]
            draws = np.frombuffer(randomness.draws(part.size), "<u8").reshape(-1, 2)
            position = to_positions(part)
            nodes = position.astype(np.uint32)
            if rounds:
                position -= nodes
                nodes += (draws[:, 0] >> np.uint64(11)) * 2.0**-53 < position
            codes[start : start + _CHUNK] = self.kernel.sample_many(nodes, draws[:, 1])
        return codes.reshape(places.shape)

    @property
    def values(self) -> FloatArray:
        """The decoded value of each of the K codes, in the unit of the domain (read-only, shape (K,))."""
        values = self._values
        if values is None:
            import numpy as np

            with np.errstate(over="ignore"):  # infinite beyond the range of a float
                values = self.domain.from_unit(self.code_units())
            values.flags.writeable = False
            object.__setattr__(self, "_values", values)
        return values

    def decode(self, codes: ArrayLike) -> FloatArray:
        """Return the decoded value of each code, in the unit of the domain, in the shape of `codes`.

        If the mechanism is `unbiased`, the expectation of the decoded value is the input. Such a value can
        lie far outside the domain, so use it only in averages. If the mechanism is not unbiased, the decoded
        value is the mechanism's own output. It is close to the input in a single report, but averages of it
        are biased.

        Raises
        ------
        DomainError
            When a code is not an integer in [0, K).
        """
        import numpy as np

        array = np.asarray(codes)
        if not array.size:
            return np.empty(array.shape)
        if array.dtype.kind not in "iu":
            raise DomainError(f"codes must be integers in [0, {self.kernel.codes}), got dtype {array.dtype}")
        if array.min() < 0 or array.max() >= self.kernel.codes:
            raise DomainError(
                f"codes must be in [0, {self.kernel.codes}), got {array.min()} to {array.max()}"
            )
        decoded: FloatArray = self.values[array]
        return decoded

    def expected_error(self, value: Any, power: float = 1.0) -> float:
        """Return ``E|decode(randomize(value)) - value|^power`` of one report, summed over the integer rows.

        On a circle, the distance is circular. The unit is the domain's, to the given power.
        """
        return float(self.expected_errors([value], power)[0])

    def expected_errors(self, values: ArrayLike, power: float = 1.0) -> FloatArray:
        """Return `expected_error` of each value, in the shape of `values`."""
        import numpy as np

        from arcwise.mechanisms.moments import expected_errors

        errors = expected_errors(self, self.domain.to_unit_many(values), power)
        with np.errstate(over="ignore"):  # infinite beyond the range of a float
            errors *= np.float64(self.domain.length) ** power
        return errors

    def mean(self, value: Any) -> float:
        """Return the mean of ``decode(randomize(value))``, in the unit of the domain.

        On a circle, it is the mean direction, in [0, period), or the value itself if the report has no mean
        direction.
        """
        import numpy as np

        from arcwise.mechanisms.moments import means

        unit = self.domain.to_unit_many([value])
        return float(self.domain.from_unit(np.asarray(means(self, unit)[0])))

    def variance(self, value: Any) -> float:
        """Return the variance of ``decode(randomize(value))``, in the squared unit of the domain.

        On a circle, it is the mean squared circular distance from `mean`.
        """
        from arcwise.mechanisms.moments import variances

        length = self.domain.length  # length**2 would raise an error instead of becoming infinite
        return float(variances(self, self.domain.to_unit_many([value]))[0]) * length * length

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; cannot set {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies and pickles hold the integers, as tasks do.
        fields = self.kernel_fields()
        return type(self).from_fields, (self.domain, self.epsilon, self.placement, fields)

    def _set(self, *, _centre: int = 0, **fields: object) -> None:
        """Set the fields; a window starts `_centre` codes before the code of its value."""
        object.__setattr__(self, "_centre", _centre)
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_values", None)
        object.__setattr__(self, "lattice", self.domain.lattice if self.domain.discrete else None)
        if self.lattice is not None:
            self._check_lattice(self.lattice.size)

    def _check_lattice(self, size: int) -> None:
        """Refuse a kernel with more or fewer nodes than values, which would decode to wrong values."""
        kernel = self.kernel
        count, what = (kernel.codes, "codes") if self.end_zones else (kernel.nodes, "nodes")
        if count != size:
            raise ParameterError(
                f"{type(self).__name__} must have {size} {what} on a lattice of {size} values, got {count}: "
                "leave nodes out, use another mechanism, or leave out the step"
            )

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.domain!r}, epsilon={self.epsilon!r}, "
            f"placement={self.placement!r}, nodes={self.kernel.nodes})"
        )


def _rounded(position: float, r: int) -> int:
    """Return the node below or above a position; its fraction is the probability of the upper node."""
    node = int(position)
    return node + ((r >> 11) * 2.0**-53 < position - node)


_CHUNK = 1 << 14
"""Reports per block of `randomize_many`, so that its arrays fit in the processor's cache."""
