"""The report as one HTML page that needs no other file: the charts are inside."""

import base64
import html
from collections.abc import Sequence

from pyspark_jobs.report_charts import Chart
from pyspark_jobs.report_checks import Check
from pyspark_jobs.report_facts import Facts

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Flights from New York City, 2013</title>
<style>
body {{ margin: 0; background: #f3f4f6; color: #1f2a37; font: 16px/1.5 system-ui, sans-serif; }}
main {{ max-width: 1080px; margin: 0 auto; padding: 2rem 1rem 4rem; }}
h1 {{ margin: 0; font-size: 1.9rem; }}
h2 {{ margin: 2.5rem 0 .75rem; font-size: 1.2rem; }}
p.lead {{ margin: .25rem 0 1.5rem; color: #6b7280; }}
.tiles {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 1rem; }}
.tile, figure, table, pre {{ background: #fff; border: 1px solid #e5e7eb; border-radius: 10px; }}
.tile {{ padding: 1rem; }}
.tile b {{ display: block; font-size: 1.6rem; }}
.tile span {{ color: #6b7280; font-size: .9rem; }}
.verdict {{ padding: .9rem 1rem; border-radius: 10px; font-weight: 600; }}
.verdict.right {{ background: #d1fae5; color: #065f46; }}
.verdict.wrong {{ background: #fee2e2; color: #991b1b; }}
table {{ width: 100%; border-spacing: 0; margin-top: 1rem; overflow: hidden; }}
th, td {{ padding: .5rem 1rem; border-bottom: 1px solid #f3f4f6; text-align: right; font-variant-numeric: tabular-nums; }}
th:first-child, td:first-child {{ text-align: left; }}
th {{ color: #6b7280; font-size: .85rem; }}
td.right {{ color: #059669; }}
td.wrong {{ color: #dc2626; font-weight: 700; }}
figure {{ margin: 0 0 1.25rem; padding: 1rem; }}
figure img {{ width: 100%; height: auto; }}
pre {{ padding: 1rem; overflow-x: auto; }}
figcaption {{ color: #6b7280; font-size: .9rem; }}
</style>
</head>
<body>
<main>
<h1>Flights from New York City, 2013</h1>
<p class="lead">Read from a topic by Spark Structured Streaming, joined with weather and airlines, and read back from Parquet
and from a topic of windows.</p>
<section class="tiles">{tiles}</section>
<h2>Nothing lost, nothing doubled?</h2>
<div class="verdict {verdict_class}">{verdict}</div>
<table>
<thead><tr><th>Count</th><th>Source says</th><th>Pipeline says</th><th></th></tr></thead>
<tbody>{checks}</tbody>
</table>
{run}<h2>What the flights say</h2>
{charts}
</main>
</body>
</html>
"""


def verdict(checks: Sequence[Check]) -> str:
    """Return the outcome of all checks in one sentence."""
    wrong = sum(not check.holds for check in checks)
    if wrong:
        return f"{wrong} of {len(checks)} counts are off."
    return f"All {len(checks)} counts agree with the source: no flight was lost or doubled."


def page(
    facts: Facts, checks: Sequence[Check], charts: Sequence[Chart], lag: Chart | None = None, sink: str = ""
) -> str:
    """Return the page.

    Args:
        facts: about the flights.
        checks: of the counts.
        charts: of the flights.
        lag: the chart of the lag over the run, if there is one.
        sink: the batches that the sink of the windows has written, as text, if it writes exactly once.
    """
    run = "" if lag is None else f"<h2>How far the queries were behind</h2>\n{_figure(lag)}"
    if sink:
        run += f"<h2>The last batch that the sink has written to each partition</h2>\n<pre>{html.escape(sink)}</pre>\n"
    return _PAGE.format(
        tiles="".join(_tile(value, label) for value, label in _tiles(facts)),
        verdict_class="right" if all(check.holds for check in checks) else "wrong",
        verdict=html.escape(verdict(checks)),
        checks="".join(_check_row(check) for check in checks),
        run=run,
        charts="".join(_figure(chart) for chart in charts),
    )


def _tiles(facts: Facts) -> list[tuple[str, str]]:
    total = facts.total
    tiles = [
        (f"{total.flights:,}", "flights"),
        (f"{total.delay:.1f} min", "mean departure delay"),
        (f"{total.delayed:.1%}", "departed 15 minutes late or later"),
        (f"{total.cancelled:.1%}", "cancelled"),
    ]
    return tiles + [(f"{group.delay:.1f} min", f"mean delay at {group.name}") for group in facts.by_origin]


def _tile(value: str, label: str) -> str:
    return f'<div class="tile"><b>{html.escape(value)}</b><span>{html.escape(label)}</span></div>'


def _check_row(check: Check) -> str:
    kind, mark = ("right", "&#10003;") if check.holds else ("wrong", "&#10007;")
    return (
        f"<tr><td>{html.escape(check.name)}</td><td>{check.expected:,}</td><td>{check.found:,}</td>"
        f'<td class="{kind}">{mark}</td></tr>\n'
    )


def _figure(chart: Chart) -> str:
    with open(chart.path, "rb") as file:
        image = base64.b64encode(file.read()).decode()
    caption = html.escape(chart.caption)
    return f'<figure><img src="data:image/png;base64,{image}" alt="{caption}"><figcaption>{caption}</figcaption></figure>\n'
