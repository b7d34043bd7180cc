"""Several methods on several datasets: fitted on calibration rows, measured on test rows."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._calibrator import Calibrator, calibrator
from ._keep_order import class_probabilities, clone
from ._errors import OrdercalError, OrdercalTypeError
from ._inputs import Rows, align, read_rows, read_scores
from ._metrics import SEED, _keys
from ._progress import shown
from ._types import Kind, MethodKey, MetricKey, Search

#: What is compared, what is measured, and on how many resamples, if nobody says: as on the command line.
DEFAULT_METHODS, DEFAULT_METRICS, DEFAULT_BOOTSTRAP = _native.comparison_defaults()


@dataclass(frozen=True)
class Standing:
    """How a method did among the others.

    Attributes
    ----------
    method : str
        Its name.
    win_rate : float
        The share of the other methods that it is strictly better than, on average over datasets.
    win_rate_interval : (float, float)
        Its 95 % interval.
    mean_rank : float
        Its rank, on average over datasets: 1 is the best, and equal values share their places.
    mean_rank_interval : (float, float)
        Its 95 % interval.
    """

    method: str
    win_rate: float
    win_rate_interval: tuple[float, float]
    mean_rank: float
    mean_rank_interval: tuple[float, float]


class Comparison(dict[str, Any]):
    """What `ordercal compare --json` gives: `datasets`, `average_relative_error` and `ranks`.

    As text it is what the command prints: a table for each metric with ranks and marks of what a paired
    bootstrap cannot tell from the best, changed predictions, and the verdict. A number that is not
    finite is None.
    """

    _forms: dict[str, Any] = {}

    def __str__(self) -> str:
        return str(self._forms["text"])

    def _repr_html_(self) -> str:
        return self.to_html()

    @property
    def marks(self) -> dict[str, dict[str, dict[str, bool]]]:
        """By metric, dataset (and `average_relative_error`) and method: whether a paired bootstrap cannot tell it from the best.

        All are False without a bootstrap.
        """
        found: dict[str, dict[str, dict[str, bool]]] = self._forms["marks"]
        return found

    def to_latex(self) -> str:
        """The tables in LaTeX, in the paper's form; they need the package `booktabs`."""
        return str(self._forms["latex"])

    def to_html(self) -> str:
        """The tables in HTML, as a notebook shows them; `ordercal compare --out` writes a report with figures."""
        return str(self._forms["html"])

    def _errors(self, metric: str) -> tuple[list[str], NDArray[np.float64]]:
        """The methods, and what they are ranked by: an error for each dataset and method, the less the better."""
        methods = [row["method"] for row in self["datasets"][0]["methods"]]
        if metric not in self["ranks"]:
            raise OrdercalError(f"`{metric}` was not compared; {', '.join(self['ranks'])} were")
        # Ranks know which values are better, also where that is neither the largest nor the smallest.
        ranks = [[self["ranks"][metric][d["name"]][method] for method in methods] for d in self["datasets"]]
        return methods, np.array(ranks, dtype=np.float64)

    def leaderboard(
        self,
        metric: MetricKey = "nll",
        *,
        blocks: Mapping[str, str] | None = None,
        resamples: int = 1000,
        seed: int = SEED,
    ) -> list[Standing]:
        """The methods by their win rate, as CalArena has it, with mean ranks.

        On a dataset, the win rate of a method is the share of the other methods that it is strictly better than. Intervals
        are of a bootstrap over blocks of datasets, by default all with the same name up to the first `/`, as several models
        of one dataset are not independent.

        Parameters
        ----------
        metric : str
            One of the metrics that were compared.
        blocks : dict, optional
            The block of each dataset.
        resamples : int
            How often blocks are drawn.
        seed : int
            The seed of the draws.

        Returns
        -------
        list of Standing
            The best first.
        """
        methods, ranks = self._errors(metric)
        names = [dataset["name"] for dataset in self["datasets"]]
        better = (ranks[:, :, None] < ranks[:, None, :]).sum(axis=2)
        wins = better / max(len(methods) - 1, 1)
        # Those with the same value share the places that they take.
        equal = (ranks[:, :, None] == ranks[:, None, :]).sum(axis=2)
        places = len(methods) - better - (equal - 1) / 2.0
        block = [name.split("/")[0] if blocks is None else blocks[name] for name in names]
        members = [np.flatnonzero([one == other for one in block]) for other in dict.fromkeys(block)]
        sums = np.array([[table[rows].sum(axis=0) for table in (wins, places)] for rows in members])
        sizes = np.array([len(rows) for rows in members])
        drawn = np.random.default_rng(seed).integers(len(members), size=(resamples, len(members)))
        means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)[:, None, None]
        low, high = np.percentile(means, [2.5, 97.5], axis=0)
        standings = [
            Standing(
                method=name,
                win_rate=float(wins[:, place].mean()),
                win_rate_interval=(float(low[0, place]), float(high[0, place])),
                mean_rank=float(places[:, place].mean()),
                mean_rank_interval=(float(low[1, place]), float(high[1, place])),
            )
            for place, name in enumerate(methods)
        ]
        return sorted(standings, key=lambda one: -one.win_rate)

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


