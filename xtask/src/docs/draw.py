"""The pictures of the guide that show what a metric measures.

`cargo xtask docs` compares them with docs/images, and `cargo xtask docs --fix` writes them. They are drawn 360 units wide
with letters of 12, so that they can be read on a telephone, and on white, as the tool's own figures are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

INK, GREY, LIGHT = "#1a1a1a", "#5a5a5a", "#d8d8d8"
BLUE, ORANGE = "#0072b2", "#d55e00"
FONT = "'DejaVu Sans', Verdana, 'Segoe UI', system-ui, sans-serif"

Point = tuple[float, float]


def short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


class Plot:
    """One pair of axes."""

    def __init__(
        self, title: str, x: str, y: str, xlim: Point, ylim: Point, ticks: tuple[Sequence[float], Sequence[float]]
    ) -> None:
        self.title, self.xlim, self.ylim = title, xlim, ylim
        self.parts: list[str] = []
        self.text((8, 18), title, size=13, weight=700)
        for value in ticks[0]:
            self.line([self.at(value, ylim[0]), self.at(value, ylim[1])], LIGHT, 1)
            self.text((self.at(value, ylim[0])[0], 230), f"{value:g}", GREY, "middle")
        for value in ticks[1]:
            self.line([self.at(xlim[0], value), self.at(xlim[1], value)], LIGHT, 1)
            self.text((46, self.at(xlim[0], value)[1] + 4), f"{value:g}", GREY, "end")
        self.text((201, 258), x, anchor="middle")
        self.text((8, 38), y)

    def text(
        self, at: Point, text: str, fill: str = INK, anchor: str = "start", size: int = 12, weight: int = 400
    ) -> None:
        style = f'font-size="{size}" text-anchor="{anchor}" fill="{fill}" font-weight="{weight}"'
        self.parts.append(f'<text x="{short(at[0])}" y="{short(at[1])}" {style}>{escape(text)}</text>')

    def line(
        self, points: Sequence[Point], stroke: str, width: float = 1.5, dash: str = "none", fill: str = "none"
    ) -> None:
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        style = f'stroke="{stroke}" stroke-width="{short(width)}" stroke-dasharray="{dash}" stroke-linejoin="round"'
        self.parts.append(f'<path d="{path}" fill="{fill}" {style}/>')

    def svg(self) -> str:
        size = 'viewBox="0 0 360 270" width="360" height="270"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(self.title)}" font-family="{FONT}">'
        ground = '<rect width="360" height="270" fill="#ffffff"/>'
        return "\n".join([head, f"<title>{escape(self.title)}</title>", ground, *self.parts, "</svg>"]) + "\n"

    def at(self, x: float, y: float) -> Point:
        (x0, x1), (y0, y1) = self.xlim, self.ylim
        return 52 + 298 * (x - x0) / (x1 - x0), 214 - 166 * (y - y0) / (y1 - y0)

    def curve(self, x: Any, y: Any, stroke: str = BLUE, width: float = 2, dash: str = "none") -> None:
        self.line([self.at(a, b) for a, b in zip(x, y, strict=True)], stroke, width, dash)

    def area(self, x: Any, low: Any, high: Any, fill: str) -> None:
        there = [self.at(a, b) for a, b in zip(x, high, strict=True)]
        back = [self.at(a, b) for a, b in zip(x, low, strict=True)]
        self.line(there + back[::-1], "none", fill=fill)

    def label(self, x: float, y: float, text: str, fill: str = INK, anchor: str = "start") -> None:
        self.text(self.at(x, y), text, fill, anchor)

    def dot(self, x: float, y: float) -> None:
        x, y = self.at(x, y)
        self.parts.append(f'<circle cx="{short(x)}" cy="{short(y)}" r="4" fill="{ORANGE}"/>')


def pictures(demo: Path) -> dict[str, str]:
    """Draws what each metric measures of the letters, uncalibrated; by file name."""
    import ordercal

    data = np.load(demo / "letters.npz")
    logits, labels = data["test_logits"].astype(np.float64), data["test_labels"]
    found = ordercal.evaluate(data["test_logits"], labels)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    order = np.argsort(p.max(axis=1), kind="stable")
    conf, hit = p.max(axis=1)[order], (p.argmax(axis=1) == labels)[order].astype(np.float64)
    share = np.arange(1, len(conf) + 1) / len(conf)
    some = np.unique(np.linspace(0, len(conf) - 1, 240).astype(int))
    unit, tenths = (0.0, 1.0), np.linspace(0, 1, 6)

    pictures = {}
    said = np.linspace(0.02, 1, 120)
    plot = Plot(
        "nll, brier: the penalty of one row",
        "probability of the label, of two classes",
        "penalty",
        unit,
        (0, 4),
        (tenths, range(5)),
    )
    plot.curve(said, -np.log(said))
    plot.curve(said, (1 - said) ** 2, ORANGE, dash="6 3")
    plot.label(0.24, 2.0, "nll: −ln p, without limit", BLUE)
    plot.label(0.03, 0.18, "brier: (1 − p)²", ORANGE)
    pictures["metrics-proper.svg"] = plot

    gap = np.cumsum(conf - hit) / len(conf)
    top = int(np.abs(gap).argmax())
    limit = math.ceil(gap.max() * 50) / 50
    plot = Plot(
        f"ks = {found['ks']:.4f}: the highest point",
        "share of rows, least confident first",
        "sum of conf − hit, over N",
        unit,
        (0, limit),
        (tenths, np.linspace(0, limit, 5)),
    )
    plot.curve(share[some], gap[some])
    plot.curve([share[top]] * 2, [0, gap[top]], ORANGE, dash="6 3")
    pictures["metrics-ks.svg"] = plot

    width = max(found["sm_ece"], 1e-3)
    grid = np.linspace(conf.min(), 1, 200)
    # Kernels are reflected at 1, so that no weight is lost there.
    kernel = sum(np.exp(-0.5 * ((grid[:, None] - c[None, :]) / width) ** 2) for c in (conf, 2 - conf))
    smooth = grid + kernel @ (hit - conf) / kernel.sum(axis=1)
    plot = Plot(
        f"sm_ece = {found['sm_ece']:.4f}: gaps without bins",
        "confidence",
        "accuracy near it",
        unit,
        unit,
        (tenths, tenths),
    )
    plot.area(grid, np.minimum(grid, smooth), np.maximum(grid, smooth), "#f9dcc9")
    plot.curve(unit, unit, GREY, 1, "4 3")
    plot.curve(grid, smooth)
    plot.label(0.04, 0.88, "accuracy after smoothing", BLUE)
    plot.label(0.2, 0.12, "calibrated", GREY)
    pictures["metrics-smooth.svg"] = plot

    with np.errstate(divide="ignore"):
        odds = np.log(conf) - np.log1p(-conf)
    plot = Plot(
        f"cox_slope = {found['cox_slope']:.2f}, cox_intercept = {found['cox_intercept']:.2f}".replace("-", "−"),
        "log-odds that were said",
        "log-odds that hold",
        (0, 8),
        (-1, 8),
        (range(0, 9, 2), range(0, 9, 2)),
    )
    plot.curve((0, 8), (0, 8), GREY, 1, "4 3")
    ends = (0.0, 8.0)
    plot.curve(ends, [found["cox_intercept"] + found["cox_slope"] * x for x in ends])
    for part in np.array_split(np.flatnonzero(np.isfinite(odds) & (odds < 8)), 8):
        right = np.clip(hit[part].mean(), 1e-3, 1 - 1e-3)
        plot.dot(odds[part].mean(), math.log(right / (1 - right)))
    plot.label(4.2, 6.6, "calibrated: slope 1", GREY, "end")
    plot.label(7.9, -0.6, "overconfident: slope below 1", BLUE, "end")
    pictures["metrics-cox.svg"] = plot

    # From the most confident row on.
    best = hit[::-1]
    right, wrong = np.cumsum(best) / best.sum(), np.cumsum(1 - best) / (1 - best).sum()
    plot = Plot(
        f"auroc = {found['auroc']:.3f}: the area",
        "share of the wrong predictions taken",
        "share of the right ones taken",
        unit,
        unit,
        (tenths, tenths),
    )
    plot.area(wrong[some], np.zeros(len(some)), right[some], "#cfe6f3")
    plot.curve(unit, unit, GREY, 1, "4 3")
    plot.curve(wrong[some], right[some])
    plot.label(0.98, 0.42, "confidence says nothing", GREY, "end")
    pictures["metrics-auroc.svg"] = plot

    precision = np.cumsum(best) / np.arange(1, len(best) + 1)
    low = math.floor(precision.min() * 20) / 20
    plot = Plot(
        f"ap = {found['ap']:.4f}: the mean height",
        "share of the right predictions taken",
        "share right among those taken",
        unit,
        (low, 1),
        (tenths, np.linspace(low, 1, 5)),
    )
    plot.area(right[some], np.full(len(some), low), precision[some], "#cfe6f3")
    plot.curve(right[some], precision[some])
    pictures["metrics-ap.svg"] = plot

    risk = 1 - precision
    ideal = np.cumsum(np.sort(1 - best)) / np.arange(1, len(best) + 1)
    limit = math.ceil(risk.max() * 50) / 50
    plot = Plot(
        f"aurc = {found['aurc']:.4f}, of it eaurc = {found['eaurc']:.4f}",
        "coverage: share of rows taken, most confident first",
        "share wrong among those taken",
        unit,
        (0, limit),
        (tenths, np.linspace(0, limit, 5)),
    )
    plot.area(share[some], ideal[some], risk[some], "#f9dcc9")
    plot.area(share[some], np.zeros(len(some)), ideal[some], "#cfe6f3")
    plot.curve(share[some], risk[some])
    plot.curve(share[some], ideal[some], GREY, 1.5, "4 3")
    plot.label(0.05, limit * 0.7, "eaurc: between the two", ORANGE)
    plot.label(0.05, limit * 0.55, "dashed: all wrong ones last", GREY)
    pictures["metrics-coverage.svg"] = plot
    return {name: plot.svg() for name, plot in pictures.items()}
