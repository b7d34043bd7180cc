"""Whatever holds numbers becomes a numpy array here, with as few copies as possible.

Values are not looked at: whether scores are finite and labels in range is checked once, in the library.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._errors import OrdercalError, OrdercalTypeError

#: Types that the library reads as they are.
FLOATS: tuple[np.dtype[Any], ...] = tuple(np.dtype(name) for name in ("float16", "float32", "float64"))


def as_array(values: Any) -> NDArray[Any]:
    """A numpy array of anything that can be seen as one; a view where there is one."""
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


def read_scores(scores: Any) -> tuple[NDArray[Any], list[str] | None]:
    """A matrix of floats, and the names of its columns if it is a data frame."""
    names = None
    if hasattr(scores, "columns") and hasattr(scores, "to_numpy"):
        names = [str(name) for name in scores.columns]
    array = as_array(scores)
    if array.ndim != 2:
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
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if not array.flags.aligned:
        array = array.copy()
    return array, names


def read_labels(
    labels: Any,
    n_classes: int,
    columns: list[str] | None = None,
    classes: Any = None,
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Column numbers, and the class of each column.

    Integers are column numbers. Names are looked up in `classes`, then among the columns of a data frame,
    and otherwise stand in sorted order, as scikit-learn's do.
    """
    array = as_array(labels)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise OrdercalError(f"labels have the shape {array.shape}: one label per row is needed")
    if classes is not None:
        names = as_array(classes)
        if names.ndim != 1 or len(names) != n_classes:
            raise OrdercalError(f"there are {names.size} class names for {n_classes} classes")
        return _look_up(array, names), names
    if array.dtype.kind == "f":
        whole = np.isfinite(array) & (array == np.floor(array))
        if not whole.all():
            row = int(np.argmin(whole))
            raise OrdercalError(f"row {row}: the label {array[row]} is not a whole number")
        array = array.astype(np.int64)
    if array.dtype.kind in "iub":
        if array.dtype == np.uint64:
            # The library names the row; what it cannot hold it shows as the nearest value.
            array = np.minimum(array, np.uint64(np.iinfo(np.int64).max))
        return np.ascontiguousarray(array, dtype=np.int64), np.arange(n_classes)
    if columns is not None and set(map(str, array)) <= set(columns):
        names = np.asarray(columns)
        return _look_up(array.astype(str), names), names
    try:
        names = np.unique(array)
    except TypeError:
        raise OrdercalTypeError("labels of different types cannot be sorted: give classes=[…]") from None
    if len(names) != n_classes:
        raise OrdercalError(
            f"there are {len(names)} different labels for {n_classes} classes: "
            "say which class each column is with classes=[…]"
        )
    return _look_up(array, names), names


def _look_up(labels: NDArray[Any], names: NDArray[Any]) -> NDArray[np.int64]:
    places = {name: place for place, name in enumerate(names.tolist())}
    if len(places) != len(names):
        raise OrdercalError("two classes have the same name")
    found = np.empty(len(labels), dtype=np.int64)
    for row, label in enumerate(labels.tolist()):
        place = places.get(label)
        if place is None:
            raise OrdercalError(f"row {row}: the label {label!r} is not one of the classes")
        found[row] = place
    return found


def read_weights(weights: Any) -> NDArray[np.float64] | None:
    """One 64-bit float per row."""
    if weights is None:
        return None
    array = np.asarray(as_array(weights), dtype=np.float64)
    if array.ndim != 1:
        raise OrdercalError(f"weights have the shape {array.shape}: one weight per row is needed")
    return array
