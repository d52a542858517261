"""The demo's page: one self-contained HTML file, no script and nothing from outside."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis import Estimate
from arcwise.analysis.charts import Layer, charts_of, stylesheet, svg
from arcwise.digits import rounded_up

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from arcwise.analysis.charts import Chart
    from arcwise.cli.demo.truth import Line, Result

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>arcwise demo</title>
<style>
{charts}
  :root {{ color-scheme: light dark; --page: #f4f6f8; --line: #d9dee3; --miss: #b3261e; }}
  @media (prefers-color-scheme: dark) {{
    :root {{ --page: #0f1419; --line: #303a44; --miss: #ff8a80; }}
  }}
  body {{ margin: 0; background: var(--page); color: var(--chart-ink);
    font: 16px/1.5 system-ui, sans-serif; }}
  main {{ max-width: 1320px; margin: 0 auto; padding: 2rem 1rem 3rem; }}
  h1 {{ margin: 0 0 .3rem; font-size: 1.9rem; line-height: 1.2; }}
  h2 {{ margin: 0; font-size: 1.2rem; }}
  p {{ margin: .3rem 0; }} .soft {{ color: var(--chart-soft); }}
  .cards {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); gap: 1rem;
    margin-top: 1.5rem; align-items: start; }}
  .card {{ background: var(--chart-paper); border: 1px solid var(--line); border-radius: 10px;
    padding: 1.1rem 1.1rem; min-width: 0; }}
  figure {{ margin: .6rem 0; }}
  .scroll {{ overflow-x: auto; }}
  table {{ border-collapse: collapse; width: 100%; margin-top: .6rem; font-variant-numeric: tabular-nums; }}
  th {{ text-align: left; font-weight: 500; color: var(--chart-soft); }}
  td, th {{ padding: .25rem .5rem .25rem 0; border-top: 1px solid var(--line); font-size: .92rem; }}
  td.n, th.n {{ text-align: right; }}
  summary {{ cursor: pointer; }}
  .miss {{ color: var(--miss); font-weight: 600; }}
  code {{ font-size: .85em; color: var(--chart-soft); overflow-wrap: anywhere; }}
</style>
</head>
<body><main>
<h1>What a server learns, and what it cannot</h1>
<p>{devices:,} devices know one flight out of New York in 2013, or one hour of its weather. Each
randomised what it knows, with epsilon = {epsilon} for every report, before anything left it; a flight
makes two reports and spends {twice}. The server holds counts of codes and nothing else; all that is
drawn as estimated comes from them.</p>
<p class="soft">Blue is estimated from the reports, and orange is the estimated mean or mean direction with
its 95&nbsp;% interval. The outline is the truth.</p>
<div class="cards">
{cards}
</div>
</main></body>
</html>
"""

_CARD = """<section class="card">
<h2>{title}</h2>
<p class="soft">{reports:,} reports, one for each device; {skipped:,} records have no value.
Domain {domain} {unit}{clipped}.</p>
<figure>{picture}</figure>
<div class="scroll" role="region" aria-label="Truth and estimates of {title}" tabindex="0">
<table>
<thead><tr><th scope="col">quantity</th><th scope="col" class="n">truth</th>
<th scope="col" class="n">estimate</th><th scope="col" class="n">95&nbsp;% interval</th>
<th scope="col" class="n">truth is</th></tr></thead>
<tbody>
{rows}
</tbody></table></div>
<details><summary>The numbers of the picture</summary>
<div class="scroll" role="region" aria-label="Numbers of the picture of {title}" tabindex="0">{table}</div>
</details>
<p class="soft">Distribution: {method}.</p>
<p><code>task {task_id}</code></p>
</section>"""


def write_page(path: Path, results: Sequence[Result], *, epsilon: float, devices: int) -> None:
    """Write the page: for every task its picture and its truth and estimates side by side."""
    cards = "\n".join(_card(result) for result in results)
    path.write_text(
        _PAGE.format(
            epsilon=rounded_up(epsilon),
            twice=rounded_up(2 * epsilon),
            devices=devices,
            cards=cards,
            charts=stylesheet().strip(),
        ),
        encoding="utf-8",
    )


def _card(result: Result) -> str:
    task, chart = result.column.task, _chart_of(result)
    return _CARD.format(
        title=escape(result.column.title),
        reports=result.estimate["n"],
        skipped=result.column.skipped,
        domain=escape(str(task.domain)),
        unit=escape(result.column.unit),
        clipped=f"; {result.column.clipped:.2%} of the values lie outside and are clipped to it"
        if result.column.clipped
        else "",
        picture=svg(chart, ident=task.name, script=False),
        table=_table(chart),
        rows="\n".join(_row(line, result.column.unit) for line in result.lines),
        method=escape(result.estimate["distribution"]["method"].rstrip(".")),
        task_id=task.id,
    )


def _chart_of(result: Result) -> Chart:
    """Return the histogram or the rose of one result, with the true one as an outline."""
    bins, domain = result.column.bins, result.column.task.domain
    one = domain.length / (2 * np.pi) if domain.circular else 1.0  # a rose shows what is per radian
    heights = result.true / np.diff(bins) * one
    outline = zip(bins[:-1].tolist(), bins[1:].tolist(), heights.tolist(), strict=True)
    estimate = replace(Estimate.from_dict(result.estimate), unit=result.column.unit)
    (chart, *_) = charts_of(estimate)
    return chart.over(Layer("outline", "truth", tuple(outline), "truth, known to the devices only"))


def _table(chart: Chart) -> str:
    header, rows = chart.table
    cells = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "\n".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{cells}</tr></thead><tbody>\n{body}\n</tbody></table>"


def _row(line: Line, unit: str) -> str:
    unit = "" if line.quantity == "resultant length" else f"&nbsp;{escape(unit)}"
    verdict = "inside" if line.contains else '<span class="miss">missed</span>'
    return (
        f'<tr><th scope="row">{escape(line.quantity)}</th><td class="n">{line.written(line.truth)}{unit}</td>'
        f'<td class="n">{line.written(line.value)}{unit}</td>'
        f'<td class="n">{line.interval}</td><td class="n">{verdict}</td></tr>'
    )
