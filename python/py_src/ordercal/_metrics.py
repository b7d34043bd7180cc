"""How good probabilities are: metrics, the bins of a diagram, and metrics of data in many places."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._errors import OrdercalError
from ._inputs import read_labels, read_scores, read_weights


class Evaluation(dict[str, float]):
    """Metrics by key; `n` and `classes` say of what, `interval` holds 95 % intervals if asked for."""

    n: int
    classes: int
    interval: dict[str, tuple[float, float]]


def _keys(metrics: str | Iterable[str] | None) -> list[str] | None:
    if metrics is None:
        return None
    return [metrics] if isinstance(metrics, str) else list(metrics)


def evaluate(
    scores: Any,
    labels: Any,
    *,
    kind: str = "logits",
    sample_weight: Any = None,
    classes: Any = None,
    metrics: str | Iterable[str] | None = None,
    bins: int = 15,
    bootstrap: int | None = None,
    seed: int = 1357,
) -> Evaluation:
    """Metrics of scores against labels: all of them, or those in `metrics`.

    With `bootstrap`, `result.interval` holds the 95 % interval of each from that many resamples.
    """
    array, columns = read_scores(scores)
    indices, _ = read_labels(labels, array.shape[1], columns, classes)
    weights = read_weights(sample_weight)
    rows = _native.evaluate(array, kind, indices, weights, _keys(metrics), bins, bootstrap, seed)
    found = Evaluation((key, value) for key, value, _ in rows)
    found.n, found.classes = array.shape
    found.interval = {key: interval for key, _, interval in rows if interval is not None}
    return found


@dataclass(frozen=True)
class Reliability:
    """The bins of a reliability diagram; what an empty bin cannot say is NaN.

    `gap` is confidence minus accuracy: above 0 is overconfident. `interval` is the 95 % interval of the
    accuracy, a row per bin.
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    count: NDArray[np.int64]
    share: NDArray[np.float64]
    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    gap: NDArray[np.float64]
    interval: NDArray[np.float64]

    @property
    def error(self) -> float:
        """Σ share · |gap|: the expected calibration error for bins of equal width."""
        return float(np.nansum(self.share * np.abs(self.gap)))


def reliability(
    scores: Any,
    labels: Any,
    *,
    kind: str = "logits",
    sample_weight: Any = None,
    classes: Any = None,
    bins: int = 15,
    binning: str = "equal-width",
    target: Any = None,
) -> Reliability:
    """Confidence and accuracy by bins, of the predicted class or of one class, the `target`."""
    array, columns = read_scores(scores)
    indices, names = read_labels(labels, array.shape[1], columns, classes)
    weights = read_weights(sample_weight)
    place = None
    if target is not None:
        found = np.flatnonzero(names == target)
        if len(found) != 1:
            raise OrdercalError(f"there is no class {target!r}")
        place = int(found[0])
    rows = json.loads(_native.reliability(array, kind, indices, weights, bins, binning, place))["bins"]
    nothing = {"confidence": np.nan, "accuracy": np.nan, "gap": np.nan, "interval": [np.nan, np.nan]}
    filled = [row["filled"] or nothing for row in rows]

    def column(name: str, source: list[dict[str, Any]]) -> NDArray[np.float64]:
        return np.array([row[name] for row in source], dtype=np.float64)

    return Reliability(
        lower=column("lower", rows),
        upper=column("upper", rows),
        count=column("count", rows).astype(np.int64),
        share=column("share", rows),
        confidence=column("confidence", filled),
        accuracy=column("accuracy", filled),
        gap=column("gap", filled),
        interval=column("interval", filled).reshape(-1, 2),
    )


class MetricState:
    """Sums from which every metric can be computed, for rows spread over batches, files or machines.

    Fill states with `update`, `merge` them, read them with `finalize`. Any split of the rows, merged in any
    order, gives the same bytes. `marginal_ce` is kept only with `marginal=True`: it takes 30 KB a class.
    """

    def __init__(self, classes: int, *, bins: int = 15, marginal: bool = False) -> None:
        self._state = _native.State(classes, bins, marginal)

    @property
    def classes(self) -> int:
        """K."""
        return self._state.classes

    @property
    def rows(self) -> int:
        """How many rows were taken in."""
        return self._state.rows

    def update(
        self, scores: Any, labels: Any, *, kind: str = "logits", sample_weight: Any = None, classes: Any = None
    ) -> MetricState:
        """Takes in rows."""
        array, columns = read_scores(scores)
        indices, _ = read_labels(labels, array.shape[1], columns, classes)
        self._state.update(array, kind, indices, read_weights(sample_weight))
        return self

    def merge(self, other: MetricState) -> MetricState:
        """Takes in the rows of another state."""
        if other is self:
            other = MetricState.from_bytes(other.to_bytes())
        self._state.merge(other._state)
        return self

    def finalize(self) -> dict[str, float]:
        """The metrics of all rows taken in."""
        return {key: value for key, (value, _) in self._state.finalize().items()}

    def bounds(self) -> dict[str, float]:
        """How far each metric can be from what all rows together would give; 0 for most."""
        return {key: bound for key, (_, bound) in self._state.finalize().items()}

    def to_bytes(self) -> bytes:
        """The state as bytes, the same as `ordercal evaluate --state-out` writes."""
        return self._state.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> MetricState:
        """A state from its bytes."""
        found = cls.__new__(cls)
        found._state = _native.State.from_bytes(data)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return MetricState.from_bytes, (self.to_bytes(),)
