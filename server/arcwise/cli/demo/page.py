"""The demo's page: one self-contained HTML file, no script and nothing from outside."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from arcwise.cli.demo.figures import svg

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from arcwise.cli.demo.truth import Line, Result

__all__ = ["write_page"]

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>arcwise demo</title>
<style>
  :root {{ color-scheme: light; --ink: #22313f; --soft: #5c6b78; --line: #d9dee3; --accent: #0072b2; }}
  body {{ margin: 0; background: #f4f6f8; color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }}
  main {{ max-width: 1120px; margin: 0 auto; padding: 2rem 1rem 3rem; }}
  h1 {{ margin: 0 0 .3rem; font-size: 1.9rem; }}
  h2 {{ margin: 0; font-size: 1.2rem; }}
  p {{ margin: .3rem 0; }} .soft {{ color: var(--soft); }}
  .cards {{ display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 1rem; margin-top: 1.5rem; }}
  .card {{ background: #fff; border: 1px solid var(--line); border-radius: 10px; padding: 1.1rem 1.3rem; }}
  .wide {{ grid-column: 1 / -1; }}
  svg {{ width: 100%; height: auto; display: block; }}
  table {{ border-collapse: collapse; width: 100%; margin-top: .6rem; font-variant-numeric: tabular-nums; }}
  th {{ text-align: left; font-weight: 500; color: var(--soft); }}
  td, th {{ padding: .25rem .5rem .25rem 0; border-top: 1px solid var(--line); }}
  td.n, th.n {{ text-align: right; }}
  .miss {{ color: #b3261e; font-weight: 600; }}
  .key {{ display: inline-block; width: .9em; height: .9em; border-radius: 2px; vertical-align: -.1em; }}
  code {{ font-size: .85em; color: var(--soft); overflow-wrap: anywhere; }}
  @media (max-width: 760px) {{ .cards {{ grid-template-columns: 1fr; }} }}
</style>
</head>
<body><main>
<h1>What a server learns, and what it cannot</h1>
<p>{devices:,} devices know one flight out of New York in 2013, or one hour of its weather. Each
randomised what it knows, with epsilon = {epsilon:g} for every report, before anything left it; a flight
makes two reports and spends {twice:g}. The server holds counts of codes and nothing else; all that is
drawn as estimated comes from them.</p>
<p class="soft">
<span class="key" style="background:#8cbfdc"></span> estimated from the reports &ensp;
<span class="key" style="border:2px solid #22313f;box-sizing:border-box"></span>
true, known to the devices only &ensp;
<span class="key" style="background:#d55e00"></span> estimated mean or mean direction with its
95&nbsp;% interval. In the roses, area is probability.</p>
<div class="cards">
{cards}
</div>
</main></body>
</html>
"""

_CARD = """<section class="card{wide}">
<h2>{title}</h2>
<p class="soft">{reports:,} reports, one for each device; {skipped:,} records have no value.
Domain {domain} {unit}{clipped}.</p>
{picture}
<table>
<tr><th></th><th class="n">truth</th><th class="n">estimate</th><th class="n">95&nbsp;% interval</th>
<th class="n">truth is</th></tr>
{rows}
</table>
<p class="soft">Distribution: {method}.</p>
<p><code>task {task_id}</code></p>
</section>"""


def write_page(path: Path, results: Sequence[Result], *, epsilon: float, devices: int) -> None:
    """Write the page: for every task its picture and its truth and estimates side by side."""
    cards = "\n".join(_card(result) for result in results)
    path.write_text(
        _PAGE.format(epsilon=epsilon, twice=2 * epsilon, devices=devices, cards=cards), encoding="utf-8"
    )


def _card(result: Result) -> str:
    task = result.column.task
    return _CARD.format(
        wide="" if task.domain.circular else " wide",
        title=escape(result.column.title),
        reports=result.estimate["n"],
        skipped=result.column.skipped,
        domain=escape(str(task.domain)),
        unit=escape(result.column.unit),
        clipped=f"; {result.column.clipped:.2%} of the values lie outside and are clipped to it"
        if result.column.clipped
        else "",
        picture=svg(result),
        rows="\n".join(_row(line, result.column.unit) for line in result.lines),
        method=escape(result.estimate["distribution"]["method"].rstrip(".")),
        task_id=task.id,
    )


def _row(line: Line, unit: str) -> str:
    unit = "" if line.quantity == "resultant length" else f"&nbsp;{escape(unit)}"
    verdict = "inside" if line.contains else '<span class="miss">missed</span>'
    d = line.decimals
    return (
        f'<tr><td>{escape(line.quantity)}</td><td class="n">{line.truth:.{d}f}{unit}</td>'
        f'<td class="n">{line.value:.{d}f}{unit}</td>'
        f'<td class="n">{line.interval}</td><td class="n">{verdict}</td></tr>'
    )
