"""Calibrators as one affine map."""

from __future__ import annotations

from typing import Any

import numpy as np
import ordercal
import pytest
from conftest import Split
from ordercal import _native

AFFINE = {"uncalibrated", "ts", "vs", "ms-odir", "dir-odir"}


def softmax(logits: Any) -> Any:
    exps = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exps / exps.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("key", [key for key in _native.keys() if not key.startswith("auto")])
def test_scale_and_bias_give_what_the_calibrator_gives(key: Any, calib: Split, test: Split) -> None:
    fitted = ordercal.calibrator(key).fit(calib.scores, calib.labels)
    if key not in AFFINE:
        with pytest.raises(ordercal.OrdercalError, match="is not an affine map of the scores: use to_onnx or to_torch"):
            fitted.to_affine()
        return
    found = fitted.to_affine()
    assert found.bias.shape == (5,) and found.weight.shape in ((5,), (5, 5))
    # Within the range of the fit nothing is clamped.
    x = np.clip(test.scores, calib.scores.min(), calib.scores.max()).astype(np.float64)
    if found.input == "log-probs":
        x = np.log(softmax(x))
    logits = (x * found.weight if found.weight.ndim == 1 else x @ found.weight) + found.bias
    expected = fitted.predict_proba(np.clip(test.scores, calib.scores.min(), calib.scores.max()))
    np.testing.assert_allclose(softmax(logits), expected, atol=1e-5)
