"""Several methods on several datasets: fitted on calibration rows, measured on test rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import _native
from ._calibrator import Calibrator, calibrator
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


def _method(method: MethodKey | Calibrator, seed: int) -> str:
    """A method as the library reads it; one that is given by its key takes the seed, as on the command line."""
    if isinstance(method, str):
        method = calibrator(method)
        if "seed" in method._defaults:
            method.set_params(seed=seed)
    return method._method()


def compare(
    datasets: Mapping[str, tuple[Any, Any, Any, Any]],
    methods: Iterable[MethodKey | Calibrator] | None = None,
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
    methods : list of str or Calibrator, optional
        Keys or calibrators; uncalibrated scores come first whether they are asked for or not. None: those that the
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
    chosen: Any = DEFAULT_METHODS if methods is None else methods
    with shown("compare", verbose, progress) as report:
        found, text = _native.compare(
            sets,
            kind,
            [_method(method, seed) for method in chosen],
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
