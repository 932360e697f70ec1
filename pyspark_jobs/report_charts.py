"""The report's charts, drawn by matplotlib into PNG files."""

import os
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any, NamedTuple

import matplotlib as mpl

mpl.use("Agg")  # files only: no display is needed, or looked for

import matplotlib.dates as mdates
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pyspark_jobs.lag import Lag
from pyspark_jobs.report_facts import Facts, Group

INK, MUTED, GRID = "#1f2a37", "#6b7280", "#e5e7eb"
BLUE, ORANGE, GREEN, RED = "#2563eb", "#ea580c", "#059669", "#dc2626"
ORIGINS = {"EWR": BLUE, "JFK": ORANGE, "LGA": GREEN}
WEEKDAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
SMOOTHING_DAYS = 7
DPI = 130
LAG_CAPTION = (
    "The flights in the topic that each query had not read, as any tool for Kafka's groups shows it: first the feed raises it, "
    "then each batch lowers it."
)

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "font.family": "DejaVu Sans",
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": GRID,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "legend.frameon": False,
}


class Chart(NamedTuple):
    """A chart on the page: its file, and what the reader is to see in it."""

    path: str
    caption: str


def draw_all(facts: Facts, directory: str) -> list[Chart]:
    """Draw every chart into ``directory``; in the order of the page."""
    drawn = []
    with mpl.rc_context(STYLE):
        for name, (draw, caption) in CHARTS.items():
            figure = draw(facts)
            path = os.path.join(directory, f"{name}.png")
            figure.savefig(path, dpi=DPI, bbox_inches="tight", facecolor="white")
            plt.close(figure)
            drawn.append(Chart(path, caption))
    return drawn


def draw_lag(lag: Lag, directory: str) -> Chart:
    """Draw the lag of each group over the run into ``directory``."""
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(11, 3.5))
        for group, samples in lag.items():
            axes.plot(*zip(*samples, strict=True), drawstyle="steps-post", linewidth=2, label=group)
        axes.set(title="Lag by group", xlabel="seconds since the start", ylabel="flights not read")
        axes.yaxis.set_major_formatter(lambda value, _position: f"{value:,.0f}")
        axes.set_ylim(bottom=0)
        axes.legend(loc="upper right")
        path = os.path.join(directory, "lag.png")
        figure.savefig(path, dpi=DPI, bbox_inches="tight", facecolor="white")
        plt.close(figure)
    return Chart(path, LAG_CAPTION)


def draw_year(facts: Facts) -> Figure:
    """Mean delay and cancellations of each day, as the windows in the topic say."""
    days = [date.fromisoformat(day) for day, *_ in facts.by_day]
    delay = [mean for *_, mean in facts.by_day]
    figure, (upper, lower) = plt.subplots(2, 1, figsize=(11, 5), sharex=True, height_ratios=[3, 1.3])
    upper.plot(days, delay, color=BLUE, alpha=0.3, linewidth=1, label="day")
    upper.plot(days, smoothed(delay), color=BLUE, linewidth=2, label=f"mean of {SMOOTHING_DAYS} days")
    upper.axhline(0, color=MUTED, linewidth=0.8)
    upper.set(title="Departure delay through the year", ylabel="minutes")
    upper.legend(loc="upper right", ncols=2)
    lower.bar(days, [cancelled for _, _, cancelled, _ in facts.by_day], color=RED, width=1)
    lower.set(ylabel="cancelled")
    lower.xaxis.set_major_locator(mdates.AutoDateLocator(minticks=4, maxticks=12))
    lower.xaxis.set_major_formatter(mdates.ConciseDateFormatter(lower.xaxis.get_major_locator()))
    return figure


