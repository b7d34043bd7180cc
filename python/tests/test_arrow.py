"""Tables of other libraries, through Arrow's C data interface."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import Split

import ordercal
from ordercal import OrdercalError, OrdercalTypeError

pa = pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def model(calib: Split) -> ordercal.Calibrator:
    return ordercal.TemperatureScaling().fit(calib.scores, calib.labels)


def batch_of(scores: Any, **others: Any) -> Any:
    """A record batch with a fixed-size list of scores."""
    flat = pa.array(np.ascontiguousarray(scores).reshape(-1))
    lists = pa.FixedSizeListArray.from_arrays(flat, scores.shape[1])
    return pa.record_batch({"id": np.arange(len(scores)), "logits": lists, **others})


def matrix(column: Any) -> Any:
    return np.array(column.to_pylist())


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("layout", ["fixed", "list", "large", "tensor", "wide"])
def test_every_layout_and_type_gives_what_arrays_give(
    model: ordercal.Calibrator, test: Split, dtype: Any, layout: str
) -> None:
    scores = test.scores.astype(dtype)
    batch = batch_of(scores)
    lists = batch["logits"]
    if layout == "list":
        batch = batch.set_column(1, "logits", lists.cast(pa.list_(lists.type.value_type)))
    elif layout == "large":
        batch = batch.set_column(1, "logits", lists.cast(pa.large_list(lists.type.value_type)))
    elif layout == "tensor":
        kind = pa.fixed_shape_tensor(lists.type.value_type, [5])
        batch = batch.set_column(1, "logits", pa.ExtensionArray.from_storage(kind, lists))
    elif layout == "wide":
        columns = {f"logit_{k}": np.ascontiguousarray(scores[:, k]) for k in range(5)}
        batch = pa.record_batch({"id": np.arange(len(scores)), **columns})
    expected = model.predict_proba(scores)
    # A slice begins in the middle of its buffers.
    for part, rows in [(batch, slice(None)), (batch.slice(7, 100), slice(7, 107))]:
        found = model.apply_arrow(part)
        assert isinstance(found, pa.RecordBatch)
        assert found.schema.names[: len(part.schema.names)] == part.schema.names
        assert found["id"].equals(part["id"])
        if layout == "wide":
            probs = np.column_stack([found[f"prob_{k}"].to_numpy() for k in range(5)])
        else:
            kinds = {"list": pa.list_, "large": pa.large_list}
            value = pa.float64() if dtype == np.float64 else pa.float32()
            if layout == "tensor":
                assert found["probs"].type == pa.fixed_shape_tensor(value, [5])
                probs = found["probs"].to_numpy_ndarray()
            else:
                wanted = kinds[layout](value) if layout in kinds else pa.list_(value, 5)
                assert found["probs"].type == wanted
                probs = matrix(found["probs"])
        assert np.array_equal(probs.astype(expected.dtype), expected[rows])


def test_results_are_named_and_typed_as_asked(model: ordercal.Calibrator, test: Split) -> None:
    batch = batch_of(test.scores)
    found = model.apply_arrow(batch, "logits", output="logits", name="calibrated", dtype="float64")
    expected = model.predict_logits(test.scores, dtype="float64")
    assert found["calibrated"].type == pa.list_(pa.float64(), 5)
    assert np.array_equal(matrix(found["calibrated"]), expected)
    replaced = model.apply_arrow(batch, output="logits")
    assert replaced.schema.names == ["id", "logits"]
    assert np.array_equal(matrix(replaced["logits"]).astype(np.float32), model.predict_logits(test.scores))


def test_classes_are_matched_by_name(calib: Split, test: Split) -> None:
    names = ["ant", "bee", "cat", "dog", "eel"]
    model = ordercal.VectorScaling().fit(calib.scores, calib.labels, classes=None)
    named = ordercal.VectorScaling().fit(calib.scores, np.array(names)[calib.labels], classes=names)
    order = [3, 0, 4, 2, 1]
    columns = {f"logit_{names[k]}": np.ascontiguousarray(test.scores[:, k]) for k in order}
    found = named.apply_arrow(pa.record_batch(columns))
    probs = np.column_stack([found[f"prob_{name}"].to_numpy() for name in names])
    assert np.array_equal(probs, model.predict_proba(test.scores))
    shuffled = batch_of(test.scores[:, order])
    found = named.apply_arrow(shuffled, classes=[names[k] for k in order])
    assert np.array_equal(matrix(found["probs"]).astype(np.float32), probs)
    with pytest.raises(OrdercalError, match="only there: `cow`"):
        named.apply_arrow(shuffled, classes=["cow", *names[1:]])


def test_tables_of_every_library(model: ordercal.Calibrator, test: Split) -> None:
    duckdb = pytest.importorskip("duckdb")
    nanoarrow = pytest.importorskip("nanoarrow")
    polars = pytest.importorskip("polars")
    expected = model.predict_proba(test.scores)
    batch = batch_of(test.scores)
    halves = [batch.slice(0, 250), batch.slice(250)]
    table = pa.Table.from_batches(halves)

    found = model.apply_arrow(table)
    assert isinstance(found, pa.Table) and found.column("probs").num_chunks == 2
    assert np.array_equal(matrix(found["probs"]).astype(np.float32), expected)

    found = model.apply_arrow(pa.RecordBatchReader.from_batches(batch.schema, halves))
    assert isinstance(found, pa.RecordBatchReader)
    assert np.array_equal(matrix(found.read_all()["probs"]).astype(np.float32), expected)

    frame = polars.DataFrame({"id": np.arange(len(test.scores)), "logits": test.scores})
    found = model.apply_arrow(frame)
    assert isinstance(found, polars.DataFrame) and found.columns == ["id", "logits", "probs"]
    assert np.array_equal(found["probs"].to_numpy(), expected)

    found = model.apply_arrow(nanoarrow.Array(batch))
    assert isinstance(found, nanoarrow.Array)
    assert np.array_equal(matrix(pa.record_batch(found)["probs"]).astype(np.float32), expected)

    connection = duckdb.connect()
    calibrated = pa.table(model.apply_arrow(connection.from_arrow(table)))
    connection.register("calibrated", calibrated)
    ((rows, total),) = connection.sql("select count(*), sum(list_sum(probs::float[])) from calibrated").fetchall()
    assert rows == len(expected) and total == pytest.approx(len(expected), rel=1e-6)


def test_scores_are_not_copied(model: ordercal.Calibrator) -> None:
    rows = 200_000
    batch = batch_of(np.zeros((rows, 20), dtype=np.float32))
    made = 4.0 * np.eye(20, dtype=np.float32).repeat(3, axis=0)
    wide = ordercal.TemperatureScaling().fit(made, np.arange(60) % 20)
    before = pa.total_allocated_bytes()
    found = wide.apply_arrow(batch)
    # What is carried through is the same memory.
    assert pa.total_allocated_bytes() - before < batch.nbytes / 2
    assert found["logits"].values.buffers()[1].address == batch["logits"].values.buffers()[1].address


def test_rows_that_cannot_be_calibrated(model: ordercal.Calibrator, test: Split) -> None:
    rows = [list(map(float, row)) for row in test.scores[:300]]
    bad: list[Any] = [*rows]
    bad[3], bad[5], bad[290] = None, [1.0, 2.0], [0.0, None, 1.0, 2.0, 3.0]
    bad[100] = [float("nan")] * 5
    batch = pa.record_batch({"logits": pa.array(bad, pa.list_(pa.float32()))})
    found = model.apply_arrow(batch, errors="null")["probs"]
    expected = model.predict_proba(test.scores[:300])
    for row in range(300):
        if row in (3, 5, 100, 290):
            assert not found[row].is_valid
        else:
            assert np.array_equal(np.float32(found[row].as_py()), expected[row]), row
    # In the second batch of a stream, rows are counted on.
    good = pa.record_batch({"logits": pa.array(rows[:10], pa.list_(pa.float32()))})
    for row, what in [(3, "missing"), (5, "2"), (100, "NaN"), (290, "missing")]:
        broken = [*rows]
        broken[row] = bad[row]
        part = pa.record_batch({"logits": pa.array(broken, pa.list_(pa.float32()))})
        with pytest.raises(OrdercalError, match=f"row {row + 10}.*|.*row {row + 10}") as caught:
            model.apply_arrow(pa.Table.from_batches([good, part]))
        assert what in str(caught.value)
    columns = {f"logit_{k}": pa.array([1.0, None, float(k)]) for k in range(5)}
    found = model.apply_arrow(pa.record_batch(columns), errors="null")
    assert [found["prob_0"][row].is_valid for row in range(3)] == [True, False, True]
    with pytest.raises(OrdercalError, match="raise"):
        model.apply_arrow(batch, errors="ignore")


def test_empty_batches_and_other_things(model: ordercal.Calibrator, test: Split) -> None:
    empty = model.apply_arrow(batch_of(test.scores[:0]))
    assert empty.num_rows == 0 and empty["probs"].type == pa.list_(pa.float32(), 5)
    with pytest.raises(OrdercalTypeError, match="record batch"):
        model.apply_arrow(test.scores)
    with pytest.raises(OrdercalError, match="no column `scores`"):
        model.apply_arrow(batch_of(test.scores), "scores")
    with pytest.raises(OrdercalError, match="4 classes but the model was fitted for 5"):
        model.apply_arrow(batch_of(test.scores[:, :4]))


def test_states_of_tables_are_those_of_arrays(test: Split) -> None:
    weights = np.linspace(0.5, 2.0, len(test.labels))
    country = np.array(["DE", "FR", "NL"])[np.arange(len(test.labels)) % 3]
    others = {"label": test.labels, "w": weights, "country": country, "day": np.arange(len(test.labels)) % 2}
    batch = batch_of(test.scores, **others)
    expected = ordercal.MetricState(5).update(test.scores, test.labels, sample_weight=weights)
    for table in (batch, pa.Table.from_batches([batch.slice(0, 100), batch.slice(100)])):
        state = ordercal.MetricState(5)
        assert state.update_arrow(table, weights="w") == {}
        assert state == expected
    state = ordercal.MetricState(5)
    groups = state.update_arrow(batch, weights="w", by=["country", "day"])
    assert state == expected
    assert set(groups) == {(name, day) for name in ("DE", "FR", "NL") for day in (0, 1)}
    rows = (country == "FR") & (np.arange(len(country)) % 2 == 1)
    own = ordercal.MetricState(5).update(test.scores[rows], test.labels[rows], sample_weight=weights[rows])
    assert groups["FR", 1] == own
    # Names of classes, and a table that is refused leaves the state as it was.
    names = ["ant", "bee", "cat", "dog", "eel"]
    named = batch_of(test.scores, label=np.array(names)[test.labels])
    plain = ordercal.MetricState(5).update(test.scores, test.labels)
    state = ordercal.MetricState(5)
    state.update_arrow(named, classes=names)
    assert state == plain
    broken = batch_of(test.scores, label=np.where(np.arange(len(test.labels)) == 9, 7, test.labels))
    with pytest.raises(OrdercalError, match="row 609"):
        state.update_arrow(pa.Table.from_batches([batch_of(test.scores, label=test.labels), broken]))
    assert state == plain
