"""The pictures of the guide that no command of the tool draws: diagrams, and what a metric measures.

`cargo xtask docs` compares them with docs/images, and `cargo xtask docs --fix` writes them. They are drawn 360 units wide
with letters of 12, so that they can be read on a telephone, and on white, as the tool's own figures are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

INK, GREY, LIGHT = "#1a1a1a", "#5a5a5a", "#d8d8d8"
BLUE, ORANGE, GREEN = "#0072b2", "#d55e00", "#007a5a"
FONT = "'DejaVu Sans', Verdana, 'Segoe UI', system-ui, sans-serif"

Point = tuple[float, float]


class Picture:
    def __init__(self, title: str, width: float, height: float) -> None:
        self.title, self.width, self.height = title, width, height
        self.parts: list[str] = []

    def add(self, name: str, content: str = "", **attributes: Any) -> None:
        def number(value: Any) -> str:
            return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)

        written = "".join(f' {key.replace("_", "-")}="{number(value)}"' for key, value in attributes.items())
        self.parts.append(f"<{name}{written}>{escape(content)}</{name}>" if content else f"<{name}{written}/>")

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: int = 12,
        anchor: str = "start",
        fill: str = INK,
        weight: int = 400,
    ) -> None:
        self.add(
            "text", text, x=float(x), y=float(y), font_size=size, text_anchor=anchor, fill=fill, font_weight=weight
        )

    def line(
        self, points: Sequence[Point], stroke: str = GREY, width: float = 1.5, dash: str = "none", fill: str = "none"
    ) -> None:
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self.add(
            "path",
            d=path,
            fill=fill,
            stroke=stroke,
            stroke_width=width,
            stroke_dasharray=dash,
            stroke_linejoin="round",
        )

    def box(
        self, x: float, y: float, width: float, height: float, lines: Sequence[str], fill: str, stroke: str
    ) -> None:
        """A rounded box around lines of text, the first of them bold."""
        self.add(
            "rect", x=float(x), y=float(y), width=float(width), height=float(height), rx=6, fill=fill, stroke=stroke
        )
        top = y + height / 2 - 8 * (len(lines) - 1) + 4
        for place, line in enumerate(lines):
            self.text(x + width / 2, top + 16 * place, line, anchor="middle", weight=400 if place else 700)

    def arrow(self, start: Point, end: Point) -> None:
        self.line([start, end])
        x, y = end
        self.add("polygon", points=f"{x:.1f},{y:.1f} {x - 4:.1f},{y - 7:.1f} {x + 4:.1f},{y - 7:.1f}", fill=GREY)

    def svg(self) -> str:
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(self.title)}" font-family="{FONT}">'
        ground = f'<rect width="{self.width}" height="{self.height}" fill="#ffffff"/>'
        return "\n".join([head, f"<title>{escape(self.title)}</title>", ground, *self.parts, "</svg>"]) + "\n"


def which_method() -> Picture:
    """The decision picture of docs/methods.md."""
    picture = Picture("Which method: a decision tree", 360, 396)
    kept, free, plain = ("#e3f0f7", BLUE), ("#fbe9dd", ORANGE), ("#f2f2f2", GREY)
    left, right, wide = 6, 184, 170
    picture.box(80, 8, 200, 30, ["May predictions change?"], *plain)
    for x, answer, question in (
        (left, "no, never", "How many rows?"),
        (right, "yes", "How many classes?"),
    ):
        middle = x + wide / 2
        picture.arrow((130 if x == left else 230, 38), (middle, 78))
        picture.text(
            middle - 10 if x == left else middle + 10, 56, answer, anchor="end" if x == left else "start", fill=GREY
        )
        picture.box(x, 78, wide, 30, [question], *plain)
    leaves = {
        left: [
            ("fewer than about 200", ["ts", "hard to overfit"]),
            ("up to a few thousand", ["auto", "or diag, to explain it"]),
            ("more", ["auto", "or oi and op: slower"]),
        ],
        right: [
            ("two", ["beta or platt", "isotonic from 1000 rows"]),
            ("up to about 100", ["auto-free", "or sms: one model"]),
            ("more", ["svs", "K × K needs many rows"]),
        ],
    }
    for x, branch in leaves.items():
        for place, (when, what) in enumerate(branch):
            top = 108 + 76 * place
            picture.text(x + wide / 2, top + 19, when, anchor="middle", fill=GREY)
            picture.box(x, top + 26, wide, 44, what, *(kept if x == left else free))
    picture.box(
        left, 346, 348, 42, ["KEY+order, as in sms+order", "any method of the right, every prediction kept"], *kept
    )
    return picture


def families() -> Picture:
    """The set diagram of docs/order.md."""
    picture = Picture("The families of maps as sets", 360, 300)
    picture.add("rect", x=4, y=4, width=352, height=292, rx=8, fill="#fafafa", stroke=GREY)
    picture.text(180, 24, "all maps from scores to scores", anchor="middle", weight=700)
    picture.text(180, 286, "unconstrained, vs, sms, isotonic, …", anchor="middle", fill=GREY)

    def ellipse(x: float, y: float, rx: float, ry: float, fill: str, stroke: str) -> None:
        picture.add("ellipse", cx=x, cy=y, rx=rx, ry=ry, fill=fill, fill_opacity=0.5, stroke=stroke, stroke_width=1.5)

    ellipse(132, 152, 120, 112, "#cfe6f3", BLUE)
    ellipse(248, 152, 100, 112, "#f9dcc9", ORANGE)
    ellipse(200, 168, 42, 52, "#c9e7dc", GREEN)
    ellipse(200, 189, 24, 24, "#ffffff", GREEN)
    for x, y, text, weight in (
        (76, 110, "order-", 700),
        (76, 126, "preserving", 700),
        (76, 150, "op", 400),
        (302, 118, "order-", 700),
        (302, 134, "invariant", 700),
        (200, 90, "both:", 400),
        (200, 106, "oi", 700),
        (200, 140, "diagonal:", 400),
        (200, 156, "diag", 700),
        (200, 193, "ts", 700),
    ):
        picture.text(x, y, text, anchor="middle", weight=weight)
    return picture


class Plot(Picture):
    """One pair of axes."""

    def __init__(
        self, title: str, x: str, y: str, xlim: Point, ylim: Point, ticks: tuple[Sequence[float], Sequence[float]]
    ) -> None:
        super().__init__(title, 360, 270)
        self.xlim, self.ylim = xlim, ylim
        self.text(8, 18, title, size=13, weight=700)
        for value in ticks[0]:
            self.line([self.at(value, ylim[0]), self.at(value, ylim[1])], LIGHT, 1)
            self.text(self.at(value, ylim[0])[0], 230, f"{value:g}", anchor="middle", fill=GREY)
        for value in ticks[1]:
            self.line([self.at(xlim[0], value), self.at(xlim[1], value)], LIGHT, 1)
            self.text(46, self.at(xlim[0], value)[1] + 4, f"{value:g}", anchor="end", fill=GREY)
        self.text(201, 258, x, anchor="middle")
        self.text(8, 38, y)

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
        self.text(*self.at(x, y), text, fill=fill, anchor=anchor)


def metric_pictures(demo: Path) -> dict[str, Picture]:
    """What each metric measures of the letters, uncalibrated."""
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
        x, y = plot.at(odds[part].mean(), math.log(right / (1 - right)))
        plot.add("circle", cx=x, cy=y, r=4, fill=ORANGE)
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
    return pictures


def pictures(demo: Path) -> dict[str, str]:
    """Every picture by its file name."""
    diagrams: dict[str, Callable[[], Picture]] = {"which-method.svg": which_method, "families.svg": families}
    drawn = {name: draw() for name, draw in diagrams.items()} | metric_pictures(demo)
    return {name: picture.svg() for name, picture in drawn.items()}
