"""Decisions with a guarantee: thresholds and prediction sets; and which part of the NLL is miscalibration."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._calibrator import Calibrator, calibrator
from ._errors import OrdercalError
from ._inputs import read_rows, read_scores
from ._metrics import SEED
from ._progress import shown
from ._types import Kind, MethodKey

SetMethod = Literal["lac", "aps", "raps"]


@dataclass(frozen=True)
class Threshold:
    """A confidence and what is promised above it.

    Attributes
    ----------
    threshold : float
        Take predictions with at least this confidence; infinite if nothing can be promised.
    coverage : float
        The share of the labelled rows that are taken.
    coverage_interval : (float, float)
        Its two-sided Clopper–Pearson interval.
    error : float
        The share of wrong predictions among the taken rows.
    error_bound : float
        The Clopper–Pearson upper bound of the error rate, at most `max_error`; 1 if nothing can be promised.
    rows, taken : int
        The number of labelled rows, and of those that are taken.
    reason : str
        Why nothing can be promised, with what would help; empty if something is.
    """

    threshold: float
    coverage: float
    coverage_interval: tuple[float, float]
    error: float
    error_bound: float
    rows: int
    taken: int
    reason: str

    @property
    def promised(self) -> bool:
        """Whether there is a threshold with the promise."""
        return not self.reason


def threshold(
    scores: Any,
    labels: Any,
    *,
    max_error: float = 0.02,
    confidence: float = 0.95,
    kind: Kind = "logits",
    classes: Any = None,
) -> Threshold:
    """The lowest confidence above which at most `max_error` of the predictions are wrong, with a guarantee.

    Thresholds of a fixed grid are tested from the highest to the lowest by the exact binomial test, and the last one
    before the first failure is taken (Learn-then-Test with fixed-sequence testing). With probability `confidence` over
    the draw of the labelled rows, the error rate of new rows at or above the threshold is at most `max_error`.

    Parameters
    ----------
    scores : array of shape (n, k), or (n,) for two classes
        Scores that are drawn like those to come; not those that the classifier or calibrator was fitted to.
    labels : array of shape (n,)
        The true classes: column numbers, or names (see `Calibrator.fit`).
    max_error : float
        The largest share of wrong predictions at or above the threshold.
    confidence : float
        How sure the promise is.
    kind : {"logits", "log-probs", "probs"}
        What the scores are: confidence is the largest probability of a row, so use calibrated scores here and later.
    classes : array of shape (k,), optional
        The class of each column.

    Returns
    -------
    Threshold

    Examples
    --------
    >>> import numpy as np, ordercal
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(0.5, 1.0, 5000)
    >>> labels = (rng.uniform(size=5000) > p).astype(int)
    >>> found = ordercal.threshold(np.column_stack([p, 1 - p]), labels, max_error=0.1, kind="probs")
    >>> found.promised, found.error_bound <= 0.1
    (True, True)
    """
    rows, _, _ = read_rows(scores, labels, kind, None, classes)
    found = json.loads(_native.threshold(rows, max_error, confidence))
    # JSON has no infinity.
    if found["threshold"] is None:
        found["threshold"] = math.inf
    found["coverage_interval"] = tuple(found["coverage_interval"])
    return Threshold(**found)


@dataclass(frozen=True)
class SetReport:
    """How prediction sets did on labelled rows.

    Attributes
    ----------
    coverage : float
        The share of rows whose set contains the label.
    interval : (float, float)
        Its 95 % Clopper–Pearson interval.
    mean_size : float
        The mean number of classes in a set.
    sizes : array of shape (k + 1,)
        How many sets have 0, 1, … k classes.
    class_coverage : array of shape (k,)
        The share of each class's rows whose set contains it; NaN for a class without rows.
    """

    coverage: float
    interval: tuple[float, float]
    mean_size: float
    sizes: NDArray[np.int64]
    class_coverage: NDArray[np.float64]


@dataclass(frozen=True)
class PredictionSets:
    """Sets of classes that contain the label as often as asked; made by `prediction_sets`.

    Attributes
    ----------
    quantile : float
        The largest score that a set admits; infinite if there were too few rows.
    coverage : float
        The share of rows whose set is to contain the label.
    method : str
        How classes are scored.
    """

    quantile: float
    coverage: float
    method: SetMethod
    kind: Kind
    _sets: _native.Sets = field(repr=False, compare=False)

    def sets(self, scores: Any, *, seed: int = SEED) -> NDArray[np.bool_]:
        """The sets of new rows: which classes are in.

        Parameters
        ----------
        scores : array of shape (n, k), or (n,) for two classes
            Scores of the same kind and classifier.
        seed : int
            The seed of the random numbers, one for each row in order, of randomised methods.

        Returns
        -------
        array of bool of shape (n, k)
        """
        array, _ = read_scores(scores, self.kind)
        found: NDArray[np.bool_] = self._sets.sets(array, self.kind, seed)
        return found

    def evaluate(self, scores: Any, labels: Any, *, classes: Any = None, seed: int = SEED) -> SetReport:
        """How the sets of labelled rows do, which should not be those that they were learned from.

        Parameters
        ----------
        scores, labels, classes
            As in `prediction_sets`.
        seed : int
            As in `sets`.

        Returns
        -------
        SetReport
        """
        rows, _, _ = read_rows(scores, labels, self.kind, None, classes)
        found = json.loads(self._sets.evaluate(rows, seed))
        return SetReport(
            coverage=found["coverage"],
            interval=tuple(found["interval"]),
            mean_size=found["mean_size"],
            sizes=np.array(found["sizes"], dtype=np.int64),
            class_coverage=np.array(found["class_coverage"], dtype=np.float64),
        )


def prediction_sets(
    scores: Any,
    labels: Any,
    *,
    coverage: float = 0.9,
    method: SetMethod = "aps",
    randomised: bool = True,
    free: int = 5,
    penalty: float = 0.01,
    allow_empty: bool = False,
    kind: Kind = "logits",
    classes: Any = None,
    seed: int = SEED,
) -> PredictionSets:
    """Learns sets of classes that contain the label as often as asked: split conformal prediction.

    A new row's label is in its set with a probability of at least `coverage`, for any classifier, if the rows are drawn
    from one distribution. The promise is about the average over rows, not about each class or each kind of row.

    Parameters
    ----------
    scores : array of shape (n, k), or (n,) for two classes
        Scores that the classifier or calibrator was not fitted to.
    labels : array of shape (n,)
        The true classes: column numbers, or names (see `Calibrator.fit`).
    coverage : float
        The share of rows whose set is to contain the label.
    method : {"lac", "aps", "raps"}
        How badly a class fits a row: "lac" 1 − p, which gives the smallest sets on average; "aps" the sum of the
        probabilities down to its own, which gives larger sets for harder rows; "raps" the same plus `penalty` for each
        class beyond the first `free`, which shortens long sets.
    randomised : bool
        Whether "aps" and "raps" count a random part of the class's own probability. Otherwise they count all of it, and
        cover more often than asked, with larger sets.
    free, penalty : int, float
        The settings of "raps".
    allow_empty : bool
        Whether a set may be empty; if not, the most probable class is always in it.
    kind : {"logits", "log-probs", "probs"}
        What the scores are.
    classes : array of shape (k,), optional
        The class of each column.
    seed : int
        The seed of the random numbers.

    Returns
    -------
    PredictionSets

    Examples
    --------
    >>> import numpy as np, ordercal
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(3000, 4))
    >>> labels = np.array([rng.choice(4, p=p) for p in np.exp(logits) / np.exp(logits).sum(1, keepdims=True)])
    >>> sets = ordercal.prediction_sets(logits[:1500], labels[:1500], coverage=0.9, method="lac")
    >>> 0.87 < sets.evaluate(logits[1500:], labels[1500:]).coverage < 0.93
    True
    """
    methods: dict[str, dict[str, Any]] = {
        "lac": {},
        "aps": {"randomised": randomised},
        "raps": {"randomised": randomised, "free": free, "penalty": penalty},
    }
    if method not in methods:
        raise OrdercalError(f"there is no method `{method}` for prediction sets; there are {', '.join(methods)}")
    rows, _, _ = read_rows(scores, labels, kind, None, classes)
    settings = json.dumps({"method": method, **methods[method]})
    found = _native.Sets(rows, coverage, settings, allow_empty, seed)
    return PredictionSets(quantile=found.quantile, coverage=coverage, method=method, kind=kind, _sets=found)


@dataclass(frozen=True)
class Decomposition:
    """The NLL in two parts.

    Attributes
    ----------
    nll : float
        The NLL of the scores: the sum of the other two.
    nll_calibration : float
        The part that calibration removes.
    nll_refinement : float
        The part that remains, because the scores do not tell the classes apart better.
    interval : dict of (float, float)
        The 95 % interval of each.
    """

    nll: float
    nll_calibration: float
    nll_refinement: float
    interval: dict[str, tuple[float, float]]


def decompose(
    scores: Any,
    labels: Any,
    *,
    method: MethodKey | Calibrator = "auto",
    folds: int = 5,
    kind: Kind = "logits",
    sample_weight: Any = None,
    classes: Any = None,
    seed: int = SEED,
    progress: Callable[[int, int, float], object] | None = None,
    verbose: bool | None = None,
) -> Decomposition:
    """Splits the NLL into what calibration could remove and what it could not: "of 0.36 nats, 0.10 are miscalibration".

    Every row is calibrated by a model that was fitted on the other folds (cross-fitting). The NLL of the rows so
    calibrated is the refinement; what the NLL loses by it is the calibration part.

    Parameters
    ----------
    scores, labels, kind, sample_weight, classes
        As in `evaluate`.
    method : str or Calibrator
        What calibrates. One that learns less than the best map leaves a part of the calibration to the refinement.
    folds : int
        The number of folds.
    seed : int
        The seed of the folds.
    progress, verbose
        As in `evaluate`.

    Returns
    -------
    Decomposition
    """
    chosen = method if isinstance(method, Calibrator) else calibrator(method)
    rows, _, _ = read_rows(scores, labels, kind, sample_weight, classes)
    with shown("folds", verbose, progress) as report:
        found = json.loads(_native.decompose(chosen._method(), rows, folds, seed, report))
    interval = {key: (value["lower"], value["upper"]) for key, value in found.items()}
    return Decomposition(**{key: value["value"] for key, value in found.items()}, interval=interval)
