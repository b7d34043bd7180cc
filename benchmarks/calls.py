"""Calls of our own Python package, for `cargo measure bench --peers`: what a user waits for, conversion and checks included.

Requests and answers are those of peers.py. Arrays are in memory, as numpy's, before the clock starts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import ordercal
from serve import Work, arrays, mean_nll, serve


@cache
def probabilities(folder: str) -> np.ndarray:
    """The softmax of the logits, float32."""
    logits, _ = arrays(folder)
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def evaluate(folder: str, metric: str, kind: ordercal.Kind, **settings: object) -> Work:
    """`ordercal.evaluate`; `metric` is the one that is shown."""
    scores = probabilities(folder) if kind == "probs" else arrays(folder)[0]
    labels = arrays(folder)[1]
    return (
        lambda: ordercal.evaluate(scores, labels, kind=kind, **settings),
        lambda found: float(found[metric]),
    )


def fit(folder: str) -> Work:
    """Temperature scaling from probabilities."""
    probs, labels = probabilities(folder), arrays(folder)[1]
    return (
        lambda: ordercal.TemperatureScaling(kind="probs").fit(probs, labels),
        lambda fitted: fitted.report_.nll_after,
    )


def predict(
    folder: str, kind: ordercal.Kind, calibrator: type[ordercal.Calibrator] = ordercal.TemperatureScaling
) -> Work:
    """`predict_proba` of a calibrator, fitted to the first 5000 rows."""
    scores = probabilities(folder) if kind == "probs" else arrays(folder)[0]
    labels = arrays(folder)[1]
    fitted = calibrator(kind=kind).fit(scores[:5000], labels[:5000])
    return lambda: fitted.predict_proba(scores), lambda probs: mean_nll(probs, labels)


WORKS: dict[str, Callable[[str], Work]] = {
    "evaluate-ece": lambda folder: evaluate(folder, "ece", "probs", metrics=["ece"]),
    "evaluate-logits": lambda folder: evaluate(folder, "nll", "logits"),
    "evaluate-probs": lambda folder: evaluate(folder, "nll", "probs"),
    "bootstrap": lambda folder: evaluate(folder, "nll", "logits", bootstrap=1000),
    "fit-probs": fit,
    "predict-logits": lambda folder: predict(folder, "logits"),
    "predict-diag": lambda folder: predict(folder, "logits", ordercal.Diagonal),
    "predict-probs": lambda folder: predict(folder, "probs"),
}

if __name__ == "__main__":
    serve(WORKS)
