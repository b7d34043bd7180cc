"""Figures are matplotlib's, and hold what they should."""

from __future__ import annotations

import io
import subprocess
import sys
from types import ModuleType
from typing import Any

import matplotlib
import numpy as np
import ordercal
import ordercal.plot
import pytest
from conftest import Split, overconfident
from matplotlib.figure import Figure


matplotlib.use("Agg")


def drawn(figure: Figure) -> bytes:
    assert isinstance(figure, Figure)
    target = io.BytesIO()
    figure.savefig(target, format="png")
    return target.getvalue()


@pytest.mark.parametrize("style", ["gap", "classic"])
def test_reliability(style: str, calib: Split, test: Split) -> None:
    est = ordercal.TemperatureScaling().fit(calib.scores, calib.labels)
    series = {"uncalibrated": test.scores, "ts": est.predict_logits(test.scores)}
    figure = ordercal.plot.reliability(series, test.labels, style=style)
    (ax,) = figure.axes
    labels = ax.get_legend_handles_labels()[1]
    assert len(labels) == 2 and labels[0].startswith("uncalibrated (error")
    found = ordercal.reliability(test.scores, test.labels, binning="equal-mass")
    line = next(one for one in ax.lines if str(one.get_label()).startswith("uncalibrated"))
    np.testing.assert_allclose(line.get_xdata(), found.confidence)
    np.testing.assert_allclose(line.get_ydata(), found.gap if style == "gap" else found.accuracy)
    assert drawn(figure)
    assert drawn(ordercal.plot.reliability(test.scores, test.labels, style=style))


def test_bands_are_what_chance_shows_of_a_calibrated_classifier() -> None:
    # Labels drawn from the probabilities: 95 % of the points lie in the band, up to chance.
    rng = np.random.default_rng(3)
    inside = []
    for _ in range(100):
        p = rng.uniform(0.5, 1.0, 2000)
        labels = (rng.uniform(size=2000) > p).astype(int)
        found = ordercal.reliability(np.column_stack([p, 1 - p]), labels, kind="probs", binning="equal-mass")
        low, high = found.consistency.T
        np.testing.assert_allclose((low + high) / 2, found.confidence, atol=0.01)
        within = (low <= found.accuracy) & (found.accuracy <= high)
        inside.append(within.mean())
        # The same as whether the interval of the accuracy has the confidence.
        wilson = (found.interval[:, 0] <= found.confidence) & (found.confidence <= found.interval[:, 1])
        assert np.array_equal(within, wilson)
    assert 0.935 < np.mean(inside) < 0.97
    figure = ordercal.plot.reliability(np.column_stack([p, 1 - p]), labels, kind="probs")
    (band,) = (one for one in figure.axes[0].collections if type(one).__name__ == "FillBetweenPolyCollection")
    drawn = band.get_paths()[0].vertices
    assert drawn[:, 1].max() == pytest.approx((found.confidence - low).max()) and drawn[:, 1].min() < 0


def test_figures_are_pyplots_and_a_notebook_shows_them_once(test: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib import pyplot

    pyplot.close("all")
    figure: Any = ordercal.plot.reliability(test.scores, test.labels)
    assert pyplot.get_fignums() == [figure.number] and pyplot.gcf() is figure
    shown: list[Any] = []
    notebook: Any = ModuleType("IPython.display")
    notebook.Image, notebook.display = (lambda data: data), shown.append
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", notebook)
    # The value of the cell that drew it: the notebook draws all open figures itself.
    figure._ipython_display_()
    assert not shown
    # In a later cell it is closed.
    pyplot.close(figure)
    figure._ipython_display_()
    assert len(shown) == 1 and shown[0].startswith(b"\x89PNG")


def test_plot_comes_with_the_package_and_matplotlib_when_it_is_needed() -> None:
    program = (
        "import sys, ordercal\n"
        "assert 'matplotlib' not in sys.modules\n"
        "assert ordercal.plot.reliability and 'matplotlib.pyplot' not in sys.modules\n"
        "try:\n    ordercal.plott\nexcept AttributeError as error:\n    assert 'plott' in str(error)\n"
        "else:\n    raise SystemExit(1)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_axes_of_ones_own(test: Split) -> None:
    figure = Figure()
    ax = figure.add_subplot()
    assert ordercal.plot.weighted(test.scores, test.labels, ax=ax) is figure
    assert len(ax.patches) == 15 and drawn(figure)


def test_transform(calib: Split) -> None:
    diag = ordercal.Diagonal().fit(calib.scores, calib.labels)
    ts = ordercal.TemperatureScaling().fit(calib.scores, calib.labels)
    figure = ordercal.plot.transform({"diag": diag, "ts": ts})
    (ax,) = figure.axes
    lines = {line.get_label(): np.asarray(line.get_ydata()) for line in ax.lines}
    assert set(lines) == {"unchanged", "diag", "ts"}
    assert (np.diff(lines["diag"]) > 0).all() and drawn(figure)
    assert drawn(ordercal.plot.transform(ts, low=-1.0, high=1.0))
    oi = ordercal.OrderInvariant().fit(calib.scores, calib.labels)
    with pytest.raises(ordercal.OrdercalError, match="no single function"):
        ordercal.plot.transform(oi)


def test_simplex(calib: Split) -> None:
    data = overconfident(300, 3, 4)
    est = ordercal.OrderPreserving().fit(data.scores, data.labels)
    assert drawn(ordercal.plot.simplex(est))
    probs = np.exp(data.scores.astype(float))
    probs /= probs.sum(axis=1, keepdims=True)
    assert drawn(ordercal.plot.simplex(ordercal.Beta(kind="probs").fit(probs, data.labels)))
    other = ordercal.TemperatureScaling().fit(calib.scores, calib.labels)
    with pytest.raises(ordercal.OrdercalError, match="3 classes, not 5"):
        ordercal.plot.simplex(other)


def test_mistakes(test: Split) -> None:
    with pytest.raises(ordercal.OrdercalError, match="there is no style"):
        ordercal.plot.reliability(test.scores, test.labels, style="odd")
    with pytest.raises(ordercal.OrdercalError, match="nothing to draw"):
        ordercal.plot.reliability({}, test.labels)
