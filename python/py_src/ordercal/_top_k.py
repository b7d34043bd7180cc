"""The best scores of each row with the rest unknown: what language models and search engines give."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._calibrator import Calibrator, calibrator
from ._errors import OrdercalError, not_fitted
from ._inputs import as_array, read_scores, read_weights
from ._keep_order import clone
from ._metrics import SEED, Evaluation, _keys, evaluate
from ._types import Kind, MethodKey, MetricKey

Self = TypeVar("Self", bound="TopK")

#: Log-probabilities come rounded, so what is left is not known better than this.
LEAST_REST = 1e-7
#: How far rows may be from a sum of 1.
TOLERANCE = 1e-2
#: The most numbers that metrics of the confidence may need.
MOST_CELLS = 2 * 10**8
#: Metrics of the k + 1 outcomes; all others are of the confidence in the best listed class.
OF_OUTCOMES = ("nll", "brier_sum")


def _log_sum(values: NDArray[np.float64]) -> NDArray[np.float64]:
    largest = values.max(axis=1, keepdims=True, initial=-np.inf)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    with np.errstate(divide="ignore"):
        found: NDArray[np.float64] = np.log(np.exp(values - largest).sum(axis=1)) + largest[:, 0]
    return found


class TopScores:
    """The log-probabilities of a few classes of each row, and of all other classes together.

    Parameters
    ----------
    ids : array of int of shape (n, k)
        The numbers of the classes that are listed, for example token ids: in any order, none twice in a row.
    log_probs : array of shape (n, k)
        Their log-probabilities. Rows that list fewer classes are filled up with -inf, whatever the id there.
    log_rest : array of shape (n,), optional
        The log-probability that the class is none of those listed; -inf where there is no other class. None: what the
        listed ones leave, and at least 1e-7.

    Examples
    --------
    >>> import numpy as np, ordercal
    >>> top = ordercal.TopScores([[7, 3]], np.log([[0.6, 0.3]]))
    >>> top.rest.round(6).tolist()
    [0.1]
    >>> ordercal.TopScores.of_dense([[2.0, 0.0, 1.0]], 2).ids.tolist()
    [[0, 2]]
    """

    ids: NDArray[np.int64]
    log_probs: NDArray[np.float64]
    log_rest: NDArray[np.float64]

    def __init__(self, ids: Any, log_probs: Any, log_rest: Any = None) -> None:
        ids, logs = as_array(ids, "ids"), np.asarray(as_array(log_probs), dtype=np.float64)
        if ids.ndim != 2 or ids.shape != logs.shape or ids.dtype.kind not in "iu":
            raise OrdercalError(
                f"ids ({ids.dtype}, {ids.shape}) and log_probs ({logs.shape}) must be matrices of one shape, and ids whole "
                "numbers: a row per example, a column per listed class"
            )
        ids = np.where(np.isneginf(logs), -1, ids.astype(np.int64))
        bad = np.isnan(logs) | (logs > np.log1p(TOLERANCE))
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise OrdercalError(
                f"row {row}, column {column}: {logs[row, column]} is not a log-probability, which is at most 0; "
                "logits are for TopScores.of_dense, which needs those of all classes"
            )
        ordered = np.sort(ids, axis=1)
        twice = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1)
        if twice.any():
            raise OrdercalError(f"row {int(twice.argmax())} lists a class twice: leave one out")
        negative = ((ids < 0) & ~np.isneginf(logs)).any(axis=1)
        if negative.any():
            raise OrdercalError(f"row {int(negative.argmax())} lists a class with a number below 0")
        if log_rest is None:
            rest = np.log(np.maximum(1.0 - np.exp(logs).sum(axis=1), LEAST_REST))
        else:
            rest = np.asarray(as_array(log_rest), dtype=np.float64)
            if rest.shape != (len(logs),) or np.isnan(rest).any():
                raise OrdercalError(f"log_rest needs one log-probability for each of the {len(logs)} rows, and no NaN")
        total = _log_sum(np.column_stack([logs, rest]))
        off = ~(np.abs(np.expm1(total)) <= TOLERANCE)
        if off.any():
            row = int(off.argmax())
            raise OrdercalError(
                f"row {row}: the listed probabilities and the rest sum to {np.exp(total[row]):.6g} instead of 1; "
                "leave log_rest out if it is what the listed ones leave"
            )
        # What sums to 1 but for rounding stays as it is, to the last bit.
        total[np.abs(total) < 1e-9] = 0.0
        self.ids = ids
        self.log_probs = logs - total[:, None]
        self.log_rest = rest - total

    @classmethod
    def of_dense(cls, scores: Any, k: int, *, kind: Kind = "logits") -> TopScores:
        """The k best classes of each row of a full matrix of scores, and the mass of the others.

        Parameters
        ----------
        scores : array of shape (n, classes)
            The scores of all classes.
        k : int
            How many classes to list.
        kind : {"logits", "log-probs", "probs"}
            What the scores are.

        Returns
        -------
        TopScores
        """
        array, _ = read_scores(scores, kind)
        if not 1 <= k <= array.shape[1]:
            raise OrdercalError(f"k is {k}: it has to be from 1 to the number of classes, {array.shape[1]}")
        values = array.astype(np.float64)
        if kind == "probs":
            with np.errstate(divide="ignore"):
                values = np.log(values)
        values = values - _log_sum(values)[:, None]
        order = np.argsort(-values, axis=1, kind="stable")
        ids, others = order[:, :k], order[:, k:]
        rest = _log_sum(np.take_along_axis(values, others, axis=1))
        return cls(ids, np.take_along_axis(values, ids, axis=1), rest)

    @property
    def probs(self) -> NDArray[np.float64]:
        """The probabilities of the listed classes."""
        return np.exp(self.log_probs)

    @property
    def rest(self) -> NDArray[np.float64]:
        """The probability that the class is none of those listed."""
        return np.exp(self.log_rest)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows: slice | NDArray[Any]) -> TopScores:
        return TopScores(self.ids[rows], self.log_probs[rows], self.log_rest[rows])

    def renormalised(self) -> TopScores:
        """The same as if one of the listed classes had to be the right one: the rest is given to them in proportion.

        For the options of a question, whose log-probabilities leave a part to all other tokens.
        """
        total = _log_sum(self.log_probs)
        return TopScores(self.ids, self.log_probs - total[:, None], np.full(len(self), -np.inf))

    def dense(self, classes: int) -> NDArray[np.float64]:
        """Log-probabilities of all classes: those that are not listed share the rest equally.

        Parameters
        ----------
        classes : int
            The number of classes; ids are below it.

        Returns
        -------
        array of shape (n, classes)
        """
        if self.ids.max(initial=-1) >= classes:
            row = int((self.ids.max(axis=1) >= classes).argmax())
            raise OrdercalError(f"row {row} lists the class {self.ids[row].max()}, and there are {classes} classes")
        rows, columns = np.nonzero(self.ids >= 0)
        listed = np.bincount(rows, minlength=len(self))
        others = np.maximum(classes - listed, 1)
        found = np.repeat((self.log_rest - np.log(others))[:, None], classes, axis=1)
        found[rows, self.ids[rows, columns]] = self.log_probs[rows, columns]
        # A row that lists all classes has no other for the rest.
        full = listed == classes
        found[full] -= _log_sum(found[full])[:, None]
        return found

    def places(self, labels: Any) -> NDArray[np.int64]:
        """In which column each label is listed; k for one that is not.

        Parameters
        ----------
        labels : array of int of shape (n,)
            The numbers of the true classes; -1, or any other number that is not listed, is "other".

        Returns
        -------
        array of int of shape (n,)
        """
        array = as_array(labels, "labels")
        if array.shape != (len(self),) or array.dtype.kind not in "iu":
            raise OrdercalError(f"labels are {len(self)} whole numbers here, one per row, not {array.dtype} {array.shape}")
        hit = (self.ids == array[:, None].astype(np.int64)) & (self.ids >= 0)
        found: NDArray[np.int64] = np.where(hit.any(axis=1), hit.argmax(axis=1), self.ids.shape[1])
        return found

    def evaluate(
        self,
        labels: Any,
        *,
        metrics: MetricKey | Iterable[MetricKey] | None = None,
        sample_weight: Any = None,
        bins: int = 15,
        bootstrap: int | None = None,
        seed: int = SEED,
    ) -> Evaluation:
        """Metrics against labels, which may be classes that are not listed.

        `nll` and `brier_sum` are those of the k + 1 outcomes: one for each listed class, one for "other". All other
        metrics are of the confidence in the best listed class, which is the prediction however large the rest is.

        Parameters
        ----------
        labels : array of int of shape (n,)
            The numbers of the true classes; -1, or any other number that is not listed, is "other".
        metrics : str or list of str, optional
            Keys; None: all that there are for this form.
        sample_weight, bins, bootstrap, seed
            As in `ordercal.evaluate`.

        Returns
        -------
        Evaluation
        """
        known = [*OF_OUTCOMES, *_native.top_label_metrics()]
        asked: list[Any] = known if metrics is None else _keys(metrics) or []
        for key in asked:
            if key not in known:
                _native.describe_metric(key)  # says if there is no such metric at all
                raise OrdercalError(f"`{key}` needs the scores of all classes; of the best ones there are {', '.join(known)}")
        places = self.places(labels)
        best = self.log_probs.argmax(axis=1)
        options: dict[str, Any] = {"sample_weight": sample_weight, "bins": bins, "bootstrap": bootstrap, "seed": seed}
        of_outcomes = [key for key in asked if key in OF_OUTCOMES]
        of_confidence = [key for key in asked if key not in OF_OUTCOMES]
        parts = []
        with warnings.catch_warnings():
            # Columns are no classes here, so remarks on classes mislead.
            warnings.simplefilter("ignore", UserWarning)
            if of_outcomes:
                outcomes = np.exp(np.column_stack([self.log_probs, self.log_rest]))
                parts.append(evaluate(outcomes, places, kind="probs", metrics=of_outcomes, **options))
            if of_confidence:
                spread = _spread(np.exp(np.take_along_axis(self.log_probs, best[:, None], axis=1)))
                wrong = (places != best).astype(np.int64)
                parts.append(evaluate(spread, wrong, kind="probs", metrics=of_confidence, **options))
        found = Evaluation()
        found.n, found.classes, found.interval = len(self), self.ids.shape[1] + 1, {}
        for part in parts:
            found.update(part)
            found.interval.update(part.interval)
        return found


def _spread(confidence: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distributions whose first class is the top one, with the confidence given: the others share the rest equally."""
    least = float(confidence.min())
    others = max(1, int(np.ceil((1.0 - least) / least * (1.0 + 1e-12)))) if least > 0.0 else MOST_CELLS
    if len(confidence) * (others + 1) > MOST_CELLS:
        raise OrdercalError(
            f"row {int(confidence.argmin())}: the best listed class has a probability of {least:.3g}, too small for metrics "
            "of the confidence; leave such rows out"
        )
    return np.column_stack([confidence, np.repeat((1.0 - confidence) / others, others, axis=1)])


