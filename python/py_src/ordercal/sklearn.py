"""Calibration in scikit-learn's terms. Needs the package `scikit-learn`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, TransformerMixin, clone
from sklearn.model_selection import check_cv
from sklearn.utils import Tags, get_tags, indexable
from sklearn.utils._indexing import _safe_indexing
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.multiclass import _ovr_decision_function, check_classification_targets, type_of_target
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, has_fit_parameter, validate_data

from ._calibrator import Calibrator, calibrator
from ._errors import OrdercalError
from ._inputs import _categories, column_names, read_labels
from ._types import Kind

#: What is fitted if nobody says.
DEFAULT_METHOD = "auto"

#: What scikit-learn calls methods that go by another key here.
ALIASES = {"sigmoid": "platt", "temperature": "ts"}

#: How many predictions may differ from the class with the largest score: votes of a `SVC` can tie.
_AGREEMENT = 0.95

#: The largest magnitude of a score; beyond it a 32-bit float would overflow.
_LARGEST = 1e30


def _make(method: str | Calibrator, kind: str) -> Calibrator:
    """A fresh calibrator for scores of this kind."""
    if isinstance(method, Calibrator):
        return type(method)(**{**method.get_params(), "kind": kind})
    if not isinstance(method, str):
        raise OrdercalError(f"method={method!r}: it is the key of a method, or a calibrator of this package")
    found: Any = ALIASES.get(method, method)
    return calibrator(found, kind=kind)


def _one_label(y: Any) -> None:
    """Refuses targets that are not one class per row."""
    kind = type_of_target(y)
    if kind.startswith("multilabel") or kind.endswith("-multioutput"):
        raise OrdercalError(
            "y has several labels per row, and calibration is for one class per row: "
            "calibrate each label by itself, as two classes"
        )


class ScoreCalibrator(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A transformer from a classifier's scores, a column per class, to calibrated probabilities.

    Which column is which class: labels that are integers are column numbers. The names of the columns of a data frame
    decide if labels are among them, then the order of the categories of categorical labels; other names stand in
    sorted order, one for each column. Rows with integer labels beyond the columns are left out, with a warning.

    Parameters
    ----------
    method : str or Calibrator
        The key of a method ("auto", "ts", …), scikit-learn's name of one ("sigmoid", "isotonic", "temperature"),
        or a calibrator.
    kind : {"logits", "log-probs", "probs"}
        What the scores are.

    Attributes
    ----------
    calibrator_ : Calibrator
        The fitted calibrator.
    classes_ : array of shape (k,)
        The class of each column.
    """

    def __init__(self, method: str | Calibrator = DEFAULT_METHOD, *, kind: Kind = "logits") -> None:
        self.method = method
        self.kind = kind

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ScoreCalibrator:
        """Learns from scores and labels.

        Parameters
        ----------
        X : array of shape (n, k)
            Scores, of the kind that was said.
        y : array of shape (n,)
            The true class of each row.
        sample_weight : array of shape (n,), optional
            How much each row counts.

        Returns
        -------
        self
        """
        calibrator = _make(self.method, self.kind)
        columns, categories = column_names(X), _categories(y)
        X, y = validate_data(self, X, y, dtype=(np.float32, np.float64), ensure_min_samples=2, ensure_min_features=2)
        _one_label(y)
        check_classification_targets(y)
        count = X.shape[1]
        if y.dtype.kind == "f":
            # Classification targets are whole numbers.
            y = y.astype(np.int64)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X)
        if columns is not None and y.dtype.kind not in "iub":
            indices, self.classes_ = read_labels(y, count, columns)
        elif categories is not None and categories != list(range(len(categories))):
            indices, self.classes_ = read_labels(y, count, None, categories)
        elif y.dtype.kind in "iub":
            self.classes_ = np.arange(count)
            indices = y.astype(np.int64)
        else:
            self.classes_, indices = np.unique(y, return_inverse=True)
            if len(self.classes_) != count:
                raise OrdercalError(
                    f"there are {len(self.classes_)} different labels for {count} columns of scores: with column "
                    "numbers as labels, or the classes as names of a data frame's columns, it is clear which is which"
                )
        known = (indices >= 0) & (indices < count)
        if not known.all():
            # The classifier does not know this class, so its scores cannot be right or wrong about it.
            warnings.warn(
                f"{len(y) - known.sum()} rows have labels that are not among the {count} columns of scores: "
                "they are left out",
                stacklevel=2,
            )
            X, indices = X[known], indices[known]
            sample_weight = None if sample_weight is None else sample_weight[known]
            if len(indices) == 0:
                raise OrdercalError(f"no label is among the {count} columns of scores")
        self.calibrator_ = calibrator
        self.calibrator_.fit(*_merged(_contents(X), _clamp(X, self.kind), indices, sample_weight))
        self._n_features_out = count
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Calibrated probabilities.

        Parameters
        ----------
        X : array of shape (n, k)
            Scores, in the columns of the fit; a data frame with other columns, or in another order, is refused.

        Returns
        -------
        array of shape (n, k)
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=(np.float32, np.float64), reset=False)
        found: NDArray[Any] = self.calibrator_.predict_proba(_clamp(X, self.kind))
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


