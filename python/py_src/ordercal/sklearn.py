"""Calibration in scikit-learn's terms. Needs the package `scikit-learn`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, TransformerMixin, clone
from sklearn.model_selection import check_cv
from sklearn.utils import Tags, get_tags, indexable
from sklearn.utils._indexing import _safe_indexing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, has_fit_parameter, validate_data

from ._calibrator import Calibrator, calibrator
from ._errors import OrdercalError

#: What is fitted if nobody says.
DEFAULT_METHOD = "auto"

#: The largest magnitude of a score; beyond it a 32-bit float would overflow.
_LARGEST = 1e30


def _make(method: str | Calibrator, kind: str) -> Calibrator:
    """A fresh calibrator for scores of this kind."""
    if isinstance(method, Calibrator):
        return type(method)(**{**method.get_params(), "kind": kind})
    return calibrator(method, kind=kind)


class ScoreCalibrator(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A transformer from a classifier's scores, a column per class, to calibrated probabilities.

    `method` is a key of the command line or a calibrator; `kind` says what scores are. Labels that are integers
    are column numbers; the sorted values of others stand for the columns. Rows with labels beyond the columns
    are left out, with a warning.
    """

    def __init__(self, method: str | Calibrator = DEFAULT_METHOD, *, kind: str = "logits") -> None:
        self.method = method
        self.kind = kind

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ScoreCalibrator:
        """Learns from scores X and labels y."""
        X, y = validate_data(self, X, y, dtype=(np.float32, np.float64), ensure_min_samples=2, ensure_min_features=2)
        check_classification_targets(y)
        columns = X.shape[1]
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X)
        if y.dtype.kind in "iub":
            self.classes_ = np.arange(columns)
            indices = y.astype(np.int64)
        else:
            self.classes_, indices = np.unique(y, return_inverse=True)
        known = (indices >= 0) & (indices < columns)
        if not known.all():
            # The classifier does not know this class, so its scores cannot be right or wrong about it.
            warnings.warn(
                f"{len(y) - known.sum()} rows have labels that are not among the {columns} columns of scores: "
                "they are left out",
                stacklevel=2,
            )
            X, indices = X[known], indices[known]
            sample_weight = None if sample_weight is None else sample_weight[known]
            if len(indices) == 0:
                raise OrdercalError(f"no label is among the {columns} columns of scores")
        self.calibrator_ = _make(self.method, self.kind)
        self.calibrator_.fit(*_merged(_contents(X), _hold(X, self.kind), indices, sample_weight))
        self._n_features_out = columns
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Calibrated probabilities."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=(np.float32, np.float64), reset=False)
        found: NDArray[Any] = self.calibrator_.predict_proba(_hold(X, self.kind))
        return found

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the columns: those of the scores."""
        check_is_fitted(self)
        from sklearn.utils.validation import _check_feature_names_in

        names: NDArray[Any] = _check_feature_names_in(self, input_features)
        return names

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.one_d_labels = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _hold(scores: NDArray[Any], kind: str) -> NDArray[Any]:
    if kind != "logits" or scores.dtype == np.float32:
        return scores
    held: NDArray[Any] = np.clip(scores, -_LARGEST, _LARGEST)
    return held


def _estimator_has(name: str) -> Any:
    def check(self: CalibratedClassifier) -> bool:
        getattr(self.estimators_[0] if hasattr(self, "estimators_") else self._estimator(), name)
        return True

    return check


class CalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose probabilities are calibrated, with the predictions of the one inside.

    The classifier is fitted to all of the data, and the calibration to scores of rows that it had not seen,
    from `cv` folds. With `cv="prefit"` the classifier is used as it is, and all rows given to `fit` calibrate
    it: they must not be those it was trained on. Scores are its `decision_function`, or logarithms of
    its `predict_proba`.

    `method` is a key of the command line or a calibrator. With one that keeps the order, the default among
    them, predictions are those of `estimator_`. With `ensemble=True` the folds' classifiers are kept in
    `estimators_`, and the average of their calibrated probabilities predicts: often better, five times
    the work.

    Folds depend on the rows' contents alone: neither their order nor a weight in place of a repeated row
    changes a fit, and equal rows never stand on both sides of a fold.
    """

    def __init__(
        self,
        estimator: Any = None,
        method: str | Calibrator = DEFAULT_METHOD,
        *,
        cv: Any = 5,
        ensemble: bool = False,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.ensemble = ensemble

    def _estimator(self) -> Any:
        if self.estimator is None:
            from sklearn.linear_model import LogisticRegression

            return LogisticRegression()
        return self.estimator

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> CalibratedClassifier:
        """Fits the classifier and its calibration; `fit_params` go to the classifier's `fit`."""
        estimator = self._estimator()
        X, y = validate_data(
            self, X, y, accept_sparse=True, dtype=None, ensure_all_finite=False, allow_nd=True, skip_check_array=True
        )
        X, y = indexable(X, np.asarray(y))
        if y.ndim == 2 and y.shape[1] == 1:
            from sklearn.utils.validation import column_or_1d

            y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        if getattr(X, "ndim", 2) == 2 and hasattr(X, "shape") and X.shape[1] == 0:
            raise OrdercalError(f"0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
        contents = _contents(X)
        if self.cv == "prefit":
            if self.ensemble:
                raise OrdercalError("one classifier that is fitted already makes no ensemble")
            check_is_fitted(estimator)
            self.estimators_ = [estimator]
            self.classes_ = np.asarray(estimator.classes_)
            indices = self._indices(y)
            scores = _scores(estimator, X, len(self.classes_))
        else:
            self.classes_ = np.unique(y)
            if len(self.classes_) < 2:
                known = ", ".join(map(repr, self.classes_.tolist())) or "none"
                raise OrdercalError(f"one class or none ({known}) among {len(y)} labels: at least two classes are needed")
            indices = self._indices(y)
            self.estimators_ = []
            scores = self._unseen(estimator, X, y, indices, weights, contents, fit_params)
            if not self.ensemble:
                self.estimators_ = [_fit(clone(estimator), X, y, weights, fit_params)]
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimators_[0], name):
                setattr(self, name, getattr(self.estimators_[0], name))
        self.floor_ = _floor(scores)
        rows = _merged(contents, _logits(scores, self.floor_), indices, weights)
        self.calibrator_ = _make(self.method, "logits").fit(*rows)
        return self

    def _indices(self, y: NDArray[Any]) -> NDArray[np.int64]:
        indices = np.searchsorted(self.classes_, y)
        known = self.classes_[np.minimum(indices, len(self.classes_) - 1)] == y
        if not known.all():
            row = int(np.argmin(known))
            raise OrdercalError(f"row {row}: the label {y[row]!r} is not one of the classifier's classes")
        found: NDArray[np.int64] = indices.astype(np.int64)
        return found

    def _unseen(
        self,
        estimator: Any,
        X: Any,
        y: NDArray[Any],
        indices: NDArray[np.int64],
        weights: NDArray[np.float64] | None,
        contents: NDArray[np.int64],
        fit_params: dict[str, Any],
    ) -> _Scores:
        """The scores of every row, from a classifier that was fitted without it."""
        rows, classes = len(y), len(self.classes_)
        values = np.zeros((rows, classes))
        seen = np.zeros(rows, dtype=bool)
        probabilities = False
        for train, test in _splits(self.cv, X, y, indices, weights, contents):
            part = None if weights is None else weights[train]
            params = {name: _part(value, train, rows) for name, value in fit_params.items()}
            fitted = _fit(clone(estimator), _safe_indexing(X, train), y[train], part, params)
            found = self._all_classes(fitted, _safe_indexing(X, test))
            values[test], probabilities = found.values, found.probabilities
            if self.ensemble:
                self.estimators_.append(fitted)
            seen[test] = True
        if not seen.all():
            # Rows without weight are in no fold, and count for nothing.
            values[~seen] = 1.0 / classes if probabilities else 0.0
        return _Scores(values, probabilities)

    def _all_classes(self, fitted: Any, X: Any) -> _Scores:
        """The scores of a classifier, with a column for every class even if it has not seen them all."""
        found = _scores(fitted, X, len(fitted.classes_))
        if len(fitted.classes_) == len(self.classes_):
            return found
        # A class that it has not seen is as unlikely as any.
        lowest = 0.0 if found.probabilities else found.values.min(axis=1, keepdims=True)
        values = np.empty((len(found.values), len(self.classes_)))
        values[:] = lowest
        values[:, np.searchsorted(self.classes_, fitted.classes_)] = found.values
        return _Scores(values, found.probabilities)

    @property
    def estimator_(self) -> Any:
        """The classifier that predicts; the first of them in an ensemble."""
        return self.estimators_[0]

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Calibrated probabilities."""
        check_is_fitted(self)
        total: Any = 0.0
        for fitted in self.estimators_:
            logits = _logits(self._all_classes(fitted, X), self.floor_)
            total = total + self.calibrator_.predict_proba(logits, dtype=np.float64)
        found: NDArray[Any] = total / len(self.estimators_)
        return found

    def predict_log_proba(self, X: Any) -> NDArray[Any]:
        """Logarithms of the calibrated probabilities."""
        with np.errstate(divide="ignore"):
            found: NDArray[Any] = np.log(self.predict_proba(X))
        return found

    def predict(self, X: Any) -> NDArray[Any]:
        """The class with the largest calibrated probability."""
        best = self.predict_proba(X).argmax(axis=1)
        found: NDArray[Any] = self.classes_[best]
        return found

    @available_if(_estimator_has("transform"))  # type: ignore[untyped-decorator]
    def transform(self, X: Any) -> Any:
        """What the classifier inside makes of X, if it is a transformer too."""
        check_is_fitted(self)
        return self.estimators_[0].transform(X)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inner = get_tags(self._estimator())
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        return tags


class _Scores:
    """What a classifier says of rows: scores, or probabilities."""

    def __init__(self, values: NDArray[np.float64], probabilities: bool) -> None:
        self.values = values
        self.probabilities = probabilities


def _fit(estimator: Any, X: Any, y: Any, weights: NDArray[np.float64] | None, params: dict[str, Any]) -> Any:
    if weights is not None:
        if not has_fit_parameter(estimator, "sample_weight"):
            raise OrdercalError(f"{type(estimator).__name__} takes no sample weights")
        params = {**params, "sample_weight": weights}
    return estimator.fit(X, y, **params)


def _part(value: Any, rows: NDArray[np.int64], count: int) -> Any:
    if hasattr(value, "__len__") and not isinstance(value, (str, dict)) and len(value) == count:
        return _safe_indexing(value, rows)
    return value


def _scores(estimator: Any, X: Any, classes: int) -> _Scores:
    if hasattr(estimator, "decision_function"):
        values = np.asarray(estimator.decision_function(X), dtype=np.float64)
        if values.ndim == 1:
            # The log-odds of the second class.
            values = np.column_stack([-values / 2.0, values / 2.0])
        if values.shape[1] == classes:
            return _Scores(np.clip(values, -_LARGEST, _LARGEST), False)
    if hasattr(estimator, "predict_proba"):
        return _Scores(np.asarray(estimator.predict_proba(X), dtype=np.float64), True)
    raise OrdercalError(
        f"{type(estimator).__name__} has neither a decision_function with a column per class nor predict_proba"
    )


def _floor(scores: _Scores) -> float:
    """What stands for a probability of 0, as votes give it: half of the smallest one that is not 0."""
    if not scores.probabilities:
        return 0.0
    positive = scores.values[scores.values > 0.0]
    return max(float(positive.min()) / 2.0, float(np.finfo(np.float64).tiny))


def _logits(scores: _Scores, floor: float) -> NDArray[np.float64]:
    if not scores.probabilities:
        return scores.values
    found: NDArray[np.float64] = np.log(np.maximum(scores.values, floor))
    return found


def _splits(
    cv: Any,
    X: Any,
    y: NDArray[Any],
    indices: NDArray[np.int64],
    weights: NDArray[np.float64] | None,
    contents: NDArray[np.int64],
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    if not isinstance(cv, (int, np.integer)):
        yield from check_cv(cv, y, classifier=True).split(X, y)
        return
    if cv < 2:
        raise OrdercalError(f"cv={cv}: at least 2 folds are needed, or cv='prefit'")
    counted = np.arange(len(y)) if weights is None else np.flatnonzero(weights > 0.0)
    fold = np.full(len(y), -1)
    turn = 0
    for label in np.unique(indices[counted]):
        members = counted[indices[counted] == label]
        # Rows in the order of their contents, dealt out in turn; equal rows are one.
        _, places = np.unique(contents[members], return_inverse=True)
        places = places.reshape(-1)
        fold[members] = (places + turn) % cv
        turn += int(places.max()) + 1
    for one in range(cv):
        test, train = np.flatnonzero(fold == one), np.flatnonzero((fold != one) & (fold >= 0))
        if len(test) == 0:
            continue
        if len(np.unique(indices[train])) < 2:
            raise OrdercalError(f"there are too few rows for cv={cv}: a fold would leave only one class to learn from")
        yield train, test


def _contents(X: Any) -> NDArray[np.int64]:
    """A number for each row, the same for equal rows, that depends on what is in it and not on where it stands."""
    pieces: Any
    if hasattr(X, "tocsr"):
        X = X.tocsr(copy=True)
        X.sum_duplicates()
        data, columns, ends = X.data.astype(np.float64), X.indices.astype(np.int64), X.indptr
        spans = list(zip(ends[:-1], ends[1:]))
        pieces = np.array([columns[a:b].tobytes() + data[a:b].tobytes() for a, b in spans], dtype=object)
    else:
        array = np.asarray(X)
        if array.dtype.kind in "fiub":
            array = np.ascontiguousarray(array.reshape(len(array), -1), dtype=np.float64)
            pieces = array.view(np.dtype((np.void, array.itemsize * array.shape[1]))).ravel()
        else:
            texts = [repr(row.tolist() if hasattr(row, "tolist") else row) for row in array]
            pieces = np.array(texts, dtype=object)
    _, places = np.unique(pieces, return_inverse=True)
    found: NDArray[np.int64] = places.reshape(-1)
    return found


def _merged(
    contents: NDArray[np.int64],
    scores: NDArray[Any],
    indices: NDArray[np.int64],
    weights: NDArray[np.float64] | None,
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.float64] | None]:
    """Equal rows with equal labels as one row with their weight, in an order of their contents."""
    if weights is None:
        weights = np.ones(len(indices))
    counted = np.flatnonzero(weights > 0.0)
    if len(counted) == 0:
        raise OrdercalError("every weight is zero: at least one row must count")
    keys = np.column_stack([indices[counted], contents[counted]])
    _, first, places = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    total = np.asarray(np.bincount(places.reshape(-1), weights=weights[counted]), dtype=np.float64)
    rows = counted[first]
    return scores[rows], indices[rows], None if np.all(total == 1.0) else total