class TopK:
    """Calibrates the best scores of each row together with the mass of the rest, which is all that some models give.

    The rest is taken as classes of equal probability, and what calibrates is any method on the rows so filled up. With
    `classes`, the columns are the classes, so that what is wrong with single classes is learned, too. Without it (for
    vocabularies of 100,000 tokens) the columns are the ranks of the listed classes and `others` columns of the rest.

    The order is kept by a method that keeps it: among the listed classes, and of each listed class against a class that
    is not listed, whose probability is the mean, rest / m, with m the number of classes that are not listed (`others`
    without `classes`). If p > rest / m before, then also after; if p = rest / m before, then also after. The rest as a
    whole may become larger than a listed class that it was smaller than: it is many classes.

    Parameters
    ----------
    method : str or Calibrator
        What calibrates.
    classes : int, optional
        The number of classes; ids are below it. None: ids are not looked at.
    others : int
        How many classes the rest stands for where `classes` is not given.

    Attributes
    ----------
    calibrator_ : Calibrator
        The calibrator of the rows that were filled up.
    order_preserving_ : bool
        Whether the order is kept.

    Examples
    --------
    >>> import numpy as np, ordercal
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(2000, 50)) * 2
    >>> labels = [rng.choice(50, p=p) for p in np.exp(logits / 2) / np.exp(logits / 2).sum(1, keepdims=True)]
    >>> top = ordercal.TopScores.of_dense(logits, 5)
    >>> found = ordercal.TopK("ts", classes=50).fit(top[:1000], labels[:1000]).apply(top[1000:])
    >>> found.evaluate(labels[1000:])["nll"] < top[1000:].evaluate(labels[1000:])["nll"]
    True
    """

    def __init__(self, method: MethodKey | Calibrator = "auto", *, classes: int | None = None, others: int = 20) -> None:
        self.method = method
        self.classes = classes
        self.others = others

    def __repr__(self) -> str:
        return f"TopK({self.method!r}, classes={self.classes!r}, others={self.others!r})"

    def _filled(self, scores: TopScores) -> NDArray[np.float64]:
        """Log-probabilities for the calibrator: a column per class, or per rank and per class of the rest."""
        if not isinstance(scores, TopScores):
            raise OrdercalError("TopK takes TopScores(ids, log_probs)")
        if self.classes is not None:
            return scores.dense(self.classes)
        rest = np.repeat((scores.log_rest - np.log(self.others))[:, None], self.others, axis=1)
        ranked = -np.sort(-scores.log_probs, axis=1)
        return np.column_stack([ranked, rest])

    def fit(
        self: Self,
        scores: TopScores,
        labels: Any,
        sample_weight: Any = None,
        *,
        progress: Callable[[int, int, float], object] | None = None,
        verbose: bool | None = None,
    ) -> Self:
        """Learns from rows that the classifier was not trained on.

        Parameters
        ----------
        scores : TopScores
            The listed classes of each row.
        labels : array of int of shape (n,)
            The numbers of the true classes; -1, or any other number that is not listed, is "other".
        sample_weight : array of shape (n,), optional
            How much each row counts.
        progress, verbose
            As in `Calibrator.fit`.

        Returns
        -------
        self
        """
        if self.classes is None and self.others < 1:
            raise OrdercalError(f"others is {self.others}: the rest stands for at least one class")
        filled = self._filled(scores)
        places = scores.places(labels)
        width = scores.ids.shape[1]
        other = places == width
        impossible = other & np.isneginf(scores.log_rest)
        if impossible.any():
            row = int(impossible.argmax())
            raise OrdercalError(f"row {row}: the label is not listed, and log_rest says that no other class is possible")
        if self.classes is None:
            ranks = np.argsort(np.argsort(-scores.log_probs, axis=1, kind="stable"), axis=1, kind="stable")
            columns = np.take_along_axis(ranks, np.minimum(places, width - 1)[:, None], axis=1)[:, 0]
            # Classes of the rest are all alike: labels among them take turns.
            columns[other] = width + np.arange(other.sum()) % self.others
        else:
            columns = np.array(as_array(labels, "labels"), dtype=np.int64)
            unknown = other & ((columns < 0) | (columns >= self.classes))
            for turn, row in enumerate(np.flatnonzero(unknown).tolist()):
                free = np.setdiff1d(np.arange(self.classes), scores.ids[row])
                if not len(free):
                    raise OrdercalError(f"row {row}: the label is none of the {self.classes} classes, which are all listed")
                columns[row] = free[turn % len(free)]
        chosen = clone(self.method) if isinstance(self.method, Calibrator) else calibrator(self.method)
        chosen.set_params(kind="log-probs")
        with warnings.catch_warnings():
            if self.classes is None:
                # Columns are no classes here.
                warnings.filterwarnings("ignore", ".*never the label", UserWarning)
            chosen.fit(filled, columns, read_weights(sample_weight), progress=progress, verbose=verbose)
        self.calibrator_ = chosen
        self.order_preserving_ = chosen.order_preserving_
        self.width_ = filled.shape[1]
        return self

    def apply(self, scores: TopScores) -> TopScores:
        """The same rows, calibrated: the listed classes in the same columns, and the rest.

        Parameters
        ----------
        scores : TopScores
            Rows that list as many classes as those of the fit, if `classes` is not given.

        Returns
        -------
        TopScores
        """
        if not hasattr(self, "calibrator_"):
            raise not_fitted("this TopK is not fitted yet: call `fit` first")
        filled = self._filled(scores)
        if filled.shape[1] != self.width_:
            raise OrdercalError(
                f"rows list {scores.ids.shape[1]} classes, and those of the fit listed {self.width_ - self.others}: fill "
                "them up with log-probabilities of -inf"
            )
        found = self.calibrator_.predict_log_proba(filled, dtype=np.float64)
        width = scores.ids.shape[1]
        if self.classes is None:
            ranks = np.argsort(np.argsort(-scores.log_probs, axis=1, kind="stable"), axis=1, kind="stable")
            return TopScores(scores.ids, np.take_along_axis(found[:, :width], ranks, axis=1), _log_sum(found[:, width:]))
        rows, columns = np.nonzero(scores.ids >= 0)
        listed = np.full(scores.ids.shape, -np.inf)
        listed[rows, columns] = found[rows, scores.ids[rows, columns]]
        found[rows, scores.ids[rows, columns]] = -np.inf
        return TopScores(scores.ids, listed, _log_sum(found))
