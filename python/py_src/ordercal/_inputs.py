"""Whatever holds numbers becomes a numpy array here, with as few copies as possible.

Values are not looked at: whether scores are finite and labels in range is checked once, in the library. What is
looked at is which column is which class: by name wherever both sides have names, and never by a guess.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._errors import OrdercalError, OrdercalTypeError

#: Types that the library reads as they are, the most frequent first.
FLOATS: tuple[np.dtype[Any], ...] = tuple(np.dtype(name) for name in ("float32", "float64", "float16"))


class Rows(NamedTuple):
    """Labelled rows as the native part takes them."""

    scores: NDArray[Any]
    kind: str
    labels: NDArray[np.int64] | NDArray[np.float64]
    weights: NDArray[np.float64] | None = None
    groups: NDArray[np.uint32] | None = None


def as_array(values: Any, what: str = "scores") -> NDArray[Any]:
    """A numpy array of anything that can be seen as one; a view where there is one."""
    if isinstance(values, np.ma.MaskedArray):
        if np.ma.is_masked(values):
            raise OrdercalError(
                f"{what} have masked values, and what stands behind a mask is not data: leave those rows out, "
                "or fill them in (-inf among logits makes a class impossible)"
            )
        return np.ma.getdata(values)
    if hasattr(values, "detach") and hasattr(values, "cpu"):
        # A torch tensor: without its gradient, and where numpy can reach it.
        values = values.detach().cpu()
        if "bfloat16" in str(getattr(values, "dtype", "")):
            values = values.float()
    if isinstance(values, np.ndarray):
        return values
    if hasattr(values, "to_numpy"):
        return np.asarray(values.to_numpy())
    if hasattr(values, "__array__"):
        return np.asarray(values)
    if hasattr(values, "__dlpack__"):
        return np.from_dlpack(values)
    if hasattr(values, "toarray") and hasattr(values, "nnz"):
        raise OrdercalTypeError("scores in a sparse matrix cannot be used: make it dense")
    try:
        return np.asarray(values)
    except ValueError as error:
        raise OrdercalError(f"rows of scores differ in length: {error}") from None


def column_names(scores: Any) -> list[Any] | None:
    """The names of the columns of a data frame; `None` where they are just numbered."""
    if not (hasattr(scores, "columns") and hasattr(scores, "to_numpy")):
        return None
    names = list(scores.columns)
    if len(set(map(str, names))) != len(names):
        raise OrdercalError("two columns of scores have the same name")
    numbered = names == list(range(len(names))) or names == [f"column_{place}" for place in range(len(names))]
    return None if numbered else names


def read_scores(scores: Any, kind: str = "logits") -> tuple[NDArray[Any], list[Any] | None]:
    """A matrix of floats, and the names of its columns if it is a data frame that has some.

    One column, or an array of one dimension, is the positive class of two: its log-odds, probability or
    log-probability.
    """
    if type(scores) is np.ndarray and scores.dtype in FLOATS and scores.ndim == 2 and scores.shape[1] > 1:
        # There is nothing to find out, which would take longer than to calibrate a row.
        return scores if scores.flags.aligned else scores.copy(), None
    names = column_names(scores)
    array = as_array(scores)
    brain = "bfloat16" in str(getattr(scores, "dtype", ""))
    if array.ndim not in (1, 2):
        raise OrdercalError(
            f"scores have the shape {array.shape}: a matrix is needed, a row per example and a column per class"
        )
    if array.dtype.newbyteorder("=") not in FLOATS:
        if array.dtype.kind in "cSUMm":
            raise OrdercalTypeError(f"scores must be numbers, not {array.dtype}")
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            raise OrdercalTypeError(f"scores must be numbers, not {array.dtype}") from None
    if brain and array.ndim == 2:
        array = _renormalised(array, kind)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.ndim == 1 or array.shape[1] == 1:
        array, names = _two_columns(array.reshape(-1), kind), None
    if not array.flags.aligned:
        array = array.copy()
    return array, names


def _renormalised(array: NDArray[Any], kind: str) -> NDArray[Any]:
    """bfloat16 probabilities, which numpy has no type for, made to sum to 1 where rounding alone can be why they do not."""
    # Rounding changes a number by 1 part in 256 at most.
    unit = 2.0**-8
    wide = array.astype(np.float64)
    if kind == "probs":
        sums = wide.sum(axis=1, keepdims=True)
        near = np.abs(sums - 1.0) <= unit + 1e-3
        return np.where(near, wide / np.where(near, sums, 1.0), wide)
    if kind == "log-probs":
        sums = np.exp(wide).sum(axis=1, keepdims=True)
        near = np.abs(sums - 1.0) <= np.expm1(unit * (1.0 + np.log(array.shape[1]))) + 1e-3
        return np.where(near, wide - np.log(np.where(near, sums, 1.0)), wide)
    return array


def _two_columns(positive: NDArray[Any], kind: str) -> NDArray[Any]:
    """Both classes' scores, given those of the positive one."""
    if positive.dtype == np.float16:
        positive = positive.astype(np.float32)
    if kind == "probs":
        return np.column_stack([1.0 - positive, positive])
    if kind == "log-probs":
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.column_stack([np.log(-np.expm1(positive)), positive])
    return np.column_stack([-positive / 2.0, positive / 2.0])


