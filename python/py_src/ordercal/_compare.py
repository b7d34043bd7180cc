"""Several methods on several datasets: fitted on calibration rows, measured on test rows."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._calibrator import Calibrator, calibrator
from ._keep_order import class_probabilities, clone
from ._errors import OrdercalTypeError
from ._inputs import align, read_labels, read_scores
from ._metrics import SEED, _keys
from ._progress import shown
from ._types import Kind, MethodKey, MetricKey, Search

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

    def to_pandas(self) -> Any:
        """A data frame with a row for each dataset, method and metric.

        Its columns are `dataset`, `method`, `order_preserving`, `changed_predictions`, `metric` and `value`; it needs
        pandas.
        """
        import pandas

        rows = [
            {
                "dataset": dataset["name"],
                "method": method["method"],
                "order_preserving": method["order_preserving"],
                "changed_predictions": method["changed_predictions"],
                "metric": metric,
                "value": np.nan if value is None else value,
            }
            for dataset in self["datasets"]
            for method in dataset["methods"]
            for metric, value in method["metrics"].items()
        ]
        return pandas.DataFrame(rows)


def _method(method: MethodKey | Calibrator, seed: int) -> str:
    """A method as the library reads it; one that is given by its key takes the seed, as on the command line."""
    if isinstance(method, str):
        method = calibrator(method)
        if "seed" in method._defaults:
            method.set_params(seed=seed)
    return method._method()


def _external(name: str, estimator: Any, sets: list[Any]) -> tuple[str, bool, list[tuple[NDArray[np.float64], float]]]:
    """Fits someone's calibrator to every dataset: what it says about the test rows, and how long the fit took."""
    if not (hasattr(estimator, "fit") and hasattr(estimator, "predict_proba")):
        raise OrdercalTypeError(f"`{name}` needs the methods `fit` and `predict_proba`; {type(estimator).__name__} has not both")
    results = []
    fitted = estimator
    for _, calib, calib_indices, test, _ in sets:
        fitted = clone(estimator)
        start = time.perf_counter()
        fitted.fit(calib, calib_indices)
        seconds = time.perf_counter() - start
        results.append((class_probabilities(fitted, test, test.shape[1]), seconds))
    return str(name), bool(getattr(fitted, "order_preserving_", False)), results


def compare(
    datasets: Mapping[str, tuple[Any, Any, Any, Any]],
    methods: Iterable[MethodKey | Calibrator | tuple[str, Any]] | None = None,
    *,
    metrics: MetricKey | Iterable[MetricKey] | None = None,
    kind: Kind = "logits",
    search: Search = "none",
    folds: int | None = None,
    bins: int = 15,
    bootstrap: int = DEFAULT_BOOTSTRAP,
    seed: int = SEED,
    progress: Callable[[int, int, float], object] | None = None,
    verbose: bool | None = None,
) -> Comparison:
    """Fits methods to each dataset, and measures them on rows that they have not seen, as `ordercal compare` does.

    Ctrl-C ends it at the next step of a fit.

    Parameters
    ----------
    datasets : dict
        `name: (calib_scores, calib_labels, test_scores, test_labels)`, each as in `Calibrator.fit`.
    methods : list of str, Calibrator or (str, object), optional
        Keys, calibrators, or a name with any object that has `fit(scores, labels)` and `predict_proba(scores)`
        (`KeepOrder` makes one order-preserving; it is fitted as a copy, without a search). Uncalibrated scores come first whether they are asked for or not. None: those that the
        command compares.
    metrics : str or list of str, optional
        The keys of the metrics; None: those of the command.
    kind : {"logits", "log-probs", "probs"}
        What the scores are.
    search : {"none", "quick", "paper"}
        How hyperparameters are chosen by cross validation.
    folds : int, optional
        With how many folds; None: as many as the search has.
    bins : int
        The number of bins of the binned metrics.
    bootstrap : int
        The number of resamples behind the marks in the text, 0 for none.
    seed : int
        The seed of everything random.
    progress : callable, optional
        Called as `progress(iteration, of, loss)` during every fit; what it raises ends the comparison.
    verbose : bool, optional
        Whether to draw a bar for what takes more than two seconds. None: in a terminal and in a notebook.

    Returns
    -------
    Comparison
    """
    sets = []
    for name, (calib_scores, calib_labels, test_scores, test_labels) in datasets.items():
        calib, columns = read_scores(calib_scores, kind)
        calib_indices, names = read_labels(calib_labels, calib.shape[1], columns)
        test, test_columns = read_scores(test_scores, kind)
        test = align(test, test_columns, columns)
        # Names stand for the same columns in both, also if some of them do not occur among the test rows.
        classes = None if names.tolist() == list(range(calib.shape[1])) else names
        test_indices, _ = read_labels(test_labels, test.shape[1], None, classes)
        sets.append((str(name), calib, calib_indices, test, test_indices))
    asked: list[Any] = list(DEFAULT_METHODS if methods is None else methods)
    own = [_method(method, seed) for method in asked if not isinstance(method, tuple)]
    external = [_external(method[0], method[1], sets) for method in asked if isinstance(method, tuple)]
    with shown("compare", verbose, progress) as report:
        found, text = _native.compare(
            sets,
            kind,
            own,
            external,
            list(dict.fromkeys(DEFAULT_METRICS if metrics is None else _keys(metrics) or [])),
            bins,
            search,
            folds,
            bootstrap,
            seed,
            report,
        )
    comparison = Comparison(json.loads(found))
    comparison._text = text
    return comparison
