"""A calibrator per group of rows (country, tenant, device), shrunk towards that of all rows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _arrow, _native
from ._calibrator import Calibrator, _class_names, _from_model, calibrator
from ._errors import OrdercalError
from ._inputs import align, as_array, class_names, read_rows, read_scores
from ._types import Kind, MethodKey

#: The fewest rows of a group, the folds by which shrinkage is chosen, and their seed, if nobody says.
MIN_ROWS, FOLDS, SEED = 50, 5, 1357


def read_groups(groups: Any, by: Iterable[str] | None = None) -> tuple[list[str], list[list[str]]]:
    """The names of the columns, and for each row their values as text."""
    if isinstance(groups, Mapping) or hasattr(groups, "columns"):
        names = list(groups) if isinstance(groups, Mapping) else list(groups.columns)
        wanted = names if by is None else list(by)
        missing = [name for name in wanted if name not in names]
        if missing:
            raise OrdercalError(f"there is no column {missing[0]!r} among the groups; the columns are {names}")
        columns = [as_array(groups[name], "groups") for name in wanted]
    else:
        array = as_array(groups, "groups")
        if array.ndim not in (1, 2):
            raise OrdercalError(f"groups have the shape {array.shape}: one per row is needed, or a column per level")
        columns = [array] if array.ndim == 1 else list(array.T)
        wanted = [f"group_{place}" for place in range(len(columns))] if by is None else list(by)
        if len(wanted) != len(columns):
            raise OrdercalError(f"there are {len(wanted)} names for {len(columns)} columns of groups")
    texts = [[group_text(value) for value in column.tolist()] for column in columns]
    return [str(name) for name in wanted], [list(key) for key in zip(*texts, strict=True)]


def group_text(value: Any) -> str:
    """A value as the library writes it: whole numbers have no point, booleans are numbers."""
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    return str(value)


def _method(method: MethodKey | Calibrator, kind: Kind) -> Calibrator:
    return calibrator(method, kind=kind) if isinstance(method, str) else method


class GroupedModel:
    """Calibrators of groups; `fit_groups` makes one.

    Attributes
    ----------
    by : list of str
        The columns by which rows are divided, from the coarsest on.
    classes_ : array of shape (k,)
        The class of each column.
    order_preserving_ : bool
        Whether the ranking of every row is kept.
    report_ : namespace
        `nll_pooled`, `nll_separate` and `nll_after`: the mean NLL of held-out rows with one model for all, with each
        group's map by itself, and as mixed; `shrinkage`, the chosen m of each level; and `groups`, a dict for each group
        with `key`, `rows`, `weight`, `nll_before`, `nll_parent`, `nll_after` and, if it has no map of its own, `fallback`.
    """

    def __init__(self, native: _native.Groups) -> None:
        self._native = native
        self.by: list[str] = native.by
        pooled = native.model([])
        self.kind: Kind = pooled.kind or "logits"  # type: ignore[assignment]
        self.classes_ = _class_names(pooled)
        self._names = pooled.class_names
        self.order_preserving_: bool = native.order_preserving
        self.report_ = SimpleNamespace(**json.loads(native.report))

    def __repr__(self) -> str:
        own = sum(group["fallback"] is None for group in self.report_.groups)
        return f"<GroupedModel by {', '.join(self.by)}: {len(self.report_.groups)} groups, {own} with their own map>"

    def model(self, *key: Any) -> Calibrator:
        """The calibrator of a group, its own or the one that it falls back to; without a key that of all rows.

        Parameters
        ----------
        *key
            The values of the columns.

        Returns
        -------
        Calibrator
        """
        return _from_model(self._native.model([group_text(part) for part in key]), self.kind)

    def _apply(self, scores: Any, groups: Any, to: str, dtype: Any) -> NDArray[Any]:
        array, columns = read_scores(scores, self.kind)
        array = align(array, columns, self._names)
        wide = array.itemsize == 8 if dtype is None else _arrow.is_wide(dtype)
        named = isinstance(groups, Mapping) or hasattr(groups, "columns")
        _, keys = read_groups(groups, self.by if named else None)
        if len(keys) != len(array):
            raise OrdercalError(f"there are {len(keys)} groups for {len(array)} rows")
        if keys and len(keys[0]) != len(self.by):
            raise OrdercalError(f"groups are by {', '.join(self.by)}, but {len(keys[0])} columns were given")
        if len(array) == 0:
            return np.empty(array.shape, dtype=np.float64 if wide else np.float32)
        return self._native.apply(array, self.kind, to, keys, wide)

    def predict_proba(self, scores: Any, groups: Any, *, dtype: Any = None) -> NDArray[Any]:
        """Calibrated probabilities, each row by the model of its group.

        Parameters
        ----------
        scores : array of shape (n, k)
            As in the fit.
        groups : array of shape (n,) or (n, levels), data frame or dict of columns
            The group of each row; one that was not seen in the fit uses the next coarser, or that of all rows.
        dtype : {float32, float64}, optional
            The type of the result; None: float64 for float64 scores, and float32 for all others.

        Returns
        -------
        array of shape (n, k)
        """
        return self._apply(scores, groups, "probs", dtype)

    def predict_logits(self, scores: Any, groups: Any, *, dtype: Any = None) -> NDArray[Any]:
        """Calibrated logits: their softmax is `predict_proba`. Parameters as there."""
        return self._apply(scores, groups, "logits", dtype)

    def apply_arrow(
        self,
        table: Any,
        scores: str | Iterable[str] | None = None,
        *,
        output: Kind = "probs",
        name: str | None = None,
        classes: Any = None,
        dtype: Any = None,
        errors: str = "raise",
    ) -> Any:
        """Calibrates a table that has the columns `by`; everything else as in `Calibrator.apply_arrow`."""
        return _arrow.apply(
            self._native, table, scores, self.kind, output, dtype, classes, self._names, name, errors
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a model file, which `ordercal apply` and `GroupedModel.load` read."""
        self._native.save(os.fspath(path))

    def to_bytes(self) -> bytes:
        """The bytes of the model file."""
        return self._native.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> GroupedModel:
        """Models from the bytes of their file."""
        return cls(_native.Groups.from_bytes(data))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> GroupedModel:
        """Reads a model file of `fit_groups`, or of `ordercal fit --by`."""
        return cls(_native.Groups.load(os.fspath(path)))

    def __reduce__(self) -> tuple[Any, ...]:
        return GroupedModel.from_bytes, (self.to_bytes(),)