def align(array: NDArray[Any], columns: list[Any] | None, known: list[Any] | None) -> NDArray[Any]:
    """The columns in the order in which they are known, if both have names.

    Raises if the names differ: a column taken for another class would be a silent error.
    """
    if columns is None or known is None:
        return array
    order = _native.match_class_names(list(map(str, columns)), list(map(str, known)))
    return array if order is None else array[:, order]


def _listed(names: list[Any]) -> str:
    shown = ", ".join(map(repr, names[:5]))
    return shown + (f", … ({len(names)} in all)" if len(names) > 5 else "")


def _categories(labels: Any) -> list[Any] | None:
    """The categories of labels that have some, in their order."""
    dtype = getattr(labels, "dtype", None)
    found = getattr(dtype, "categories", None)
    if found is None or type(dtype).__name__ == "Categorical":  # polars' own, in the order of appearance
        return None
    return list(found)


def read_labels(
    labels: Any,
    n_classes: int,
    columns: list[Any] | None = None,
    classes: Any = None,
    *,
    soft: bool = False,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Column numbers, and the class of each column.

    With `soft`, labels may be a matrix of floats, in each row a distribution over the classes; it is returned as it is.

    Which class a column is: what `classes` says; otherwise the name of the column, where scores are a data frame
    with names and labels are such names; otherwise the order of the categories, where labels are categorical.
    Other integers are column numbers, and other names stand in sorted order, as scikit-learn's do, if there is
    one for each column; a warning says so.
    """
    categories = _categories(labels)
    array = as_array(labels, "labels")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if soft and array.ndim == 2:
        return _read_soft_labels(array, column_names(labels), n_classes, columns, classes)
    if array.ndim != 1:
        raise OrdercalError(f"labels have the shape {array.shape}: one label per row is needed")
    if classes is not None:
        names = _read_classes(classes, n_classes)
        return _look_up(array, names), names
    if array.dtype.kind == "f":
        whole = np.isfinite(array) & (array == np.floor(array))
        if not whole.all():
            row = int(np.argmin(whole))
            raise OrdercalError(f"row {row}: the label {array[row]} is not a whole number")
        array = array.astype(np.int64)
    numbers = array.dtype.kind in "iub"
    if columns is not None:
        named = _column_classes(columns, numbers)
        if named is not None:
            return _look_up(array if numbers else array.astype(str), named), named
    if categories is not None and not (numbers and categories == list(range(len(categories)))):
        if len(categories) != n_classes:
            raise OrdercalError(
                f"labels have {len(categories)} categories for {n_classes} classes: "
                "say which class each column is with classes=[…]"
            )
        names = np.asarray(categories)
        return _look_up(array, names), names
    if numbers:
        if array.dtype == np.uint64:
            # The library names the row; what it cannot hold it shows as the nearest value.
            array = np.minimum(array, np.uint64(np.iinfo(np.int64).max))
        return np.ascontiguousarray(array, dtype=np.int64), np.arange(n_classes)
    try:
        names = np.unique(array)
    except TypeError:
        raise OrdercalTypeError("labels of different types cannot be sorted: give classes=[…]") from None
    if len(names) != n_classes:
        raise OrdercalError(
            f"there are {len(names)} different labels for {n_classes} classes: "
            "say which class each column is with classes=[…]"
        )
    warnings.warn(
        "labels are names, and nothing says which column each belongs to: they are taken in sorted order, as "
        f"scikit-learn's, {_listed(names.tolist())}; classes=[…] says it",
        UserWarning,
        stacklevel=4,
    )
    return _look_up(array, names), names


def read_rows(
    scores: Any, labels: Any, kind: str, weights: Any = None, classes: Any = None, *, groups: Any = None, soft: bool = False
) -> tuple[Rows, NDArray[Any], list[Any] | None]:
    """Labelled rows, the class of each column, and the names of the columns if scores are a data frame that has some."""
    array, columns = read_scores(scores, kind)
    indices, names = read_labels(labels, array.shape[1], columns, classes, soft=soft)
    return Rows(array, kind, indices, read_weights(weights), read_groups(groups)), names, columns


def class_names(names: NDArray[Any]) -> tuple[list[str] | None, str | None]:
    """What a model file says of the classes: their names, if they are not numbers of columns, and the type of these."""
    named = not np.array_equal(names, np.arange(len(names)))
    return [str(name) for name in names.tolist()] if named else None, class_type(names)


def class_type(classes: NDArray[Any]) -> str | None:
    """What class names are, for the model file; None if it has no word for it."""
    found = {"U": "text", "i": "integer", "u": "integer", "f": "float", "b": "boolean"}.get(classes.dtype.kind)
    if found is None and all(isinstance(name, str) for name in classes.tolist()):
        return "text"
    return found


def _read_classes(classes: Any, n_classes: int) -> NDArray[Any]:
    names = as_array(classes, "class names")
    if names.ndim != 1 or len(names) != n_classes:
        raise OrdercalError(f"there are {names.size} class names for {n_classes} classes")
    return names


def _read_soft_labels(
    array: NDArray[Any],
    own: list[Any] | None,
    n_classes: int,
    columns: list[Any] | None,
    classes: Any,
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Distributions over the classes in the order of the columns of the scores, and the class of each column."""
    if array.shape[1] != n_classes:
        raise OrdercalError(f"soft labels have {array.shape[1]} columns for {n_classes} classes")
    try:
        array = np.ascontiguousarray(align(array, own, columns), dtype=np.float64)
    except (TypeError, ValueError):
        raise OrdercalTypeError(f"soft labels must be numbers, not {array.dtype}") from None
    if classes is not None:
        return array, _read_classes(classes, n_classes)
    return array, np.arange(n_classes) if columns is None else np.asarray([str(name) for name in columns])


def read_groups(groups: Any) -> NDArray[np.uint32] | None:
    """A number for each group of rows, one per row."""
    if groups is None:
        return None
    array = as_array(groups, "groups")
    if array.ndim != 1:
        raise OrdercalError(f"groups have the shape {array.shape}: one group per row is needed")
    return np.unique(array, return_inverse=True)[1].astype(np.uint32)


def _column_classes(columns: list[Any], numbers: bool) -> NDArray[Any] | None:
    """The classes that the names of columns are; `None` if labels are numbers and names are not."""
    if not numbers:
        return np.asarray([str(name) for name in columns])
    try:
        return np.asarray([int(str(name)) for name in columns], dtype=np.int64)
    except ValueError:
        return None


def _look_up(labels: NDArray[Any], names: NDArray[Any]) -> NDArray[np.int64]:
    places = {name: place for place, name in enumerate(names.tolist())}
    if len(places) != len(names):
        raise OrdercalError("two classes have the same name")
    found = np.empty(len(labels), dtype=np.int64)
    for row, label in enumerate(labels.tolist()):
        place = places.get(label)
        if place is None:
            raise OrdercalError(
                f"row {row}: the label {label!r} is not one of the classes, {_listed(names.tolist())}; "
                "classes=[…] says which class each column is"
            )
        found[row] = place
    return found


def read_weights(weights: Any) -> NDArray[np.float64] | None:
    """One 64-bit float per row."""
    if weights is None:
        return None
    array = np.asarray(as_array(weights, "weights"), dtype=np.float64)
    if array.ndim != 1:
        raise OrdercalError(f"weights have the shape {array.shape}: one weight per row is needed")
    return array


def read_target(target: Any, names: NDArray[Any]) -> int:
    """The column of a class."""
    found = np.flatnonzero(names == target)
    if len(found) != 1:
        raise OrdercalError(f"there is no class {target!r}; the classes are {_listed(names.tolist())}")
    return int(found[0])
