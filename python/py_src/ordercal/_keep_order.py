"""Anyone's calibrator, made order-preserving."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._errors import NotFittedError, OrdercalError
from ._inputs import align, read_rows, read_scores
from ._parameters import HasParameters
from ._types import Kind
from .methods import TemperatureScaling

Self = TypeVar("Self", bound="KeepOrder")


def clone(estimator: Any) -> Any:
    """A copy that is not fitted: scikit-learn's where it is one of its estimators."""
    if hasattr(estimator, "get_params"):
        try:
            from sklearn.base import clone as sklearn_clone
        except ImportError:
            pass
        else:
            return sklearn_clone(estimator)
    return copy.deepcopy(estimator)


def class_probabilities(estimator: Any, scores: NDArray[Any], classes: int) -> NDArray[np.float64]:
    """The N x K probabilities of an estimator that was fitted to the numbers of the classes.

    A class that it never saw has no column there, and probability 0 here.
    """
    found = np.asarray(estimator.predict_proba(scores), dtype=np.float64)
    known = np.asarray(getattr(estimator, "classes_", np.arange(classes)))
    if found.ndim == 1 and classes == 2:
        found = np.stack([1.0 - found, found], axis=1)
    if found.ndim != 2 or len(found) != len(scores) or found.shape[1] not in (len(known), classes):
        raise OrdercalError(
            f"{type(estimator).__name__}.predict_proba gave an array of the shape {found.shape} for "
            f"{len(scores)} rows of {classes} classes"
        )
    if found.shape[1] == classes:
        return found
    probs = np.zeros((len(scores), classes))
    probs[:, known.astype(int)] = found
    return probs


class KeepOrder(HasParameters):
    """Makes any calibrator order-preserving: its probabilities are projected onto the order of the scores.

    Of all distributions that rank the classes as a row of scores does, the closest in Kullback-Leibler divergence to what
    the calibrator says. Predictions and rankings stay exactly as they were, ties included.

    Parameters
    ----------
    estimator : object
        Anything with `fit(scores, labels)` and `predict_proba(scores)`. It gets the scores as they are and the numbers of
        the classes as labels.
    kind : {"logits", "log-probs", "probs"}
        What the scores are.

    Attributes
    ----------
    estimator_ : object
        The fitted copy of `estimator`.
    classes_ : ndarray
        The classes, in the order of the columns.
    order_preserving_ : bool
        True.

    Examples
    --------
    >>> import numpy as np, ordercal
    >>> class Frequencies:
    ...     def fit(self, scores, labels):
    ...         self.share_ = np.bincount(labels, minlength=scores.shape[1]) / len(labels)
    ...         return self
    ...     def predict_proba(self, scores):
    ...         return np.tile(self.share_, (len(scores), 1))
    >>> logits = np.array([[4.0, 1.0], [0.5, 3.0], [2.0, 1.0], [3.0, 0.0]])
    >>> kept = ordercal.KeepOrder(Frequencies()).fit(logits, [0, 1, 0, 0])
    >>> bool(np.all(kept.predict(logits) == logits.argmax(axis=1)))
    True
    """

    def __init__(self, estimator: Any, *, kind: Kind = "logits") -> None:
        self.estimator = estimator
        self.kind = kind

    def fit(self: Self, scores: Any, labels: Any, sample_weight: Any = None) -> Self:
        """Fits a copy of the estimator to held-out scores and labels, as in `Calibrator.fit`."""
        rows, names, columns = read_rows(scores, labels, self.kind, sample_weight)
        array, indices, weights = rows.scores, rows.labels, rows.weights
        tempered = TemperatureScaling(kind=self.kind).fit(array, indices, weights)
        estimator = clone(self.estimator)
        if weights is None:
            estimator.fit(array, indices)
        else:
            estimator.fit(array, indices, sample_weight=weights)
        self.estimator_ = estimator
        self.columns_ = columns
        self.classes_ = names
        self.n_features_in_ = array.shape[1]
        self.inverse_temperature_ = 1.0 / tempered.temperature_
        self.order_preserving_ = True
        return self

    def predict_proba(self, scores: Any, *, dtype: Any = None) -> NDArray[Any]:
        """Probabilities that rank the classes of every row as its scores do."""
        if not hasattr(self, "estimator_"):
            raise NotFittedError("this KeepOrder is not fitted yet: call `fit` first")
        array, columns = read_scores(scores, self.kind)
        array = align(array, columns, self.columns_)
        probs = class_probabilities(self.estimator_, array, self.n_features_in_)
        wide = array.dtype == np.float64 if dtype is None else np.dtype(dtype) == np.float64
        found: NDArray[Any] = _native.keep_order(array, self.kind, probs, self.inverse_temperature_, wide)
        return found

    def predict(self, scores: Any) -> NDArray[Any]:
        """The class of each row with the largest score."""
        found: NDArray[Any] = self.classes_[self.predict_proba(scores).argmax(axis=1)]
        return found
