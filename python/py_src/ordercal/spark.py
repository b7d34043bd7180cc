"""Calibration of Spark data frames: `apply`, `evaluate`, `fit` and `fit_groups`.

Each is a thin layer of Spark's Arrow functions over what the package does with one table: nothing is computed twice, and a
task that is run again gives the same bytes. Needs pyspark 4.0 or newer and pyarrow; the package must be installed where the
executors are. Works with classic sessions and with Spark Connect.
"""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import BinaryType, IntegralType, StringType, StructField, StructType
from pyspark.taskcontext import TaskContext

from . import _native
from ._arrow import score_columns
from ._calibrator import Calibrator, calibrator
from ._errors import OrdercalError
from ._groups import FOLDS, MIN_ROWS, SEED, GroupedModel, group_text
from ._inputs import Rows, read_labels
from ._metrics import Evaluation, MetricState
from ._types import Kind, MethodKey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["apply", "evaluate", "fit", "fit_groups", "groups_table"]

#: The most rows that a fit collects if nobody says.
MAX_ROWS = 1_000_000

#: How many states are merged by one task.
FAN_IN = 16

Batches = Iterator[pa.RecordBatch]


# -- on executors --------------------------------------------------------------------------------------------


def _partition() -> int:
    context = TaskContext.get()
    if context is None:
        return 0
    # A task has as many threads as Spark gave it processors.
    os.environ.setdefault("RAYON_NUM_THREADS", str(max(1, context.cpus())))
    return int(context.partitionId())


def _stream(batches: Batches) -> pa.RecordBatchReader | None:
    """The batches of a partition as one table, so that rows are counted from its begin; None if there are none."""
    first = next(batches, None)
    if first is None:
        return None
    return pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], batches))


def _located(partition: int, error: Exception) -> OrdercalError:
    text = str(error).removeprefix("Compute error: ")
    return OrdercalError(f"partition {partition}: {text}")


class _Shared:
    """Models that travel once to each executor, or inside the function where there is no broadcast."""

    def __init__(self, df: DataFrame, value: Any) -> None:
        self._value = None
        self._broadcast = None
        if _is_classic(df):
            self._broadcast = df.sparkSession.sparkContext.broadcast(value)
        else:
            self._value = value

    def get(self) -> Any:
        """The models, where they are used."""
        return self._value if self._broadcast is None else self._broadcast.value


def _is_classic(df: DataFrame) -> bool:
    """Whether a data frame is of a classic session, not of Spark Connect."""
    return hasattr(df.sparkSession, "_jsparkSession")


# -- apply ---------------------------------------------------------------------------------------------------


def apply(
    df: DataFrame,
    model: Calibrator | GroupedModel,
    scores: str | Iterable[str] | None = "logits",
    output: Kind = "probs",
    *,
    name: str | None = None,
    classes: Any = None,
    errors: str = "raise",
) -> DataFrame:
    """Adds calibrated scores to a data frame, by `mapInArrow`.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        A column of arrays, or a column per class; for a `GroupedModel` also its columns `by`.
    model : Calibrator or GroupedModel
        A fitted model.
    scores : str or list of str
        The column of arrays, or the columns of the classes, `"logit_*"` being all that begin so.
    output : {"probs", "logits", "log-probs"}
        What is added.
    name, classes
        As in `Calibrator.apply_arrow`.
    errors : {"raise", "null"}
        What to do about rows that cannot be calibrated: an error that names partition, row and column, or nulls.

    Returns
    -------
    pyspark.sql.DataFrame
    """
    how: dict[str, Any] = {"output": output, "name": name, "classes": classes, "errors": errors}
    columns = score_columns(scores) or None
    shared = _Shared(df, model)
    given = to_arrow_schema(df.schema, timezone="UTC")
    # What the result's columns are, an empty batch tells; those that are carried through stay what they are to Spark.
    found = model.apply_arrow(pa.RecordBatch.from_pylist([], schema=given), columns, **how).schema
    carried = {field.name for field in given if field == found.field(field.name)}
    new = from_arrow_schema(pa.schema([field for field in found if field.name not in carried]))
    schema = StructType([df.schema[name] if name in carried else new[name] for name in found.names])

    def run(batches: Batches) -> Batches:
        partition = _partition()
        stream = _stream(batches)
        if stream is None:
            return
        try:
            yield from shared.get().apply_arrow(stream, columns, **how)
        except (OrdercalError, pa.ArrowException, OSError) as error:
            raise _located(partition, error) from None

    return df.mapInArrow(run, schema)


