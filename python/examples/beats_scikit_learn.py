"""A forest and a network that tell letters apart, calibrated by ordercal and by scikit-learn.

Each classifier is fitted to 8,000 letters; every calibration learns from the same 5,000 others, and is measured on
7,000 that nobody has seen. Only the calibration differs from row to row of the table.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from ordercal.sklearn import CalibratedClassifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

OURS = {"ordercal auto": "auto", "ordercal auto-free": "auto-free"}
THEIRS = ("sigmoid", "isotonic", "temperature")


def classifiers() -> dict[str, Any]:
    """What is calibrated."""
    network = MLPClassifier((100,), max_iter=60, random_state=0)
    return {
        "forest": RandomForestClassifier(100, random_state=0),
        "network": make_pipeline(StandardScaler(), network),
    }


def run(ours: dict[str, str] = OURS) -> dict[str, dict[str, tuple[float, int]]]:
    """Log loss and changed predictions on the test rows, by classifier and calibration; prints a table."""
    with np.load(Path(__file__).with_name("letters.npz")) as letters:
        order = np.random.default_rng(0).permutation(20_000)
        X, y = letters["features"][order].astype(np.float64), letters["labels"][order]
    train, calib, test = slice(0, 8_000), slice(8_000, 13_000), slice(13_000, 20_000)
    found: dict[str, dict[str, tuple[float, int]]] = {}
    for name, classifier in classifiers().items():
        classifier.fit(X[train], y[train])
        before = classifier.predict(X[test])
        rows = {"uncalibrated": classifier}
        for method in THEIRS:
            try:
                theirs = CalibratedClassifierCV(FrozenEstimator(classifier), method=method, ensemble=False)
                rows[f"scikit-learn {method}"] = theirs.fit(X[calib], y[calib])
            except ValueError:
                print(f"this scikit-learn has no method {method}")
        for label, key in ours.items():
            rows[label] = CalibratedClassifier(classifier, key, cv="prefit").fit(X[calib], y[calib])
        found[name] = {
            label: (log_loss(y[test], one.predict_proba(X[test])), int((one.predict(X[test]) != before).sum()))
            for label, one in rows.items()
        }
    width = max(map(len, found["forest"]))
    print(f"{'':{width}}" + "".join(f"{name:>12} {'changed':>8}" for name in found))
    for label in found["forest"]:
        cells = (found[name][label] for name in found)
        print(f"{label:{width}}" + "".join(f"{loss:12.4f} {changed:8}" for loss, changed in cells))
    return found


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    run()