def fit_groups(
    scores: Any,
    labels: Any,
    groups: Any,
    *,
    by: Iterable[str] | None = None,
    method: MethodKey | Calibrator = "auto",
    group_method: MethodKey | Calibrator = "ts",
    min_rows: int = MIN_ROWS,
    folds: Any = FOLDS,
    seed: int = SEED,
    kind: Kind = "logits",
    sample_weight: Any = None,
    classes: Any = None,
) -> GroupedModel:
    """Fits a calibrator for all rows and one for each group, and mixes the two as held-out rows advise.

    The map of a group reads what the model of all rows (or of the next coarser group) makes of the scores, and gets the
    weight n/(n + m) for n rows. m is chosen on held-out rows of all groups together, so that many small groups help each
    other.

    Parameters
    ----------
    scores, labels, sample_weight, classes
        As in `Calibrator.fit`.
    groups : array of shape (n,) or (n, levels), data frame or dict of columns
        The group of each row; columns from the coarsest on.
    by : list of str, optional
        The names of the columns, by which `apply_arrow` and the command line find them again.
    method : str or Calibrator
        The method for all rows.
    group_method : str or Calibrator
        The method for the rows of a group.
    min_rows : int
        Groups of fewer rows use the model of the next coarser group, or of all rows.
    folds : int or array of shape (n,)
        The number of folds by which m is chosen, or the fold of each row, counted from 0.
    seed : int
        The seed of the folds if their number is given.
    kind : {"logits", "log-probs", "probs"}
        What the scores are.

    Returns
    -------
    GroupedModel
    """
    rows, names, _ = read_rows(scores, labels, kind, sample_weight, classes)
    wanted, keys = read_groups(groups, by)
    fold_of = None if np.ndim(folds) == 0 else np.asarray(folds).astype(np.uint32)
    native = _native.fit_groups(
        _method(method, kind)._method(),
        _method(group_method, kind)._method(),
        rows,
        wanted,
        keys,
        min_rows,
        folds if fold_of is None else int(fold_of.max(initial=0)) + 1,
        seed,
        class_names(names),
        fold_of,
    )
    return GroupedModel(native)
