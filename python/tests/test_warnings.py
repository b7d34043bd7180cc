"""What is valid but probably not meant is a warning."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import ordercal
import pytest
from conftest import Split


def softmax(scores: Any) -> Any:
    probs = np.exp(scores.astype(np.float64) - scores.max(axis=1, keepdims=True))
    return probs / probs.sum(axis=1, keepdims=True)


def test_nothing_to_say(calib: Split, test: Split) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = ordercal.TemperatureScaling().fit(calib.scores, calib.labels)
        ordercal.evaluate(fitted.predict_proba(test.scores), test.labels, kind="probs")
        data = {"x": (calib.scores, calib.labels, test.scores, test.labels)}
        ordercal.compare(data, methods=["ts"], metrics=["nll"], bootstrap=0)


def test_probabilities_as_logits(calib: Split, test: Split) -> None:
    probs = softmax(calib.scores)
    with pytest.warns(UserWarning, match='look like probabilities.*kind="probs"') as caught:
        ordercal.TemperatureScaling().fit(probs, calib.labels)
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.warns(UserWarning, match="look like probabilities"):
        ordercal.evaluate(probs, calib.labels)
    with pytest.raises(ordercal.OrdercalError, match='kind="logits"'):
        ordercal.TemperatureScaling(kind="probs").fit(calib.scores, calib.labels)


def test_labels(calib: Split) -> None:
    with pytest.warns(UserWarning, match="shifted by one"):
        ordercal.evaluate(calib.scores, (calib.scores.argmax(axis=1) + 1) % 5)
    with pytest.warns(UserWarning, match="only 20 rows"):
        ordercal.TemperatureScaling().fit(calib.scores[:20], calib.labels[:20])
    with pytest.warns(UserWarning, match="class 4 is never the label"):
        ordercal.TemperatureScaling().fit(calib.scores, np.minimum(calib.labels, 3))
    names = np.array(list("abcde"))[calib.labels]
    with pytest.warns(UserWarning, match="taken in sorted order"):
        ordercal.TemperatureScaling().fit(calib.scores, names)


def test_the_same_rows(calib: Split) -> None:
    data = {"x": (calib.scores, calib.labels, calib.scores, calib.labels)}
    with pytest.warns(UserWarning, match="x, test: the model was fitted on these very rows"):
        ordercal.compare(data, methods=["ts"], metrics=["nll"], bootstrap=0)


def test_offsets_cost_no_digits(calib: Split) -> None:
    scores = calib.scores.astype(np.float64)
    scores = np.round(scores * 1024) / 1024
    expected = ordercal.evaluate(scores, calib.labels)["nll"]
    for offset in (-1e3, 1e8, -1e12):
        assert ordercal.evaluate(scores + offset, calib.labels)["nll"] == pytest.approx(expected, rel=1e-6)
