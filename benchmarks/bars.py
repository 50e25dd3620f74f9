"""Bars of one column, as a small SVG that is the same on every run with the same figures."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
from report import Section, number

_OURS, _FLOOR, _NOTHING, _PEER = "#08306b", "#74c476", "#bbbbbb", "#d94801"
_COLOURS = {"ours": _OURS, "memory": _OURS, "shared": _OURS, "clients": _OURS, "floor": _FLOOR}
"""By a word in the name of the subject."""
_WITHOUT_LIMITER = ("bare", "FastAPI", "Flask", "python alone")


def draw(section: Section, folder: Path) -> None:
    """Write `bench_NAME.svg`."""
    place = section.columns.index(section.drawn)
    bars = [(subject, row[place]) for subject, row in section.rows.items()]
    shown = [(subject, value) for subject, value in bars if value is not None]
    plt.switch_backend("agg")  # no display needed
    plt.rcParams |= {"svg.hashsalt": section.name, "svg.fonttype": "none", "font.size": 8}
    figure, axes = plt.subplots(figsize=(7, 0.5 + 0.22 * len(shown)), layout="constrained")
    names, values = [subject for subject, _ in shown], [value for _, value in shown]
    drawn = axes.barh(names, values, color=[_colour(subject) for subject in names])
    axes.bar_label(drawn, [number(value) for value in values], padding=3)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.xaxis.set_visible(False)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.set_title(f"{section.title}: {section.drawn}", fontsize=9, loc="left")
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"bench_{section.name}.svg", metadata={"Date": None})
    plt.close(figure)


def _colour(subject: str) -> str:
    if subject in _WITHOUT_LIMITER:
        return _NOTHING
    return next((colour for word, colour in _COLOURS.items() if word in subject), _PEER)