def _clamp(scores: NDArray[Any], kind: str) -> NDArray[Any]:
    if kind != "logits" or scores.dtype == np.float32:
        return scores
    clamped: NDArray[Any] = np.clip(scores, -_LARGEST, _LARGEST)
    return clamped


class CalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose probabilities are calibrated, with the predictions of the one inside.

    The classifier is fitted to all of the data, and the calibration to scores of rows that it had not seen, from `cv`
    folds. A classifier that is fitted already goes in as `sklearn.frozen.FrozenEstimator(classifier)`: all rows
    given to `fit` then calibrate it, and must not be those that it was trained on.

    Folds depend on the rows' contents alone: neither their order nor a weight in place of a repeated row changes a fit,
    and equal rows never stand on both sides of a fold.

    Parameters
    ----------
    estimator : classifier, optional
        The classifier; None: `LogisticRegression()`. Scores are its `decision_function` or, if it has none, logarithms
        of its `predict_proba`; the class with the largest score must be what it predicts.
    method : str or Calibrator
        The key of a method ("auto", "ts", …), scikit-learn's name of one ("sigmoid", "isotonic", "temperature"), or a
        calibrator. With one that keeps the order, as the default does, predictions are those of `estimator_`.
    cv : int, cross-validation generator, iterable or "prefit"
        The folds. Rows that a generator never tests do not enter the calibration. "prefit" is for a classifier that is
        fitted already, as a `FrozenEstimator` is.
    ensemble : bool
        Whether to keep the folds' classifiers and predict with the average of their calibrated probabilities: often
        better, five times the work.
    n_jobs : int, optional
        How many folds are fitted at once; as in scikit-learn.

    Attributes
    ----------
    estimators_ : list
        The fitted classifier, or those of the folds with `ensemble`.
    estimator_ : classifier
        The first of them.
    classes_ : array of shape (k,)
        The classes, in the order of the columns of `predict_proba`.
    calibrator_ : Calibrator
        The fitted calibrator.
    """

    def __init__(
        self,
        estimator: Any = None,
        method: str | Calibrator = DEFAULT_METHOD,
        *,
        cv: Any = 5,
        ensemble: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.ensemble = ensemble
        self.n_jobs = n_jobs

    def _estimator(self) -> Any:
        if self.estimator is None:
            from sklearn.linear_model import LogisticRegression

            return LogisticRegression()
        return self.estimator

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None, **fit_params: Any) -> CalibratedClassifier:
        """Fits the classifier and its calibration.

        Parameters
        ----------
        X : array of shape (n, features)
            Whatever the classifier takes.
        y : array of shape (n,)
            The classes.
        sample_weight : array of shape (n,), optional
            How much each row counts, in both fits. Where the classifier takes no weights, it is fitted without, with a
            warning, and the calibration with them.
        groups : array of shape (n,), optional
            Groups of rows for a `cv` that keeps groups together, such as `GroupKFold()`.
        **fit_params
            Go to the classifier's `fit`; what has an entry per row is divided as the rows are. With metadata routing
            switched on, they go where they were requested.

        Returns
        -------
        self
        """
        estimator = self._estimator()
        calibrator = _make(self.method, "logits")
        X, y = validate_data(
            self, X, y, accept_sparse=True, dtype=None, ensure_all_finite=False, allow_nd=True, skip_check_array=True
        )
        X, y = indexable(X, np.asarray(y))
        if y.ndim == 2 and y.shape[1] == 1:
            from sklearn.utils.validation import column_or_1d

            y = column_or_1d(y, warn=True)
        _one_label(y)
        check_classification_targets(y)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        if getattr(X, "ndim", 2) == 2 and hasattr(X, "shape") and X.shape[1] == 0:
            raise OrdercalError(f"0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
        params, for_split = self._routed(estimator, weights, groups, fit_params)
        contents = _contents(X)
        rows = np.arange(len(y))
        if isinstance(self.cv, str) and self.cv == "prefit":
            if self.ensemble:
                raise OrdercalError("one classifier that is fitted already makes no ensemble")
            check_is_fitted(estimator)
            self.estimators_ = [estimator]
            self.classes_ = np.asarray(estimator.classes_)
            indices = self._indices(y)
            scores = _scores(estimator, X)
        else:
            self.classes_ = np.unique(y)
            if len(self.classes_) < 2:
                known = ", ".join(map(repr, self.classes_.tolist())) or "none"
                raise OrdercalError(f"one class or none ({known}) among {len(y)} labels: at least two classes are needed")
            indices = self._indices(y)
            splits = list(_splits(self.cv, X, y, indices, weights, contents, for_split))
            jobs = Parallel(n_jobs=self.n_jobs)(
                delayed(_fit_and_score)(estimator, X, y, train, test, params) for train, test in splits
            )
            self.estimators_ = [fitted for fitted, _ in jobs] if self.ensemble else []
            found = [one for _, one in jobs]
            if len({one.probabilities for one in found}) > 1:
                # One fold's scores do not predict: probabilities for all of them.
                tested = [_safe_indexing(X, test) for _, test in splits]
                found = [_scores(fitted, part, (_probabilities,)) for (fitted, _), part in zip(jobs, tested)]
            found = [_all_classes(one, fitted.classes_, self.classes_) for (fitted, _), one in zip(jobs, found)]
            # A row that is tested several times has the scores of the last.
            values, seen = np.zeros((len(y), len(self.classes_))), np.zeros(len(y), dtype=bool)
            for (_, test), one in zip(splits, found):
                values[test], seen[test] = one.values, True
            rows = np.flatnonzero(seen)
            scores = _Scores(values[rows], found[0].probabilities)
            if not self.ensemble:
                self.estimators_ = [_fit(clone(estimator), X, y, params)]
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimators_[0], name):
                setattr(self, name, getattr(self.estimators_[0], name))
        self._read = _probabilities if scores.probabilities else _decisions
        self.floor_ = _floor(scores)
        logits, part = _logits(scores, self.floor_), None if weights is None else weights[rows]
        self.calibrator_ = calibrator.fit(*_merged(contents[rows], logits, indices[rows], part))
        return self

    def _routed(
        self, estimator: Any, weights: NDArray[np.float64] | None, groups: Any, fit_params: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the classifier's `fit` gets, and what the splitter's `split` gets."""
        if _routing_enabled():
            given = {**fit_params}
            given |= {} if weights is None else {"sample_weight": weights}
            given |= {} if groups is None else {"groups": groups}
            routed = process_routing(self, "fit", **given)
            return dict(routed.estimator.fit), dict(routed.splitter.split)
        params = dict(fit_params)
        if weights is not None:
            if has_fit_parameter(estimator, "sample_weight"):
                params["sample_weight"] = weights
            else:
                warnings.warn(
                    f"{type(estimator).__name__} takes no sample weights: they count in the calibration alone",
                    stacklevel=3,
                )
        return params, {} if groups is None else {"groups": groups}

    def get_metadata_routing(self) -> MetadataRouter:
        """What `fit` hands on: to the classifier's `fit`, and to the splitter's `split`."""
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        router = router.add(
            estimator=self._estimator(), method_mapping=MethodMapping().add(caller="fit", callee="fit")
        )
        splitter = self.cv if hasattr(self.cv, "get_metadata_routing") else None
        mapping = MethodMapping().add(caller="fit", callee="split")
        return router.add(splitter=splitter if splitter is not None else check_cv(5), method_mapping=mapping)

    def _indices(self, y: NDArray[Any]) -> NDArray[np.int64]:
        indices = np.searchsorted(self.classes_, y)
        known = self.classes_[np.minimum(indices, len(self.classes_) - 1)] == y
        if not known.all():
            row = int(np.argmin(known))
            raise OrdercalError(f"row {row}: the label {y[row]!r} is not one of the classifier's classes")
        found: NDArray[np.int64] = indices.astype(np.int64)
        return found

    @property
    def estimator_(self) -> Any:
        """The classifier that predicts; the first of them in an ensemble."""
        return self.estimators_[0]

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Calibrated probabilities.

        Parameters
        ----------
        X : array of shape (n, features)
            Whatever the classifier takes.

        Returns
        -------
        array of shape (n, k)
        """
        check_is_fitted(self)
        total: Any = 0.0
        for fitted in self.estimators_:
            read: Any = self._read(fitted, X)
            found = _all_classes(read, fitted.classes_, self.classes_)
            logits = _logits(found, self.floor_)
            total = total + self.calibrator_.predict_proba(logits, dtype=np.float64)
        probs: NDArray[Any] = total / len(self.estimators_)
        return probs

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

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inner = get_tags(self._estimator())
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        return tags


class _Scores(NamedTuple):
    """What a classifier says of rows: scores, or probabilities."""

    values: NDArray[np.float64]
    probabilities: bool


def _fit(estimator: Any, X: Any, y: Any, params: dict[str, Any]) -> Any:
    return estimator.fit(X, y, **params)


def _fit_and_score(
    estimator: Any, X: Any, y: Any, train: NDArray[np.int64], test: NDArray[np.int64], params: dict[str, Any]
) -> tuple[Any, _Scores]:
    """A classifier fitted to some rows, and its scores of others."""
    part = {name: _part(value, train, len(y)) for name, value in params.items()}
    fitted = _fit(clone(estimator), _safe_indexing(X, train), y[train], part)
    return fitted, _scores(fitted, _safe_indexing(X, test))


def _part(value: Any, rows: NDArray[np.int64], count: int) -> Any:
    if hasattr(value, "__len__") and not isinstance(value, (str, dict)) and len(value) == count:
        return _safe_indexing(value, rows)
    return value


def _all_classes(found: _Scores, own: Any, classes: NDArray[Any]) -> _Scores:
    """The scores of a classifier, with a column for every class even if it has not seen them all."""
    if len(own) == len(classes):
        return found
    # A class that it has not seen is as unlikely as any.
    lowest = 0.0 if found.probabilities else found.values.min(axis=1, keepdims=True)
    values = np.empty((len(found.values), len(classes)))
    values[:] = lowest
    values[:, np.searchsorted(classes, own)] = found.values
    return _Scores(values, found.probabilities)


def _scores(estimator: Any, X: Any, ways: Any = None) -> _Scores:
    """A score for every class, by which the classifier predicts.

    Pairs of classes (`SVC` with "ovo") are counted as votes. Scores whose largest is not the predicted class are no
    scores of classes: probabilities are then tried.
    """
    tried = []
    for read in ways or (_decisions, _probabilities):
        found = read(estimator, X)
        if found is None:
            continue
        agreement = _agreement(estimator, X, found)
        if agreement >= _AGREEMENT:
            return found
        tried.append(f"the largest of its {read.__doc__} is its prediction in {agreement:.0%} of the rows")
    name = type(estimator).__name__
    if tried:
        raise OrdercalError(
            f"{name}: {', and '.join(tried)}: calibrated, it would predict something else. Give a classifier that "
            "predicts the class with the largest score"
        )
    raise OrdercalError(f"{name} has neither a decision_function with a column per class nor predict_proba")


def _decisions(estimator: Any, X: Any) -> _Scores | None:
    """decision_function"""
    if not hasattr(estimator, "decision_function"):
        return None
    classes = len(estimator.classes_)
    values = np.asarray(estimator.decision_function(X), dtype=np.float64)
    if values.ndim == 1:
        # The log-odds of the second class.
        values = np.column_stack([-values / 2.0, values / 2.0])
    elif _is_pairwise(estimator) and classes > 2:
        values = _ovr_decision_function(values < 0.0, -values, classes)
    if values.shape[1] != classes:
        return None
    return _Scores(np.clip(values, -_LARGEST, _LARGEST), False)


def _is_pairwise(estimator: Any) -> bool:
    """Whether columns of its decision_function are pairs of classes."""
    while hasattr(estimator, "steps"):
        estimator = estimator.steps[-1][1]
    return getattr(estimator, "decision_function_shape", None) == "ovo"


def _probabilities(estimator: Any, X: Any) -> _Scores | None:
    """predict_proba"""
    if not hasattr(estimator, "predict_proba"):
        return None
    return _Scores(np.asarray(estimator.predict_proba(X), dtype=np.float64), True)


def _agreement(estimator: Any, X: Any, found: _Scores) -> float:
    """The share of rows whose predicted class has the largest score, alone or with others."""
    if not hasattr(estimator, "predict") or len(found.values) == 0:
        return 1.0
    classes = np.asarray(estimator.classes_)
    predicted = np.asarray(estimator.predict(X))
    places = np.searchsorted(classes, predicted).clip(0, len(classes) - 1)
    largest = found.values.max(axis=1)
    of_predicted = found.values[np.arange(len(places)), places]
    return float(np.mean(np.isclose(of_predicted, largest, rtol=1e-9, atol=1e-12)))


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
    params: dict[str, Any],
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    if not isinstance(cv, (int, np.integer)):
        yield from check_cv(cv, y, classifier=True).split(X, y, **params)
        return
    if params:
        raise OrdercalError(f"cv={cv} knows no groups: give a splitter that keeps them together, such as GroupKFold()")
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
