"""Several methods on several datasets: fitted on calibration rows, measured on test rows."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from . import _native
from ._calibrator import Calibrator, calibrator
from ._inputs import read_scores
from ._metrics import _keys, evaluate

#: What is compared if nobody says.
DEFAULT_METHODS = ("ts", "ets", "diag", "oi", "op", "svs", "sms", "auto")
DEFAULT_METRICS = ("nll", "ece", "brier", "accuracy")


class Comparison(dict[str, Any]):
    """What `ordercal compare --json` gives: `datasets`, `average_relative_error` and `ranks`.

    As text it is a table of the average relative errors.
    """

    def __str__(self) -> str:
        errors: dict[str, dict[str, float]] = self["average_relative_error"]
        methods = list(next(iter(errors.values()), {}))
        width = max([len(m) for m in methods] + [6])
        lines = ["method".ljust(width) + "".join(key.rjust(16) for key in errors)]
        for method in methods:
            lines.append(method.ljust(width) + "".join(f"{errors[key][method]:16.4f}" for key in errors))
        return "\n".join(lines)


def _name(method: str | Calibrator) -> str:
    if isinstance(method, str):
        return method
    return method._key + ("+order" if getattr(method, "keep_order", False) else "")


def compare(
    datasets: Mapping[str, tuple[Any, Any, Any, Any]],
    methods: Iterable[str | Calibrator] | None = None,
    *,
    metrics: str | Iterable[str] | None = None,
    kind: str = "logits",
    bins: int = 15,
) -> Comparison:
    """Fits methods to each dataset `name: (calib_scores, calib_labels, test_scores, test_labels)`.

    Methods are keys or calibrators; uncalibrated scores come first whether they are asked for or not.
    """
    asked = list(DEFAULT_METHODS if methods is None else methods)
    wanted: list[str | Calibrator] = ["uncalibrated"]
    wanted += [method for method in asked if _name(method) != "uncalibrated"]
    keys = _keys(metrics) or list(DEFAULT_METRICS)
    higher = dict(_native.metrics())
    found = []
    for name, (calib_scores, calib_labels, test_scores, test_labels) in datasets.items():
        test, _ = read_scores(test_scores)
        rows = []
        for method in wanted:
            if isinstance(method, str):
                fresh = calibrator(method, kind=kind)
            else:
                fresh = type(method)(**{**method.get_params(), "kind": kind})
            start = time.perf_counter()
            fresh.fit(calib_scores, calib_labels)
            seconds = time.perf_counter() - start
            probs = fresh.predict_proba(test_scores, dtype=np.float64)
            names = None if fresh.model_.class_names is None else fresh.classes_
            values = evaluate(probs, test_labels, kind="probs", classes=names, metrics=keys, bins=bins)
            rows.append(
                {
                    "method": _name(method),
                    "metrics": dict(values),
                    "order_preserving": fresh.order_preserving_,
                    "changed_predictions": int((probs.argmax(axis=1) != test.argmax(axis=1)).sum()),
                    "fit_seconds": seconds,
                }
            )
        calib, _ = read_scores(calib_scores)
        found.append(
            {
                "name": name,
                "n_calib": calib.shape[0],
                "n_test": test.shape[0],
                "classes": test.shape[1],
                "methods": rows,
            }
        )
    labels = [_name(method) for method in wanted]
    errors, ranks = {}, {}
    for key in keys:
        table = [[row["metrics"][key] for row in entry["methods"]] for entry in found]
        errors[key] = dict(zip(labels, _native.average_relative_error(table, 0)))
        ranks[key] = {
            entry["name"]: dict(zip(labels, _native.ranks(values, higher[key])))
            for entry, values in zip(found, table)
        }
    return Comparison(datasets=found, average_relative_error=errors, ranks=ranks)
