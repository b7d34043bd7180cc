"""How good probabilities are: metrics, the bins of a diagram, and metrics of data in many places."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _arrow, _native
from ._errors import OrdercalError
from ._inputs import Rows, read_rows, read_scores, read_target
from ._progress import shown
from ._types import Binning, Kind, MetricKey

#: The seed of the resamples, and how many a state draws, if nobody says.
SEED, RESAMPLES = 1357, 1000


class Evaluation(dict[str, float]):
    """Metrics by key.

    Attributes
    ----------
    n : int
        The number of rows.
    classes : int
        The number of classes.
    interval : dict of (float, float)
        95 % intervals by key, if they were asked for. Each contains its metric.
    state : MetricState, optional
        What the metrics were computed from, if they were computed from a state, as on Spark.
    """

    n: int
    classes: int
    interval: dict[str, tuple[float, float]]
    state: MetricState | None = None


def _keys(metrics: str | Iterable[str] | None) -> list[str] | None:
    if metrics is None:
        return None
    return [metrics] if isinstance(metrics, str) else list(metrics)


def _of_target(rows: Rows, place: int) -> Rows:
    """Probabilities of one class and of all others together, and which of the two each row is."""
    if rows.kind == "probs":
        positive = rows.scores[:, place]
    else:
        shifted = np.asarray(rows.scores, dtype=np.float64)
        shifted = np.exp(shifted - shifted.max(axis=1, keepdims=True))
        positive = shifted[:, place] / shifted.sum(axis=1)
    positive = np.asarray(positive, dtype=np.float64)
    probs = np.column_stack([1.0 - positive, positive])
    return Rows(probs, "probs", (rows.labels == place).astype(np.int64), rows.weights)


def evaluate(
    scores: Any,
    labels: Any,
    *,
    kind: Kind = "logits",
    sample_weight: Any = None,
    classes: Any = None,
    metrics: MetricKey | Iterable[MetricKey] | None = None,
    target: Any = None,
    bins: int = 15,
    bootstrap: int | None = None,
    seed: int = SEED,
    progress: Callable[[int, int, float], object] | None = None,
    verbose: bool | None = None,
) -> Evaluation:
    """Metrics of scores against labels.

    Parameters
    ----------
    scores : array of shape (n, k), or (n,) for two classes
        Logits, or what `kind` says. One dimension or one column is the positive class of two.
    labels : array of shape (n,) or (n, k)
        The true classes: column numbers, or names (see `Calibrator.fit`). Or soft labels, for which the proper scores
        `nll`, `brier` and `brier_sum` are defined, as expectations over the labels.
    kind : {"logits", "log-probs", "probs"}
        What the scores are.
    sample_weight : array of shape (n,), optional
        How much each row counts; a weight of 2 is a row that is there twice.
    classes : array of shape (k,), optional
        The class of each column.
    metrics : str or list of str, optional
        The keys of the metrics, which `describe_metric` explains; None: all (`ece_positive` only for two classes).
        One that is undefined for these rows, as `auroc` if every prediction is right, is NaN.
    target : optional
        A class: everything is about its probability against whether a row is of it, as for two classes.
        `ece` is still of the predicted one of the two; `reliability(…, target=…).error` is that of the class itself.
    bins : int
        The number of bins of the binned metrics.
    bootstrap : int, optional
        How many resamples to draw for 95 % intervals, `result.interval`; None: no intervals.
    seed : int
        The seed of the resamples.
    progress : callable, optional
        Called as `progress(done, of, nan)` while resamples are drawn; what it raises ends it, as does Ctrl-C.
    verbose : bool, optional
        Whether to draw a bar for what takes more than two seconds. None: in a terminal and in a notebook.

    Returns
    -------
    Evaluation
        A dict of the metrics by key, with `interval`, `n` and `classes`.
    """
    rows, names, _ = read_rows(scores, labels, kind, sample_weight, classes, soft=target is None)
    if target is not None:
        rows = _of_target(rows, read_target(target, names))
    with shown("intervals", verbose if bootstrap else False, progress) as report:
        values = _native.evaluate(rows, _keys(metrics), bins, bootstrap, seed, report)
    found = Evaluation((key, value) for key, value, _ in values)
    found.n, found.classes = rows.scores.shape
    found.interval = {key: interval for key, _, interval in values if interval is not None}
    return found


@dataclass(frozen=True)
class Reliability:
    """The bins of a reliability diagram; what an empty bin cannot say is NaN.

    Attributes
    ----------
    lower, upper : array of shape (bins,)
        Where each bin begins and ends.
    count : array of shape (bins,)
        Rows in the bin.
    share : array of shape (bins,)
        Its share of the total weight.
    confidence : array of shape (bins,)
        The mean probability.
    accuracy : array of shape (bins,)
        How often it was right.
    gap : array of shape (bins,)
        Confidence minus accuracy: above 0 is overconfident.
    interval : array of shape (bins, 2)
        The 95 % interval of the accuracy (Wilson's).
    consistency : array of shape (bins, 2)
        Where the accuracy of a calibrated classifier would lie in 95 % of samples of this size.
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    count: NDArray[np.int64]
    share: NDArray[np.float64]
    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    gap: NDArray[np.float64]
    interval: NDArray[np.float64]
    consistency: NDArray[np.float64]

    @property
    def error(self) -> float:
        """Σ share · |gap|: the expected calibration error for bins of equal width."""
        return float(np.nansum(self.share * np.abs(self.gap)))


def reliability(
    scores: Any,
    labels: Any,
    *,
    kind: Kind = "logits",
    sample_weight: Any = None,
    classes: Any = None,
    bins: int = 15,
    binning: Binning = "equal-width",
    target: Any = None,
) -> Reliability:
    """Confidence and accuracy by bins.

    Parameters
    ----------
    scores, labels, kind, sample_weight, classes
        As in `evaluate`.
    bins : int
        How many bins.
    binning : {"equal-width", "equal-mass"}
        Whether bins are equally wide or hold equally many rows.
    target : optional
        A class, whose probability is compared with how often it is the label; None: the predicted class of each row.

    Returns
    -------
    Reliability
    """
    rows, names, _ = read_rows(scores, labels, kind, sample_weight, classes)
    place = None if target is None else read_target(target, names)
    return _diagram(_native.reliability(rows, bins, binning, place))


def _diagram(found: str) -> Reliability:
    nothing = {"confidence": np.nan, "accuracy": np.nan, "gap": np.nan, "interval": [np.nan] * 2, "consistency": [np.nan] * 2}
    rows = [{**row, **(row["filled"] or nothing)} for row in json.loads(found)["bins"]]
    columns: dict[str, NDArray[Any]] = {one.name: np.array([row[one.name] for row in rows]) for one in fields(Reliability)}
    return Reliability(**columns)


@dataclass(frozen=True)
class MetricDescription:
    """What a metric is; `print` it.

    Attributes
    ----------
    key, name : str
        What it is called here, and in headings.
    asks : str
        What it asks.
    formula, range : str
        How it is computed, and the values it can have.
    caveat : str
        When it misleads.
    equals : str
        The public package, or the paper, whose values it equals.
    """

    key: str
    name: str
    asks: str
    formula: str
    range: str
    caveat: str
    equals: str

    def __str__(self) -> str:
        lines = [f"{self.key} ({self.name})"]
        lines += [f"  {what}: {getattr(self, what)}" for what in ("asks", "formula", "range", "caveat", "equals")]
        return "\n".join(lines)


def describe_metric(key: MetricKey) -> MetricDescription:
    """Explains a metric, as `ordercal metrics` does on the command line.

    Parameters
    ----------
    key : str
        The key of the metric.

    Returns
    -------
    MetricDescription

    Examples
    --------
    >>> import ordercal
    >>> print(ordercal.describe_metric("accuracy").formula)
    (1/N) Σᵢ 1{argmax pᵢ = yᵢ}
    """
    return MetricDescription(key, *_native.describe_metric(key))


class MetricState:
    """Sums from which every metric can be computed, for rows spread over batches, files or machines.

    Fill states with `update`, join them with `merge` or `+`, read them with `finalize`. Any split of the rows, joined
    in any order, gives the same bytes. Threads may share a state.

    Parameters
    ----------
    classes : int
        The number of classes.
    bins : int
        The number of bins of the binned metrics.
    marginal : bool
        Whether to keep what `marginal_ce` needs, and of two classes `cox_slope` and `cox_intercept`: 30 KB a class,
        and more time than everything else.
    """

    def __init__(self, classes: int, *, bins: int = 15, marginal: bool = False) -> None:
        self._state = _native.State(classes, bins, marginal)

    @property
    def classes(self) -> int:
        """The number of classes."""
        return self._state.classes

    @property
    def bins(self) -> int:
        """The number of bins."""
        return self._state.bins

    @property
    def marginal(self) -> bool:
        """Whether `marginal_ce` is kept."""
        return self._state.marginal

    @property
    def rows(self) -> int:
        """How many rows were taken in."""
        return self._state.rows

    def update(
        self, scores: Any, labels: Any, *, kind: Kind = "logits", sample_weight: Any = None, classes: Any = None
    ) -> MetricState:
        """Takes in rows; none at all is fine.

        Parameters
        ----------
        scores, labels, kind, sample_weight, classes
            As in `evaluate`. A batch in which some classes do not occur needs `classes` if labels are names.

        Returns
        -------
        self
        """
        if len(labels) == 0 and len(array := read_scores(scores, kind)[0]) == 0:
            if array.shape[1] != self.classes:
                raise OrdercalError(f"there are {array.shape[1]} columns of scores for {self.classes} classes")
            return self
        self._state.update(read_rows(scores, labels, kind, sample_weight, classes)[0])
        return self

    def update_arrow(
        self,
        table: Any,
        scores: str | Iterable[str] | None = None,
        labels: str = "label",
        weights: str | None = None,
        *,
        by: Iterable[str] = (),
        kind: Kind = "logits",
        classes: Any = None,
    ) -> dict[tuple[Any, ...], MetricState]:
        """Takes in the rows of a record batch or a table: all of them or, after an error, none.

        Parameters
        ----------
        table, scores, classes
            As in `Calibrator.apply_arrow`.
        labels : str
            The column of labels: numbers of columns, or names of classes.
        weights : str, optional
            The column of weights.
        by : list of str
            Columns whose values divide the rows into groups.
        kind : {"logits", "log-probs", "probs"}
            What the scores are, unless the name of their column says it.

        Returns
        -------
        dict of MetricState
            With `by`, a state for each group of this table, by the tuple of its values; otherwise empty. Their sum
            is what this state took in.
        """
        columns, by = _arrow.score_columns(scores), _arrow.score_columns(by)
        names = _arrow.texts(classes)
        groups = _native.update_arrow(self._state, table, columns, kind, labels, weights, names, by)
        return {tuple(key): MetricState._of(state) for key, state in groups}

    @classmethod
    def _of(cls, state: _native.State) -> MetricState:
        found = cls.__new__(cls)
        found._state = state
        return found

    def merge(self, other: MetricState) -> MetricState:
        """Takes in the rows of another state, which must have the same classes and bins; returns itself."""
        self._state.merge(other._state)
        return self

    def __add__(self, other: object) -> MetricState:
        if not isinstance(other, MetricState):
            return NotImplemented
        return MetricState.from_bytes(self.to_bytes()).merge(other)

    def __radd__(self, other: object) -> MetricState:
        # The 0 that `sum` begins with.
        if isinstance(other, int) and other == 0:
            return MetricState.from_bytes(self.to_bytes())
        return NotImplemented

    def __iadd__(self, other: object) -> MetricState:
        if not isinstance(other, MetricState):
            return NotImplemented
        return self.merge(other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MetricState):
            return NotImplemented
        return self._state.equals(other._state)

    # A state changes.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        marginal = ", marginal=True" if self.marginal else ""
        return f"<MetricState of {self.rows} rows: classes={self.classes}, bins={self.bins}{marginal}>"

    def finalize(self) -> dict[str, float]:
        """The metrics of all rows taken in."""
        return {key: value for key, (value, _) in self._state.finalize().items()}

    def bounds(self) -> dict[str, float]:
        """How far each metric can be from what all rows together would give; 0 for most."""
        return {key: bound for key, (_, bound) in self._state.finalize().items()}

    def interval(self, *, resamples: int = RESAMPLES, seed: int = SEED) -> dict[str, tuple[float, float]]:
        """95 % intervals of the metrics whose chance can be told from the sums.

        These are `accuracy`, `top5`, `ece`, `mce`, `classwise_ece`, `classwise_ece_sum` and, of two classes,
        `ece_positive`; the others need the rows:
        `evaluate(…, bootstrap=…)`.

        Parameters
        ----------
        resamples : int
            How often the noise of the bins is simulated.
        seed : int
            The seed of the simulation.

        Returns
        -------
        dict of (float, float)
        """
        return self._state.intervals(resamples, seed)

    def reliability(self, target: int | None = None) -> Reliability:
        """The reliability diagram of all rows taken in, in bins of equal width.

        Parameters
        ----------
        target : int, optional
            The column of a class; None: the predicted class of each row.

        Returns
        -------
        Reliability
        """
        return _diagram(self._state.reliability(target))

    def to_bytes(self) -> bytes:
        """The state as bytes, the same as `ordercal evaluate --state-out` writes."""
        return self._state.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> MetricState:
        """A state from its bytes."""
        return cls._of(_native.State.from_bytes(data))

    def __reduce__(self) -> tuple[Any, ...]:
        return MetricState.from_bytes, (self.to_bytes(),)
