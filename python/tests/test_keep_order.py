"""Anyone's calibrator: projected onto the order of the scores, and compared with the library's."""

from __future__ import annotations

import numpy as np
import pytest

import ordercal
from conftest import overconfident


class Frequencies:
    """How often each class occurred, whatever the scores: it changes almost every prediction."""

    def fit(self, scores, labels, sample_weight=None):
        self.classes_ = np.unique(labels)
        counts = np.bincount(labels, weights=sample_weight, minlength=self.classes_.max() + 1)
        self.share_ = counts[self.classes_] / counts.sum()
        return self

    def predict_proba(self, scores):
        return np.tile(self.share_, (len(scores), 1))


def test_every_ranking_is_kept_ties_included():
    logits, labels = overconfident(500, 6, 3)
    logits[:, 4] = logits[:, 2]
    labels = labels % 5  # the last class never occurs
    kept = ordercal.KeepOrder(Frequencies()).fit(logits, labels)
    for dtype in (np.float32, np.float64):
        probs = kept.predict_proba(logits.astype(np.float32), dtype=dtype)
        assert probs.dtype == dtype
        assert np.allclose(probs.sum(axis=1), 1.0, atol=1e-5)
        above = logits[:, :, None].astype(np.float32) > logits[:, None, :].astype(np.float32)
        assert np.all((probs[:, :, None] > probs[:, None, :]) == above)
    assert np.array_equal(kept.predict(logits), logits.argmax(axis=1))


def test_it_is_what_the_library_projects():
    logits, labels = overconfident(400, 5, 4)
    inner = ordercal.StructuredMatrixScaling()
    kept = ordercal.KeepOrder(inner).fit(logits, labels)
    own = ordercal.StructuredMatrixScaling(keep_order=True).fit(logits, labels)
    assert np.abs(kept.predict_proba(logits) - own.predict_proba(logits)).max() < 1e-6


def test_weights_and_parameters_reach_the_estimator():
    logits, labels = overconfident(200, 4, 5)
    weights = np.arange(200.0)
    kept = ordercal.KeepOrder(Frequencies()).fit(logits, labels, sample_weight=weights)
    assert np.allclose(kept.estimator_.share_, np.bincount(labels, weights=weights) / weights.sum())
    assert kept.get_params() == {"estimator": kept.estimator, "kind": "logits"}
    with pytest.raises(ordercal.OrdercalError, match="no keyword `depth`"):
        kept.set_params(depth=3)
    with pytest.raises(ordercal.NotFittedError):
        ordercal.KeepOrder(Frequencies()).predict_proba(logits)


def test_a_comparison_takes_anyones_calibrator():
    logits, labels = overconfident(600, 4, 6)
    data = {"set": (logits[:300], labels[:300], logits[300:], labels[300:])}
    mine = Frequencies()
    methods = ["ts", ("mine", mine), ("mine+order", ordercal.KeepOrder(mine))]
    found = ordercal.compare(data, methods, metrics=["nll", "ece"], bootstrap=20)
    rows = {row["method"]: row for row in found["datasets"][0]["methods"]}
    assert list(rows) == ["uncalibrated", "ts", "mine", "mine+order"]
    assert rows["mine"]["changed_predictions"] > 0 and not rows["mine"]["order_preserving"]
    assert rows["mine+order"]["changed_predictions"] == 0 and rows["mine+order"]["order_preserving"]
    assert "mine+order" in str(found)
    expected = ordercal.evaluate(mine.fit(logits[:300], labels[:300]).predict_proba(logits[300:]), labels[300:], kind="probs", metrics="nll")
    assert rows["mine"]["metrics"]["nll"] == pytest.approx(expected["nll"])
    assert not hasattr(ordercal.KeepOrder(Frequencies()), "estimator_")
    with pytest.raises(TypeError, match="needs the methods"):
        ordercal.compare(data, [("nothing", object())])
