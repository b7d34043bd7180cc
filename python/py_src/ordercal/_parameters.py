"""Keywords as scikit-learn's estimators have them, and what those of the methods mean; a test checks that each is described."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from ._errors import OrdercalError

Self = TypeVar("Self", bound="HasParameters")

_DESCRIPTIONS = {
    "bins": "The number of bins of each histogram, 1 to 100000.",
    "chains": "Whether there are candidates that read what `diag` or `oi` say.",
    "early_stopping": "Early stopping by the loss on held-out rows; `None` to train on all rows to the end.",
    "effort": "How much work it may do.",
    "folds": "How many folds; without a number 5, or 10 where there are few rows, or 3 where there are many.",
    "hidden": "The number of units of each hidden layer.",
    "input": "The shift that is subtracted from a row of scores.",
    "intervals": "The number of intervals of the grid.",
    "keep_order": "Whether to keep the ranking of every row, by projection onto it; predictions stay.",
    "kind": 'What scores are: "logits", "log-probs" or "probs".',
    "lambda_": "λ ≥ 0, the weight of the penalty λ/2 ‖θ‖² on all weights and biases.",
    "layout": "The placement of the bins.",
    "lines": "The end points of the lines between blocks.",
    "mu": "μ ≥ 0, the weight of the mean square of the biases.",
    "optimizer": "The settings of the optimiser.",
    "polish": "Whether to put a last temperature behind the mixture.",
    "prior": "The weight of the prior of a histogram, in cases; it is divided evenly among the bins. Positive.",
    "seed": "The seed of everything random in the fit.",
    "smoothing": "The weight of the uniform distribution in the result is `smoothing`/(n + 1) for n rows; positive.",
    "smoothness": "The weight of the penalty on changes of f̄′, at least 0.",
    "targets": "The targets of the regression.",
    "top": "Read only so many of the largest scores and the log-sum-exp of the rest, whose gaps share one multiplier "
    "(`oi`, `op`). `None`, or at least the number of classes less one, to read all scores.",
}
_OFF_DIAGONAL = "λ ≥ 0, the weight of the mean square of the off-diagonal weights."
_PENALTY = "λ ≥ 0, the weight of the penalty."
_LAMBDAS = {"ms-odir": _OFF_DIAGONAL, "dir-odir": _OFF_DIAGONAL, "svs": _PENALTY, "sms": _PENALTY}


def description(key: str, keyword: str) -> str:
    """Returns what a keyword of a method means; empty if nobody wrote it down."""
    if keyword == "lambda_" and key in _LAMBDAS:
        return _LAMBDAS[key]
    return _DESCRIPTIONS.get(keyword, "")


class HasParameters:
    """An object whose attributes are the keywords of its `__init__`."""

    @classmethod
    def _names(cls) -> list[str]:
        parameters = list(inspect.signature(cls.__init__).parameters)
        return sorted(parameters[1:])

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The keywords and their values."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self: Self, **params: Any) -> Self:
        """Sets keywords."""
        known = self._names()
        for name, value in params.items():
            if name not in known:
                raise OrdercalError(
                    f"{type(self).__name__} has no keyword `{name}`; it has {', '.join(known)}"
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        parameters = inspect.signature(type(self).__init__).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if not _same(value, parameters[name].default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"


def _same(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except ValueError:
        return False