def draw_carriers(facts: Facts) -> Figure:
    """Mean delay and share of delayed flights of each airline."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5), sharey=True)
    names = [f"{group.name}  ({group.flights:,})" for group in facts.by_carrier]
    _horizontal_bars(left, names, [group.delay for group in facts.by_carrier], BLUE, "{:.1f}")
    left.set(title="Mean departure delay by airline", xlabel="minutes")
    _horizontal_bars(right, names, [100 * group.delayed for group in facts.by_carrier], ORANGE, "{:.0f}%")
    right.set(title="Departed 15 minutes late or later", xlabel="% of flights")
    return figure


def draw_hours(facts: Facts) -> Figure:
    """Mean delay by the hour of the day, for each airport."""
    figure, axes = plt.subplots(figsize=(11, 4))
    for origin, points in facts.by_hour.items():
        axes.plot(
            *zip(*points, strict=True), marker="o", markersize=4, linewidth=2, color=ORIGINS.get(origin), label=origin
        )
    axes.set(title="Departure delay by hour", xlabel="scheduled departure, New York time", ylabel="minutes")
    hours = sorted({hour for points in facts.by_hour.values() for hour, _ in points})
    axes.set_xticks(hours, [f"{hour}:00" for hour in hours], rotation=45)
    axes.legend(ncols=3, loc="upper left")
    return figure


def draw_week(facts: Facts) -> Figure:
    """Mean delay by weekday and hour, as a heat map."""
    hours = sorted({hour for _, hour, _ in facts.by_weekday_and_hour})
    found = {(weekday, hour): delay for weekday, hour, delay in facts.by_weekday_and_hour}
    table = [[found.get((weekday, hour), float("nan")) for hour in hours] for weekday in range(len(WEEKDAYS))]
    figure, axes = plt.subplots(figsize=(11, 3.2))
    image = axes.imshow(table, aspect="auto", cmap="YlOrRd")
    axes.set(title="Departure delay by weekday and hour", xlabel="scheduled departure, New York time")
    axes.set_xticks(range(len(hours)), [f"{hour}:00" for hour in hours], rotation=45)
    axes.set_yticks(range(len(WEEKDAYS)), WEEKDAYS)
    axes.grid(visible=False)
    figure.colorbar(image, ax=axes, label="minutes", pad=0.01)
    return figure


def draw_weather(facts: Facts) -> Figure:
    """Mean delay by visibility, rain and wind in the hour of departure."""
    figure, row = plt.subplots(1, 3, figsize=(11, 3.8), sharey=True)
    shown = {"Visibility": facts.by_visibility, "Precipitation": facts.by_precipitation, "Wind": facts.by_wind}
    for axes, (title, groups), color in zip(row, shown.items(), (BLUE, GREEN, ORANGE), strict=True):
        _weather_bars(axes, groups, color)
        axes.set(title=title)
    row[0].set(ylabel="mean departure delay, minutes")
    return figure


def smoothed(values: Sequence[float], days: int = SMOOTHING_DAYS) -> list[float]:
    """Return the mean of the ``days`` values around each value; of fewer at both ends."""
    half = days // 2
    means = []
    for position in range(len(values)):
        near = values[max(0, position - half) : position + half + 1]
        means.append(sum(near) / len(near))
    return means


def _horizontal_bars(axes: Axes, names: Sequence[str], values: Sequence[float], color: str, label: str) -> None:
    bars = axes.barh(names, values, color=color, height=0.7)
    axes.bar_label(bars, [label.format(value) for value in values], padding=3, color=MUTED, fontsize=9)
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.12)


def _weather_bars(axes: Axes, groups: Sequence[Group], color: str) -> None:
    bars = axes.bar([group.name for group in groups], [group.delay for group in groups], color=color, width=0.7)
    axes.bar_label(bars, [f"{group.delay:.0f}" for group in groups], padding=2, color=MUTED, fontsize=9)
    plt.setp(axes.get_xticklabels(), rotation=30, ha="right")
    axes.grid(visible=False, axis="x")


CHARTS: dict[str, tuple[Callable[[Facts], Figure], str]] = {
    "year": (
        draw_year,
        "From the topic of windows: summer's storms stand out in the delays, the February blizzard in the cancellations.",
    ),
    "carriers": (draw_carriers, "Airlines by mean delay at departure, with their number of flights."),
    "hours": (draw_hours, "Delays pile up over the day at all three airports, and the first departures are on time."),
    "week": (
        draw_week,
        "The late afternoons of working days are the worst time to leave; Saturday is the calmest day.",
    ),
    "weather": (draw_weather, "From the join with the weather at the airport in the hour of departure."),
}
