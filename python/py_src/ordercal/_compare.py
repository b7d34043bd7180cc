"""Several methods on several datasets: fitted on calibration rows, measured on test rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from . import _native
from ._calibrator import Calibrator, calibrator
from ._inputs import read_labels, read_scores
from ._metrics import _keys

#: What is compared, what is measured, and on how many resamples, if nobody says: as on the command line.
DEFAULT_METHODS, DEFAULT_METRICS, DEFAULT_BOOTSTRAP = _native.comparison_defaults()


class Comparison(dict[str, Any]):
    """What `ordercal compare --json` gives: `datasets`, `average_relative_error` and `ranks`.

    As text it is what the command prints: a table for each metric with ranks and marks of what a paired
    bootstrap cannot tell from the best, changed predictions, and the verdict. A number that is not
    finite is None.
    """

    _text: str = ""

    def __str__(self) -> str:
        return self._text


def _method(method: str | Calibrator, seed: int) -> str:
    """A method as the library reads it; one that is given by its key takes the seed, as on the command line."""
    if isinstance(method, str):
        method = calibrator(method)
        if "seed" in method._defaults:
            method.set_params(seed=seed)
    return method._method()


def compare(
    datasets: Mapping[str, tuple[Any, Any, Any, Any]],
    methods: Iterable[str | Calibrator] | None = None,
    *,
    metrics: str | Iterable[str] | None = None,
    kind: str = "logits",
    search: str = "none",
    folds: int | None = None,
    bins: int = 15,
    bootstrap: int = DEFAULT_BOOTSTRAP,
    seed: int = 1357,
) -> Comparison:
    """Fits methods to each dataset `name: (calib_scores, calib_labels, test_scores, test_labels)`.

    Methods are keys or calibrators; uncalibrated scores come first whether they are asked for or not. `search`
    says how hyperparameters are chosen by cross validation: "none", "quick" or "paper", with `folds` folds.
    `bootstrap` is the number of resamples behind the marks in the text, 0 for none. All of it, and what is
    done if nothing is said, is as in `ordercal compare`. Ctrl-C ends it at the next step of a fit.
    """
    sets = []
    for name, (calib_scores, calib_labels, test_scores, test_labels) in datasets.items():
        calib, columns = read_scores(calib_scores)
        calib_indices, names = read_labels(calib_labels, calib.shape[1], columns)
        test, _ = read_scores(test_scores)
        # Names stand for the same columns in both, also if some of them do not occur among the test rows.
        classes = None if names.dtype.kind in "iu" else names
        test_indices, _ = read_labels(test_labels, test.shape[1], None, classes)
        sets.append((str(name), calib, calib_indices, test, test_indices))
    found, text = _native.compare(
        sets,
        kind,
        [_method(method, seed) for method in (DEFAULT_METHODS if methods is None else methods)],
        list(dict.fromkeys(DEFAULT_METRICS if metrics is None else _keys(metrics) or [])),
        bins,
        search,
        folds,
        bootstrap,
        seed,
    )
    comparison = Comparison(json.loads(found))
    comparison._text = text
    return comparison