# -- evaluate ------------------------------------------------------------------------------------------------


def _known(df: DataFrame, *names: str | None) -> None:
    for name in names:
        if name is not None and name not in df.columns:
            raise OrdercalError(f"there is no column `{name}`; the columns are {', '.join(df.columns)}")


def _wide(df: DataFrame, columns: list[str]) -> list[str]:
    """The columns of the scores, patterns resolved."""
    found = [c for p in columns for c in df.columns if c == p or (p.endswith("*") and c.startswith(p[:-1]))]
    if not found:
        _known(df, columns[0])
    return found


def _class_count(df: DataFrame, scores: list[str], classes: Any) -> int:
    if classes is not None:
        return len(list(classes))
    schema = to_arrow_schema(df.schema)
    if len(scores) == 1 and scores[0] in schema.names and pa.types.is_list(schema.field(scores[0]).type):
        first = df.select(F.size(F.col(scores[0])).alias("k")).where("k >= 0").first()
        if first is None:
            raise OrdercalError("there are no rows")
        return int(first["k"])
    if any(pattern.endswith("*") for pattern in scores):
        prefixes = tuple(pattern.removesuffix("*") for pattern in scores)
        return sum(column.startswith(prefixes) for column in schema.names)
    return max(len(scores), 2)


def evaluate(
    df: DataFrame,
    scores: str | Iterable[str] = "logits",
    labels: str = "label",
    weights: str | None = None,
    by: str | Iterable[str] | None = None,
    *,
    kind: Kind = "logits",
    classes: Any = None,
    bins: int = 15,
    marginal: bool = False,
) -> Any:
    """Metrics of a data frame: a state for each partition, merged by a tree of tasks.

    The result is that of a `MetricState` of all rows, to the last bit, however they are divided.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        Scores and labels; what `apply` returned, with `scores="probs"`, to measure a model.
    scores, labels, weights, kind, classes
        As in `MetricState.update_arrow`.
    by : str or list of str, optional
        Columns whose values divide the rows into groups.
    bins, marginal
        As in `MetricState`.

    Returns
    -------
    Evaluation
        With `n`, `classes` and the `state`; with `by`, a dict of them by the tuple of a group's values.
    """
    columns, groups = score_columns(scores), score_columns(by)
    count = _class_count(df, columns, classes)
    states = _states(df, columns, labels, weights, groups, kind, classes, (count, bins, marginal))
    found: dict[tuple[Any, ...], MetricState] = {}
    for row in states.collect():
        *key, data = row
        state = MetricState.from_bytes(bytes(data))
        known = found.get(tuple(key))
        found[tuple(key)] = state if known is None else known.merge(state)
    if not groups:
        if () not in found:
            raise OrdercalError("there are no rows")
        return _evaluation(found[()])
    return {key: _evaluation(found[key]) for key in sorted(found)}


def _evaluation(state: MetricState) -> Evaluation:
    found = Evaluation(state.finalize())
    found.n, found.classes, found.interval = state.rows, state.classes, {}
    found.state = state
    return found