def _named(methods: list[Any], seed: int) -> tuple[list[str], list[tuple[str, Any]]]:
    """Methods as the library reads them, and objects by name: someone's own, and further settings of a method."""
    own: dict[str, str] = {}
    external = []
    for method in methods:
        if isinstance(method, tuple):
            external.append(method)
            continue
        table = _method(method, seed)
        key = json.loads(table)["method"]
        if own.setdefault(key, table) != table:
            external.append((repr(method), method))
    return list(own.values()), external


def _external(
    name: str, estimator: Any, sets: list[tuple[str, Rows, Rows]], kind: Kind
) -> list[tuple[str, bool, NDArray[np.float64], float]]:
    """Fits someone's calibrator to every dataset: its name, whether it keeps the order, what it says about the test rows,
    and how long the fit took."""
    if isinstance(estimator, Mapping):
        missing = [one[0] for one in sets if one[0] not in estimator]
        if missing:
            raise OrdercalError(f"`{name}` has no probabilities for the test rows of {', '.join(missing)}")
        given = [np.asarray(read_scores(estimator[one[0]], "probs")[0], dtype=np.float64) for one in sets]
        return [(str(name), False, probs, 0.0) for probs in given]
    if not (hasattr(estimator, "fit") and hasattr(estimator, "predict_proba")):
        raise OrdercalTypeError(f"`{name}` needs the methods `fit` and `predict_proba`; {type(estimator).__name__} has not both")
    results = []
    fitted = estimator
    for _, calib, test in sets:
        fitted = clone(estimator)
        if isinstance(fitted, Calibrator):
            fitted.set_params(kind=kind)
        start = time.perf_counter()
        fitted.fit(calib.scores, calib.labels)
        seconds = time.perf_counter() - start
        results.append((class_probabilities(fitted, test.scores, test.scores.shape[1]), seconds))
    keeps_order = bool(getattr(fitted, "order_preserving_", False))
    return [(str(name), keeps_order, probs, seconds) for probs, seconds in results]


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
        (`KeepOrder` makes one order-preserving; it is fitted as a copy, without a search), or with a dict of the
        probabilities of the test rows of each dataset. Further settings of a method are named as Python writes them, or by
        `("name", calibrator)`, and not searched. Uncalibrated scores come first whether they are asked for or not. None:
        those that the command compares.
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
        calib, names, columns = read_rows(calib_scores, calib_labels, kind)
        array, test_columns = read_scores(test_scores, kind)
        # Names stand for the same columns in both, also if some of them do not occur among the test rows.
        classes = None if names.tolist() == list(range(len(names))) else names
        test, _, _ = read_rows(align(array, test_columns, columns), test_labels, kind, None, classes)
        sets.append((str(name), calib, test))
    asked: list[Any] = list(DEFAULT_METHODS if methods is None else methods)
    own, named = _named(asked, seed)
    external = [_external(name, estimator, sets, kind) for name, estimator in named]
    given = [(*one, [results[place] for results in external]) for place, one in enumerate(sets)]
    with shown("compare", verbose, progress) as report:
        found, forms = _native.compare(
            given,
            own,
            list(dict.fromkeys(DEFAULT_METRICS if metrics is None else _keys(metrics) or [])),
            bins,
            search,
            folds,
            bootstrap,
            seed,
            report,
        )
    comparison = Comparison(json.loads(found))
    comparison._forms = json.loads(forms)
    return comparison
