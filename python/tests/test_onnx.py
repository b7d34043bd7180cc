"""Exported models run in onnxruntime and say what the library says, on more than 10,000 rows each."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import ordercal
import ordercal.onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

METHODS = "uncalibrated ts ets vs ms-odir dir-odir svs sms diag oi op unconstrained platt beta isotonic histogram bbq".split()
METHODS += ["auto", "auto-free", "vs+order", "ms-odir+order", "dir-odir+order", "svs+order", "sms+order", "unconstrained+order"]
METHODS += ["platt+order", "beta+order", "isotonic+order", "histogram+order", "bbq+order"]


def session(model: bytes) -> Any:
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])


def rows(classes: int, real: NDArray[Any], count: int = 10_000) -> NDArray[np.float32]:
    """Real rows, and rows of every scale with ties, neighbouring floats, masked classes and huge scores."""
    rng = np.random.default_rng(5)
    scale = rng.choice([0.01, 1.0, 5.0, 30.0, 1000.0], size=(count, 1))
    made = (rng.normal(size=(count, classes)) * scale).astype(np.float32)
    tied, next_to_top, on_top, masked, huge, rounded = (made[i :: 10] for i in range(6))
    tied[:, 3] = tied[:, 5]
    next_to_top[:, 2] = np.nextafter(next_to_top.max(axis=1), np.float32(-np.inf))
    on_top[:, 7] = on_top.max(axis=1)
    masked[:, 1:4] = -np.inf
    huge[::10] *= 1e20
    # Groups of equal scores, many of them large.
    rounded[:] = np.round(rounded / np.abs(rounded).max(axis=1, keepdims=True) * 4)
    return np.concatenate([real.astype(np.float32), made])


@pytest.mark.parametrize("method", METHODS)
def test_onnxruntime_agrees(method: str, letters: dict[str, NDArray[Any]]) -> None:
    count = 1500 if method.startswith("auto") else 5000
    est = ordercal.calibrator(method).fit(letters["calib_logits"][:count], letters["calib_labels"][:count])
    assert_same(est, rows(26, letters["test_logits"]))


@pytest.mark.parametrize("method", ["oi", "op"])
@pytest.mark.parametrize("top", [1, 8, 24])
def test_networks_that_read_the_top_scores(method: str, top: int, letters: dict[str, NDArray[Any]]) -> None:
    est = ordercal.calibrator(method, top=top).fit(letters["calib_logits"], letters["calib_labels"])
    scores = rows(26, letters["test_logits"])
    # So few classes that there is no rest.
    scores[1::50, 7:] = -np.inf
    assert_same(est, scores)


def assert_same(est: ordercal.Calibrator, scores: NDArray[np.float32]) -> None:
    probs, logits = session(est.to_onnx()).run(["probabilities", "logits"], {"scores": scores})
    expected = est.predict_proba(scores)
    assert probs.dtype == logits.dtype == np.float32 and probs.shape == expected.shape
    assert np.abs(probs - expected).max() <= 1e-5
    assert np.array_equal(probs.argmax(axis=1), expected.argmax(axis=1))
    # In 64 bits: in 32, the library moves many classes with one result apart by as many of the smallest steps.
    exact = est.predict_logits(scores, dtype=np.float64)
    assert np.array_equal(np.isneginf(logits), np.isneginf(exact))
    # What a class without any probability has for a logit is of no consequence.
    counts = expected > 1e-9
    close = np.abs(logits[counts] - exact[counts]) <= 1e-5 * np.maximum(1.0, np.abs(exact[counts]))
    assert close.all()
    if est.order_preserving_:
        assert np.array_equal(probs.argmax(axis=1), scores.argmax(axis=1))
        assert np.array_equal(logits.argmax(axis=1), scores.argmax(axis=1))
        order = np.argsort(-scores, axis=1, kind="stable")
        with np.errstate(invalid="ignore"):
            equal = np.diff(np.take_along_axis(scores, order, axis=1), axis=1) == 0
            for out in (probs, logits):
                steps = np.diff(np.take_along_axis(out, order, axis=1), axis=1)
                assert not (steps > 0).any() and not (steps[equal] != 0).any()


@pytest.mark.parametrize("classes", [300, 1000])
def test_projections_of_many_classes(classes: int) -> None:
    rng = np.random.default_rng(classes)
    scores = rng.normal(size=(1500, classes)).astype(np.float32) * 3
    labels = (scores + rng.gumbel(size=scores.shape) * 2 + np.linspace(0, 12, classes)).argmax(axis=1)
    for method in ("svs+order", "vs+order"):
        est = ordercal.calibrator(method).fit(scores[:1000], labels[:1000])
        free = ordercal.calibrator(method.partition("+")[0]).fit(scores[:1000], labels[:1000])
        order = np.argsort(scores[1000:], axis=1)
        ranked = np.take_along_axis(free.predict_logits(scores[1000:]), order, axis=1)
        assert (np.diff(ranked, axis=1) < 0).any(axis=1).mean() > 0.9, "there is little to project"
        assert_same(est, rows(classes, scores[1000:], 300))


@pytest.mark.parametrize("classes", [2, 3, 60])
def test_other_numbers_of_classes(classes: int) -> None:
    rng = np.random.default_rng(classes)
    scores = rng.normal(size=(400, classes)).astype(np.float32) * 4
    labels = rng.integers(0, classes, 400)
    for method in ("ts", "diag", "oi", "sms+order"):
        est = ordercal.calibrator(method).fit(scores, labels)
        (probs,) = session(est.to_onnx()).run(["probabilities"], {"scores": scores})
        assert np.abs(probs - est.predict_proba(scores)).max() <= 1e-5
        assert np.array_equal(probs.argmax(axis=1), scores.argmax(axis=1))


def test_a_file_is_valid_and_says_what_it_is(letters: dict[str, NDArray[Any]], tmp_path: Any) -> None:
    est = ordercal.OrderInvariant().fit(letters["calib_logits"], letters["calib_labels"])
    path = tmp_path / "oi.onnx"
    assert est.to_onnx(path) == est.to_onnx() == path.read_bytes()
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert model.opset_import[0].version >= 17
    assert {p.key: p.value for p in model.metadata_props}["order_preserving"] == "true"
    dims = model.graph.input[0].type.tensor_type.shape.dim
    assert dims[0].dim_param == "N" and dims[1].dim_value == 26


@pytest.mark.parametrize("kind", ["log-probs", "probs"])
def test_other_kinds_of_scores(kind: str, letters: dict[str, NDArray[Any]]) -> None:
    def convert(logits: NDArray[Any]) -> NDArray[np.float32]:
        logs = logits - logits.max(axis=1, keepdims=True)
        logs = logs - np.log(np.exp(logs).sum(axis=1, keepdims=True))
        return (logs if kind == "log-probs" else np.exp(logs)).astype(np.float32)

    calib, test = convert(letters["calib_logits"]), convert(letters["test_logits"])
    for method in ("ts", "diag", "op", "svs"):
        est = ordercal.calibrator(method, kind=kind).fit(calib, letters["calib_labels"])
        (probs,) = session(est.to_onnx()).run(["probabilities"], {"scores": test})
        expected = est.predict_proba(test)
        assert np.abs(probs - expected).max() <= 1e-5
        assert np.array_equal(probs.argmax(axis=1), expected.argmax(axis=1))


def network(opset: int, output: str = "scores", classes: int = 26) -> onnx.ModelProto:
    """A small network as a framework would export it: 8 features, a hidden layer, logits."""
    rng = np.random.default_rng(2)
    weights = {
        "w1": rng.normal(size=(8, 12)).astype(np.float32),
        "b1": rng.normal(size=12).astype(np.float32),
        "w2": rng.normal(size=(12, classes)).astype(np.float32),
        "b2": rng.normal(size=classes).astype(np.float32),
    }
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["features", "w1", "b1"], ["h"]),
            helper.make_node("Relu", ["h"], ["a"]),
            helper.make_node("Gemm", ["a", "w2", "b2"], [output]),
        ],
        "net",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", 8])],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", classes])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.parametrize("opset", [13, 18, 20])
@pytest.mark.parametrize("output", ["scores", "logits", "probabilities"])
def test_a_network_with_its_calibrator(opset: int, output: str, tmp_path: Any) -> None:
    net = network(opset, output)
    features = np.random.default_rng(3).normal(size=(12_000, 8)).astype(np.float32)
    (logits,) = session(net.SerializeToString()).run(None, {"features": features})
    labels = np.random.default_rng(4).integers(0, 26, 12_000)
    est = ordercal.OrderInvariant().fit(logits[:2000], labels[:2000])
    path = tmp_path / "both.onnx"
    joined = ordercal.onnx.append_to(net, est, path=path)
    onnx.checker.check_model(joined, full_check=True)
    run = session(path.read_bytes())
    names = [out.name for out in run.get_outputs()]
    probs_name = "calibrated_probabilities" if output == "probabilities" else "probabilities"
    assert names[0] == probs_name and names[2] == output
    probs, own = run.run([probs_name, output], {"features": features})
    assert np.array_equal(own, logits)
    assert np.abs(probs - est.predict_proba(logits)).max() <= 1e-5
    assert np.array_equal(probs.argmax(axis=1), logits.argmax(axis=1))


def test_joining_from_files(tmp_path: Any) -> None:
    net = network(18)
    onnx.save(net, tmp_path / "net.onnx")
    rng = np.random.default_rng(6)
    est = ordercal.TemperatureScaling().fit(rng.normal(size=(100, 26)) * 3, rng.integers(0, 26, 100))
    est.save(tmp_path / "ts.safetensors")
    joined = ordercal.onnx.append_to(tmp_path / "net.onnx", tmp_path / "ts.safetensors", keep_outputs=False)
    assert [out.name for out in joined.graph.output] == ["probabilities", "logits"]
    again = ordercal.onnx.append_to(net.SerializeToString(), est, output="scores", keep_outputs=False)
    assert again == joined
    with pytest.raises(ordercal.OrdercalError, match="no output `nonsense`; it has scores"):
        ordercal.onnx.append_to(net, est, output="nonsense")
    with pytest.raises(ordercal.OrdercalError, match="has 7 columns, and the calibrator is for 26 classes"):
        ordercal.onnx.append_to(network(18, classes=7), est)
