"""Figures of calibration, as matplotlib draws them and in the tool's colours. Needs the package `matplotlib`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ._calibrator import Calibrator
from ._errors import OrdercalError
from ._metrics import Reliability, reliability as _reliability
from ._types import Binning, Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The colours of the command line's figures: the first is for what is not calibrated.
SERIES = ("#5a5a5a", "#0072b2", "#d55e00", "#008a64", "#b8568c", "#a87400", "#2e88bd", "#7a5ab5")
REGIONS = ("#b9d7ea", "#f8dcc5", "#bfe6d8", "#edcfdf", "#f7e7ba", "#dcd3ee")
INK, MUTED, GRID, PANEL = "#1a1a1a", "#555555", "#dddddd", "#f8f8f8"
#: No figure relies on colour alone.
MARKERS = "osD^vPX*"


def _axes(ax: Axes | None, size: tuple[float, float]) -> tuple[Figure, Axes]:
    if ax is None:
        # Through pyplot, so that scripts can `plt.show()` and a notebook draws it at the end of its cell.
        from matplotlib import pyplot
        from ._figure import NotebookFigure

        figure = pyplot.figure(FigureClass=NotebookFigure, figsize=size, layout="constrained")
        ax = figure.add_subplot()
    found: Any = ax.figure
    ax.set_facecolor(PANEL)
    ax.grid(True, color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.tick_params(colors=MUTED)
    for spine in ax.spines.values():
        spine.set_color(GRID)
    return found, ax


def _diagrams(scores: Any, labels: Any, **how: Any) -> dict[str, Reliability]:
    """One diagram per series: a mapping gives the series their names."""
    series = scores if isinstance(scores, Mapping) else {"": scores}
    if not series:
        raise OrdercalError("there is nothing to draw")
    return {name: _reliability(one, labels, **how) for name, one in series.items()}


def reliability(
    scores: Any,
    labels: Any,
    *,
    kind: Kind = "logits",
    style: Literal["gap", "classic"] = "gap",
    bins: int = 15,
    binning: Binning = "equal-mass",
    sample_weight: Any = None,
    classes: Any = None,
    target: Any = None,
    ax: Axes | None = None,
) -> Figure:
    """A reliability diagram. Whiskers are 95 % intervals of the accuracy.

    Bands are what chance alone would show of a calibrated classifier: where its accuracy would lie in 95 % of samples of
    this size. A point inside is no evidence of miscalibration.

    Parameters
    ----------
    scores : array, or dict of arrays
        As in `ordercal.evaluate`; a dict draws several, by name.
    labels, kind, sample_weight, classes
        As in `ordercal.evaluate`.
    style : {"gap", "classic"}
        "gap" is confidence minus accuracy over confidence, 0 being perfect; "classic" is accuracy over confidence,
        the diagonal being perfect.
    bins : int
        How many bins.
    binning : {"equal-width", "equal-mass"}
        Whether bins are equally wide or hold equally many rows.
    target : optional
        A class, whose probability is compared with how often it is the label; None: the predicted class.
    ax : matplotlib Axes, optional
        Where to draw; None: a new figure.

    Returns
    -------
    matplotlib Figure
    """
    if style not in ("gap", "classic"):
        raise OrdercalError(f"there is no style `{style}`; a diagram is `gap` or `classic`")
    how = {"kind": kind, "sample_weight": sample_weight, "classes": classes, "target": target}
    diagrams = _diagrams(scores, labels, bins=bins, binning=binning, **how)
    figure, ax = _axes(ax, (6.0, 4.2) if style == "gap" else (4.6, 4.6))
    for place, (name, found) in enumerate(diagrams.items()):
        color = SERIES[place % len(SERIES)] if len(diagrams) > 1 else SERIES[1]
        some = found.count > 0
        x = found.confidence[some]
        low, high = found.interval[some, 0], found.interval[some, 1]
        if style == "gap":
            y, ends = found.gap[some], (x - high, x - low)
        else:
            y, ends = found.accuracy[some], (low, high)
        band = found.consistency[some]
        if style == "gap":
            band = x[:, None] - band[:, ::-1]
        ax.fill_between(x, band[:, 0], band[:, 1], color=color, alpha=0.12, linewidth=0.0)
        whiskers = np.maximum([y - ends[0], ends[1] - y], 0.0)
        ax.errorbar(x, y, yerr=whiskers, fmt="none", ecolor=color, alpha=0.45, linewidth=1.0)
        label = f"{name} " if name else ""
        ax.plot(
            x,
            y,
            color=color,
            marker=MARKERS[place % len(MARKERS)],
            markersize=4,
            linewidth=1.6,
            label=f"{label}(error {found.error:.4f})",
        )
    ax.set_xlabel("confidence", color=INK)
    if style == "gap":
        ax.axhline(0.0, color=INK, linewidth=1.0)
        ax.set_ylabel("confidence − accuracy", color=INK)
    else:
        ax.plot([0, 1], [0, 1], color=INK, linewidth=1.0, linestyle="--")
        ax.set_xlim(0, 1)
        ax.set_ylim(0, 1)
        ax.set_ylabel("accuracy", color=INK)
    ax.legend(frameon=False)
    return figure


def weighted(
    scores: Any,
    labels: Any,
    *,
    kind: Kind = "logits",
    bins: int = 15,
    sample_weight: Any = None,
    classes: Any = None,
    target: Any = None,
    ax: Axes | None = None,
) -> Figure:
    """What each bin adds to the calibration error: its share of the rows times its gap, bin by bin.

    Parameters
    ----------
    scores, labels, kind, bins, sample_weight, classes, target, ax
        As in `reliability`.

    Returns
    -------
    matplotlib Figure
    """
    how = {"kind": kind, "sample_weight": sample_weight, "classes": classes, "target": target}
    diagrams = _diagrams(scores, labels, bins=bins, **how)
    figure, ax = _axes(ax, (6.0, 4.2))
    width = 0.8 / len(diagrams)
    for place, (name, found) in enumerate(diagrams.items()):
        color = SERIES[place % len(SERIES)] if len(diagrams) > 1 else SERIES[1]
        size = found.upper - found.lower
        left = found.lower + size * (0.1 + place * width)
        label = f"{name} " if name else ""
        ax.bar(
            left,
            np.nan_to_num(found.share * found.gap),
            size * width,
            align="edge",
            color=color,
            label=f"{label}(error {found.error:.4f})",
        )
    ax.axhline(0.0, color=INK, linewidth=1.0)
    ax.set_xlabel("confidence", color=INK)
    ax.set_ylabel("share of rows × (confidence − accuracy)", color=INK)
    ax.legend(frameon=False)
    return figure


def transform(
    calibrators: Calibrator | Mapping[str, Calibrator],
    *,
    low: float | None = None,
    high: float | None = None,
    points: int = 400,
    ax: Axes | None = None,
) -> Figure:
    """The function that scores go through, for `Diagonal` and `TemperatureScaling`.

    Parameters
    ----------
    calibrators : Calibrator, or dict of them
        What to draw; a dict gives names.
    low, high : float, optional
        The range of scores; None: that of the calibration data if a `Diagonal` is among them, and else −10 to 10.
    points : int
        At how many scores the function is computed.
    ax : matplotlib Axes, optional
        Where to draw; None: a new figure.

    Returns
    -------
    matplotlib Figure
    """
    series = calibrators if isinstance(calibrators, Mapping) else {"": calibrators}
    if not series:
        raise OrdercalError("there is nothing to draw")
    ranges = [one.parameters_["range"] for one in series.values() if one.parameters_.get("form") == "diag"]
    begin = low if low is not None else min((r[0] for r in ranges), default=-10.0)
    end = high if high is not None else max((r[1] for r in ranges), default=10.0)
    if not begin < end:
        raise OrdercalError(f"the range from {begin} to {end} is empty")
    x = np.linspace(begin, end, points)
    figure, ax = _axes(ax, (5.2, 4.4))
    ax.plot(x, x, color=INK, linewidth=1.0, linestyle="--", label="unchanged")
    for place, (name, one) in enumerate(series.items()):
        y = one._fitted().function(x)
        ax.plot(x, y, color=SERIES[1 + place % (len(SERIES) - 1)], linewidth=1.8, label=name or type(one).__name__)
    ax.set_xlabel("score", color=INK)
    ax.set_ylabel("calibrated score", color=INK)
    ax.legend(frameon=False)
    return figure


def simplex(calibrator: Calibrator, *, steps: int = 12, ax: Axes | None = None) -> Figure:
    """Where a calibrator for three classes moves each distribution: an arrow on the triangle of all of them.

    The six regions are the six orders of three classes: no arrow of an order-preserving calibrator leaves its own.

    Parameters
    ----------
    calibrator : Calibrator
        One that was fitted to three classes.
    steps : int
        Into how many parts each side of the triangle is cut.
    ax : matplotlib Axes, optional
        Where to draw; None: a new figure.

    Returns
    -------
    matplotlib Figure
    """
    model = calibrator._fitted()
    if model.classes != 3:
        raise OrdercalError(f"a triangle is for 3 classes, not {model.classes}")
    cells = [(i, j, steps - i - j) for i in range(steps + 1) for j in range(steps + 1 - i)]
    inner = [cell for cell in cells if min(cell) > 0]
    before = np.array(inner, dtype=np.float64) / steps
    kind = calibrator.kind
    after = model.apply(before if kind == "probs" else np.log(before), kind, "probs", True)

    figure, ax = _axes(ax, (5.0, 4.5))
    ax.grid(False)
    ax.axis("off")
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
    middle = corners.mean(axis=0)
    edges = [(corners[i] + corners[(i + 1) % 3]) / 2 for i in range(3)]
    for place in range(6):
        corner = corners[(place + 1) // 2 % 3]
        edge = edges[place // 2]
        ax.fill(*np.array([middle, corner, edge]).T, color=REGIONS[place], linewidth=0)
    start, stop = before @ corners, after @ corners
    ax.quiver(
        *start.T,
        *(stop - start).T,
        angles="xy",
        scale_units="xy",
        scale=1.0,
        width=0.004,
        color=SERIES[1],
    )
    ax.plot(*np.vstack([corners, corners[:1]]).T, color=INK, linewidth=1.2)
    for name, (x, y), where in zip(calibrator.classes_, corners, ("right", "left", "center")):
        ax.annotate(
            str(name), (x, y), ha=where, va="top" if y == 0.0 else "bottom", color=INK, fontsize=11
        )
    ax.set_aspect("equal")
    return figure
