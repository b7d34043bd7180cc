"""Tables of pyarrow, polars, duckdb and any other library that speaks Arrow's C data interface.

Nothing here needs one of them: tables come and go as capsules, and the native part reads the columns where they lie.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from . import _native
from ._errors import OrdercalError


def score_columns(scores: str | Iterable[str] | None) -> list[str]:
    """Names of columns, or beginnings with a `*`; none: found by the usual names."""
    if scores is None:
        return []
    return [scores] if isinstance(scores, str) else list(scores)


def texts(names: Any) -> list[str] | None:
    """Names of classes as the library has them."""
    return None if names is None else [str(name) for name in np.asarray(names).tolist()]


def is_wide(dtype: Any) -> bool:
    """Whether results have 64 bits."""
    wanted = np.dtype(dtype)
    if wanted not in (np.float32, np.float64):
        raise OrdercalError(f"results are float32 or float64, not {wanted}")
    return bool(wanted == np.float64)


def skips(errors: str) -> bool:
    """Whether rows that cannot be calibrated get nulls."""
    if errors not in ("raise", "null"):
        raise OrdercalError(f"errors is `raise` or `null`, not `{errors}`")
    return errors == "null"


def _library(table: Any) -> tuple[str, str]:
    kind = type(table)
    return kind.__module__.partition(".")[0], kind.__name__


def is_stream(table: Any) -> bool:
    """Whether a table is read once, so that its results had better be computed while they are read."""
    return _library(table) not in (("pyarrow", "Table"), ("polars", "DataFrame"), ("pandas", "DataFrame"))


def like(table: Any, result: Any) -> Any:
    """The result as what the table is, where its library has a constructor for it."""
    library, name = _library(table)
    if library == "pyarrow":
        import pyarrow

        if name == "RecordBatch":
            return pyarrow.record_batch(result)
        if name == "Table":
            return pyarrow.table(result)
        return pyarrow.RecordBatchReader.from_stream(result)
    if library == "polars":
        import polars

        return polars.DataFrame(result)
    if library == "nanoarrow":
        import nanoarrow

        return nanoarrow.Array(result) if name == "Array" else nanoarrow.ArrayStream(result)
    return result


def apply(
    model: _native.Model | _native.Groups,
    table: Any,
    scores: str | Iterable[str] | None,
    source: str,
    output: str,
    dtype: Any,
    classes: Any,
    known: list[Any] | None,
    name: str | None,
    errors: str,
) -> Any:
    """The table with calibrated scores."""
    result = _native.apply_arrow(
        model,
        table,
        score_columns(scores),
        source,
        output,
        None if dtype is None else is_wide(dtype),
        texts(classes),
        None if known is None else [str(column) for column in known],
        name,
        skips(errors),
        is_stream(table),
    )
    return like(table, result)