def _states(
    df: DataFrame,
    columns: list[str],
    labels: str,
    weights: str | None,
    groups: list[str],
    kind: Kind,
    classes: Any,
    form: tuple[int, int, bool],
) -> DataFrame:
    """A data frame of few rows: the values of a group, and the bytes of a state."""
    _known(df, *groups)
    for name in groups:
        if not isinstance(df.schema[name].dataType, (IntegralType, StringType)):
            # Dates, times and the like are told apart by what they look like.
            df = df.withColumn(name, F.col(name).cast("string"))
    schema = StructType([*(df.schema[name] for name in groups), StructField("state", BinaryType())])
    arrow = to_arrow_schema(schema)

    def batch(found: dict[tuple[Any, ...], MetricState]) -> pa.RecordBatch:
        rows = [dict(zip(arrow.names, (*key, state.to_bytes()), strict=True)) for key, state in found.items()]
        return pa.RecordBatch.from_pylist(rows, schema=arrow)

    def count(batches: Batches) -> Batches:
        partition = _partition()
        stream = _stream(batches)
        if stream is None:
            return
        all_rows = MetricState(form[0], bins=form[1], marginal=form[2])
        try:
            found = all_rows.update_arrow(stream, columns, labels, weights, by=groups, kind=kind, classes=classes)
        except (OrdercalError, pa.ArrowException, OSError) as error:
            raise _located(partition, error) from None
        if groups or all_rows.rows:
            yield batch(found if groups else {(): all_rows})

    def merge(batches: Batches) -> Batches:
        found: dict[tuple[Any, ...], MetricState] = {}
        for part in batches:
            for row in part.to_pylist():
                *key, data = row.values()
                state = MetricState.from_bytes(data)
                known = found.get(tuple(key))
                found[tuple(key)] = state if known is None else known.merge(state)
        if found:
            yield batch(found)

    states = df.mapInArrow(count, schema)
    # How many partitions there are only a classic session can tell; elsewhere one round of merging has to do.
    parts = df.rdd.getNumPartitions() if _is_classic(df) else FAN_IN * 2
    while parts > FAN_IN:
        parts = -(-parts // FAN_IN)
        # By a shuffle: without one, Spark would give the work before it to as few tasks.
        states = states.repartition(parts, *groups).mapInArrow(merge, schema)
    return states


# -- fit -----------------------------------------------------------------------------------------------------

_HASH, _WEIGHT = "__ordercal_hash", "__ordercal_weight"


def _hash(seed: int, ids: list[str]) -> Any:
    """A number that depends on the row alone, not on the partition it is in."""
    return F.xxhash64(F.lit(seed), *map(F.col, ids))


def _budget(counts: dict[Any, int], max_rows: int) -> dict[Any, float]:
    """The chance of a row of each class to be taken: all of the rare ones, and equally many of the others."""
    left, budget = max_rows, {}
    for place, (label, count) in enumerate(sorted(counts.items(), key=lambda entry: entry[1])):
        share = left / (len(counts) - place)
        taken = min(float(count), share)
        budget[label] = taken / count
        left -= int(taken)
    return budget


def _collect(
    df: DataFrame,
    columns: list[str],
    labels: str,
    weights: str | None,
    id: str | Iterable[str] | None,
    max_rows: int,
    seed: int,
) -> tuple[pa.Table, str | None]:
    """At most about `max_rows` rows with their weights, whichever partitions they are in; and what was done, in words."""
    wide = _wide(df, columns)
    ids = score_columns(id) or [*wide, labels]
    weight = F.col(weights).cast("double") if weights else F.lit(1.0)
    rows = df.select(*wide, labels, weight.alias(_WEIGHT), _hash(seed, ids).alias(_HASH))
    counts = {row[0]: row[1] for row in df.groupBy(labels).count().collect()}
    total = sum(counts.values())
    if total == 0:
        raise OrdercalError("there are no rows")
    said = None
    if total > max_rows:
        chances = _budget(counts, max_rows)
        # The upper half of the hash as a number from 0 to 1.
        number = F.shiftrightunsigned(F.col(_HASH), 11).cast("double") / float(1 << 53)
        limit = F.create_map(*itertools.chain.from_iterable((F.lit(k), F.lit(v)) for k, v in chances.items()))
        rows = rows.where(number < limit[F.col(labels)])
    table = rows.toArrow()
    if total > max_rows:
        label_values = np.asarray(table[labels].to_pylist(), dtype=object)
        kept = {label: int((label_values == label).sum()) for label in counts}
        factor = np.array([counts[label] / kept[label] for label in label_values])
        scaled = table[_WEIGHT].to_numpy() * factor
        table = table.set_column(table.schema.get_field_index(_WEIGHT), _WEIGHT, pa.array(scaled))
        said = (
            f"fitted to a sample of {len(table)} of {total} rows, drawn by a hash of {', '.join(ids)} and stratified by "
            f"class, with the matching weights; max_rows={total} takes all"
        )
    return _in_order(table), said


def _in_order(table: pa.Table) -> pa.Table:
    """The rows in the order of their hashes, which is the same for every partitioning."""
    return table.take(pa.array(np.argsort(table[_HASH].to_numpy(), kind="stable")))


def _folds(table: pa.Table, folds: int) -> np.ndarray[Any, Any]:
    hashes: np.ndarray[Any, Any] = table[_HASH].to_numpy()
    return (hashes % folds).astype(np.uint32)


def _matrix(table: pa.Table, columns: list[str]) -> np.ndarray[Any, Any]:
    if len(columns) == 1 and pa.types.is_list(table.schema.field(columns[0]).type):
        lists = table[columns[0]].combine_chunks()
        if lists.null_count or lists.values.null_count:
            raise OrdercalError(f"the column `{columns[0]}` has missing values; leave those rows out")
        lengths = np.diff(lists.offsets.to_numpy())
        if len(lengths) and (lengths != lengths[0]).any():
            raise OrdercalError(f"the arrays of the column `{columns[0]}` differ in length")
        values = np.asarray(lists.flatten().to_numpy(zero_copy_only=False))
        return values.reshape(len(table), -1)
    return np.column_stack([table[column].to_numpy() for column in columns])


def _rows(table: pa.Table, labels: str) -> tuple[Any, Any, Any]:
    names = [name for name in table.schema.names if name not in (labels, _HASH, _WEIGHT)]
    weights = table[_WEIGHT].to_numpy()
    return _matrix(table, names), np.asarray(table[labels].to_pylist()), None if (weights == 1.0).all() else weights


def fit(
    df: DataFrame,
    method: MethodKey | Calibrator = "auto",
    scores: str | Iterable[str] = "logits",
    labels: str = "label",
    weights: str | None = None,
    *,
    kind: Kind = "logits",
    classes: Any = None,
    id: str | Iterable[str] | None = None,
    max_rows: int = MAX_ROWS,
    seed: int = SEED,
) -> Calibrator:
    """Fits a calibrator to a data frame.

    Up to `max_rows` rows are collected. Of more, a sample is: a row is in it if a hash of its `id` is small enough, whichever
    partition it is in; rare classes are taken whole, and rows are weighted by how many each stands for. The order of the
    rows is that of the hashes, so the result does not depend on the partitions. `report_.notes` says what was done.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        Scores and labels.
    method : str or Calibrator
        The method.
    scores, labels, weights, kind, classes
        As in `MetricState.update_arrow`.
    id : str or list of str, optional
        What tells rows apart; None: scores and label themselves.
    max_rows : int
        The most rows that are collected, about.
    seed : int
        The seed of the hash.

    Returns
    -------
    Calibrator
    """
    found = calibrator(method, kind=kind) if isinstance(method, str) else method
    columns = score_columns(scores)
    table, said = _collect(df, columns, labels, weights, id, max_rows, seed)
    matrix, truth, row_weights = _rows(table, labels)
    found.fit(matrix, truth, row_weights, classes=classes)
    if said is not None:
        warnings.warn(said, UserWarning, stacklevel=2)
        found.report_.notes.append(said)
    return found


def fit_groups(
    df: DataFrame,
    by: str | Iterable[str],
    *,
    method: MethodKey | Calibrator = "auto",
    group_method: MethodKey | Calibrator = "ts",
    scores: str | Iterable[str] = "logits",
    labels: str = "label",
    weights: str | None = None,
    kind: Kind = "logits",
    classes: Any = None,
    min_rows: int = MIN_ROWS,
    id: str | Iterable[str] | None = None,
    max_rows: int = MAX_ROWS,
    folds: int = FOLDS,
    seed: int = SEED,
) -> GroupedModel:
    """Fits a calibrator for all rows, as `fit` does, and one for each group where its rows are, by `applyInArrow`.

    A group's map reads what the model of all rows, or of the next coarser group, makes of the scores, and gets the weight
    n/(n + m) for n rows, with m chosen on held-out rows of all groups of a level together. Groups of fewer than `min_rows` use
    the model of the next coarser group, or of all rows.

    The fold of a row is a hash of its `id`. The result is that of `ordercal.fit_groups` with these `folds`, on the rows in
    the order of the hashes, if there are at most `max_rows`. The rows of a group must fit into the memory of one task.

    Parameters
    ----------
    df, method, scores, labels, weights, kind, classes, id, max_rows
        As in `fit`, for the model of all rows.
    by : str or list of str
        The columns whose values are the groups, from the coarsest on.
    group_method, min_rows, folds, seed
        As in `ordercal.fit_groups`.

    Returns
    -------
    GroupedModel
        `groups_table` shows it as a data frame.
    """
    groups, columns = score_columns(by), score_columns(scores)
    _known(df, *groups, labels, weights)
    if not groups:
        raise OrdercalError("there are no groups: by must name at least one column")
    wide = _wide(df, columns)
    table, said = _collect(df, wide, labels, weights, id, max_rows, seed)
    roots = _roots(table, said, method, labels, kind, classes, folds)
    small = calibrator(group_method, kind=kind) if isinstance(group_method, str) else group_method
    how = small._method()
    tree = _native.GroupTree([root._fitted() for root in roots], how, groups, min_rows)
    hashed = _hash(seed, score_columns(id) or [*wide, labels]).alias(_HASH)
    selected = df.select(*groups, *wide, labels, *([weights] if weights else []), hashed)
    maps: dict[tuple[str, ...], Any] = {}
    for level in range(1, len(groups) + 1):
        shared = _Shared(df, (roots, maps))
        task = _group_task(shared, how, wide, labels, weights, kind, min_rows, folds)
        parts = selected.groupBy(*groups[:level]).applyInArrow(task, from_arrow_schema(_PART)).collect()
        found = [
            (
                list(part["key"]),
                (
                    (part["rows"], part["weight"]),
                    (part["nll_before"], part["separate"]),
                    list(part["totals"]),
                    list(part["kept"]),
                    [None if own is None else bytes(own) for own in part["own"]],
                ),
            )
            for part in parts
        ]
        maps = {tuple(key): own for key, own in tree.add_level(found)}
    return GroupedModel(tree.finish())


def _roots(
    table: pa.Table,
    said: str | None,
    method: MethodKey | Calibrator,
    labels: str,
    kind: Kind,
    classes: Any,
    folds: int,
) -> list[Calibrator]:
    """The models of all rows that were fitted without each fold, and the one fitted to every row."""
    fold_of = _folds(table, folds)
    matrix, truth, weights = _rows(table, labels)
    how = calibrator(method, kind=kind) if isinstance(method, str) else method
    pooled = type(how)(**how.get_params()).fit(matrix, truth, weights, classes=classes)
    if said is not None:
        warnings.warn(said, UserWarning, stacklevel=3)
        pooled.report_.notes.append(said)
    roots = []
    for fold in range(folds):
        kept = fold_of != fold
        if not kept.any():
            raise OrdercalError("all rows are in one fold: name columns that tell rows apart with id=[…]")
        with warnings.catch_warnings():
            # What there is to say of the rows was said of all of them.
            warnings.simplefilter("ignore")
            root = type(how)(**how.get_params())
            part = None if weights is None else weights[kept]
            roots.append(root.fit(matrix[kept], truth[kept], part, classes=pooled.classes_))
    return [*roots, pooled]


def _group_task(
    shared: _Shared,
    how: str,
    wide: list[str],
    labels: str,
    weights: str | None,
    kind: Kind,
    min_rows: int,
    folds: int,
) -> Any:
    """A function that fits the maps of one group."""

    def fit_one(group: tuple[Any, ...], table: pa.Table) -> pa.Table:
        _partition()
        values = tuple(part.as_py() for part in group)
        if any(part is None for part in values):
            raise OrdercalError(f"the group {values} has a missing value: fill it in, or leave its rows out")
        key = tuple(group_text(part) for part in values)
        roots, maps = shared.get()
        above = [maps[key[:length]] for length in range(1, len(key)) if key[:length] in maps]
        table = _in_order(table)
        matrix = _matrix(table, wide)
        indices, _ = read_labels(table[labels].to_pylist(), matrix.shape[1], None, roots[-1].classes_)
        row_weights = None if weights is None else table[weights].to_numpy().astype(np.float64)
        fold_of = _folds(table, folds)
        models = [root._fitted() for root in roots]
        try:
            (rows, weight), (nll_before, separate), *rest = _native.fit_group(
                models, above, how, Rows(matrix, kind, indices, row_weights), fold_of, min_rows
            )
        except OrdercalError as error:
            raise OrdercalError(f"group {values}: {error}") from None
        row = dict(zip(_PART.names, (list(key), rows, weight, nll_before, separate, *rest), strict=True))
        return pa.Table.from_pylist([row], schema=_PART)

    return fit_one


#: What a group's task gives back.
_PART = pa.schema(
    [
        ("key", pa.list_(pa.string())),
        ("rows", pa.int64()),
        ("weight", pa.float64()),
        ("nll_before", pa.float64()),
        ("separate", pa.float64()),
        ("totals", pa.list_(pa.float64())),
        ("kept", pa.list_(pa.int64())),
        ("own", pa.list_(pa.binary())),
    ]
)


def groups_table(session: Any, model: GroupedModel) -> DataFrame:
    """A data frame of the groups of a model.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        Where the data frame is made.
    model : GroupedModel
        What `fit_groups` returned.

    Returns
    -------
    pyspark.sql.DataFrame
        A row for each group of each level: the values of its columns as text (null for columns of finer levels), `rows`, `weight` of its own map, `nll_before`,
        `nll_parent`, `nll_after`, a `note`, and `model`, the bytes of the model file that its rows are calibrated by.
    """
    rows = []
    for group in model.report_.groups:
        fallback = group["fallback"]
        above = group["key"][:-1] if fallback is None else fallback
        parent = f"that of {', '.join(above)}" if above else "that of all rows"
        if fallback is None:
            note = f"its own map, mixed with {parent}"
        elif model.report_.shrinkage[len(group["key"]) - 1] is not None:
            note = f"too few rows: {parent}"
        else:
            note = f"no group of this level is helped by its own map: {parent}"
        rows.append(
            {
                **dict(zip(model.by, group["key"], strict=False)),
                **{name: group[name] for name in ("rows", "weight", "nll_before", "nll_parent", "nll_after")},
                "note": note,
                "model": model._native.model(group["key"]).to_bytes(),
            }
        )
    fields = [*(f"`{name}` string" for name in model.by), "rows long", "weight double", "nll_before double"]
    fields += ["nll_parent double", "nll_after double", "note string", "model binary"]
    return session.createDataFrame(rows, ", ".join(fields))
