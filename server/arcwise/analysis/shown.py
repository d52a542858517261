"""How results show themselves: as a picture, as a table of pandas or Polars, as HTML in notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload
from zlib import crc32

from arcwise.analysis.tidy import frame, tidy_rows
from arcwise.digits import counted
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from arcwise.analysis.plotting.figure import Picture
    from arcwise.notebook import Form

    Axes = TypeVar("Axes")
    Fit = Literal["modes", "raw"]


class Shown:
    """What can be drawn and put into a table: estimates, time series and comparisons."""

    @overload
    def plot(self, *, ax: None = None, width: float | None = None, fit: Fit = "modes") -> Picture: ...

    @overload
    def plot(self, *, ax: Axes, width: float | None = None, fit: Fit = "modes") -> Axes: ...

    def plot(self, *, ax: Any = None, width: float | None = None, fit: Fit = "modes") -> Any:
        """Return the picture, a matplotlib figure that notebooks show: ``result.plot().savefig("x.svg")``.

        Parameters
        ----------
        ax
            Axes to draw onto, one or several, instead of a new figure; they are returned. The parts of the
            picture take them in order: density and distribution function of an estimate on an interval; its
            rose on a circle, for axes with ``projection="polar"``; a series' estimates; a comparison's
            differences and those of its shares. Parts that are left over are not drawn.
        width
            Of a new figure, in inches. Below 6, parts that stand side by side stand one below the other.
        fit
            How the distribution of an estimate is drawn: "modes" with as many modes as the reports show
            (`Distribution.modes`), "raw" with every peak of the fit, of which most are noise.

        Raises
        ------
        MissingExtraError
            When matplotlib is not installed: the extra is `plots`.
        ParameterError
            When `ax` has too many axes, a rose gets axes that are not polar, or `fit` is another word.
        """
        from arcwise.analysis.plotting.pictures import picture

        if fit not in {"modes", "raw"}:
            raise ParameterError(f'fit must be "modes" or "raw", got {fit!r}')
        return picture(self._raw() if fit == "raw" else self, ax=ax, width=width)

    def to_frame(self, library: Literal["pandas", "polars"] | None = None) -> Any:
        """Return the tidy table: a row for each number, as `arcwise.analysis.tidy_rows` gives them.

        Parameters
        ----------
        library
            "pandas" or "polars", whose DataFrame is returned. Unless given: pandas where it is installed,
            else Polars.

        Raises
        ------
        MissingExtraError
            When the library, or both, are not installed.
        ParameterError
            When `library` is another.
        """
        return frame(list(tidy_rows(self._document())), library)

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the picture, where there is something to draw, and a table."""
        from arcwise.analysis.charts import charts_of, svg

        result: Any = self
        charts = charts_of(result)
        # Of the text that the id refers to, which another picture of the same page may have too.
        ident = f"chart-{crc32(' '.join(chart.summary for chart in charts).encode()):08x}"
        return self._form().html(svg(charts, ident=ident, standalone=True, style=False) if charts else "")

    def _raw(self) -> Shown:
        """Return the result with its distribution as it was fitted."""
        return self

    def _document(self) -> Mapping[str, Any]:
        """Return the JSON object that `tidy_rows` takes."""
        result: Any = self
        return result.to_dict()  # type: ignore[no-any-return]

    def _form(self) -> Form:
        """Return what notebooks show beside the picture."""
        raise NotImplementedError


def short_repr(result: Any, values: Mapping[str, Any]) -> str:
    """Return one line that shows what a result is, of how many reports, and its first value."""
    first = next((f": {name} {value}" for name, value in values.items()), "")
    return f"<{type(result).__name__} of {result.task!r}, {counted(result.n, 'report')}{first}>"
