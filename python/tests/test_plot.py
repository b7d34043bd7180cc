"""Figures are matplotlib's, and hold what they should."""

from __future__ import annotations

import io

import numpy as np
import ordercal
import ordercal.plot
import pytest
from conftest import Split, overconfident
from matplotlib.figure import Figure


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
