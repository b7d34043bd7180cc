"""Exported models of every kind give the library's results in onnxruntime."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import ordercal
import ordercal.onnx
import pytest
from conftest import overconfident
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from ordercal import _native

KEYS = _native.keys()
METHODS = KEYS + [f"{key}+order" for key in KEYS if not _native.promises_order(key)]


def session(model: bytes) -> Any:
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])


def forms(est: ordercal.Calibrator) -> set[str]:
    """The kinds of model inside a fitted calibrator."""
    return set(re.findall(r'"form":"(\w+)"', est._fitted().settings))


def rows(classes: int, real: NDArray[Any], count: int = 10_000) -> NDArray[np.float32]:
    """Real rows, and rows of every scale with ties, neighbouring floats, masked classes and huge scores."""
    rng = np.random.default_rng(5)
    scale = rng.choice([0.01, 1.0, 5.0, 30.0, 1000.0], size=(count, 1))
    made = (rng.normal(size=(count, classes)) * scale).astype(np.float32)
    tied, next_to_top, on_top, masked, huge, rounded = (made[i::10] for i in range(6))
    tied[:, 3 % classes] = tied[:, 5 % classes]
    next_to_top[:, 2 % classes] = np.nextafter(next_to_top.max(axis=1), np.float32(-np.inf))
    on_top[:, 7 % classes] = on_top.max(axis=1)
    masked[:, 1 : min(4, classes)] = -np.inf
    huge[::10] *= 1e20
    # Groups of equal scores, many of them large.
    rounded[:] = np.round(rounded / np.abs(rounded).max(axis=1, keepdims=True) * 4)
    return np.concatenate([real.astype(np.float32), made])


def as_kind(logits: NDArray[Any], kind: str) -> NDArray[np.float32]:
    """Logits as scores of another kind; a masked class has the probability 0."""
    if kind == "logits":
        return logits.astype(np.float32)
    logs = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
    return (logs if kind == "log-probs" else np.exp(logs)).astype(np.float32)


@pytest.mark.parametrize("kind", ["logits", "probs"])
@pytest.mark.parametrize("method", ["ts", "oi", "sms+order", "isotonic", "auto"])
def test_scores_of_half_precision(method: str, kind: Any, letters: dict[str, NDArray[Any]]) -> None:
    narrow = [as_kind(letters[name], kind).astype(np.float16) for name in ("calib_logits", "test_logits")]
    est = ordercal.calibrator(method, kind=kind).fit(narrow[0][:3000], letters["calib_labels"][:3000])
    (given,) = (running := session(est.to_onnx(input_type="f16"))).get_inputs()
    assert given.type == "tensor(float16)"
    probs, _ = running.run(["probabilities", "logits"], {"scores": narrow[1]})
    expected = est.predict_proba(narrow[1])
    assert probs.dtype == np.float32 and np.abs(probs - expected).max() <= 1e-5
    if est.order_preserving_:
        assert np.array_equal(probs.argmax(axis=1), narrow[1].argmax(axis=1))
    with pytest.raises(ordercal.OrdercalError, match="there is no input type `f8`"):
        est.to_onnx(input_type="f8")  # type: ignore[arg-type]


@pytest.mark.parametrize("method", METHODS)
def test_every_method(method: str, letters: dict[str, NDArray[Any]]) -> None:
    count = 1500 if method.startswith("auto") else 5000
    est = ordercal.calibrator(method).fit(letters["calib_logits"][:count], letters["calib_labels"][:count])
    assert_same(est, rows(26, letters["test_logits"]))


@pytest.mark.parametrize("kind", ["logits", "log-probs", "probs"])
@pytest.mark.parametrize("classes", [2, 3, 20])
@pytest.mark.parametrize("method", METHODS)
def test_numbers_of_classes_and_kinds(method: str, classes: int, kind: Any) -> None:
    logits, labels = overconfident(400, classes, classes)
    est = ordercal.calibrator(method, kind=kind).fit(as_kind(logits, kind), labels)
    assert_same(est, as_kind(rows(classes, logits, 1000), kind))


@pytest.mark.parametrize("method", ["ts", "oi", "platt", "isotonic", "sms+order"])
def test_one_column_of_scores(method: str) -> None:
    logits, labels = overconfident(400, 2, 1)
    single = logits[:, 1] - logits[:, 0]
    est = ordercal.calibrator(method).fit(single, labels)
    pairs = np.stack([np.zeros_like(single), single], axis=1)
    (probs,) = session(est.to_onnx()).run(["probabilities"], {"scores": pairs})
    assert np.abs(probs - est.predict_proba(single)).max() <= 1e-5


@pytest.mark.parametrize("method", ["ts", "diag", "oi", "sms", "svs+order", "auto"])
def test_chains_with_a_learned_floor(method: str) -> None:
    logits, labels = overconfident(600, 4, 3)
    probs = np.round(as_kind(logits, "probs") * 20) / 20
    probs /= probs.sum(axis=1, keepdims=True)
    est = ordercal.calibrator(method, kind="probs").fit(probs.astype(np.float32), labels)
    assert "chain" in forms(est)
    assert_same(est, np.concatenate([probs.astype(np.float32), as_kind(rows(4, logits, 1000), "probs")]))


@pytest.mark.parametrize("method", ["auto", "auto-free", "auto-free+order"])
def test_many_members(method: str) -> None:
    """Data on which the weights are spread over chains, kernels and linear maps."""
    logits, labels = bent(3000)
    est = ordercal.calibrator(method).fit(logits, labels)
    assert {"mixture", "chain", "kernel", "linear", "diag"} <= forms(est), forms(est)
    assert_same(est, rows(5, bent(1000)[0]))


def bent(count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Logits whose distortion depends on the class and bends."""
    rng = np.random.default_rng(8)
    true = rng.normal(size=(count, 5)) * 2.0
    labels = (true + rng.gumbel(size=true.shape)).argmax(axis=1)
    seen = true * np.linspace(1.0, 3.0, 5) + 1.5 * np.sin(2.0 * true) + np.roll(np.tanh(true), 1, axis=1)
    return seen.astype(np.float32), labels


def test_averages_over_folds(tmp_path: Path) -> None:
    logits, labels = overconfident(900, 6, 4)
    folds = [ordercal.OrderInvariant().fit(logits[i::3], labels[i::3]) for i in range(3)]
    (tmp_path / "folds.safetensors").write_bytes(averaged([fold._fitted().to_bytes() for fold in folds]))
    est = ordercal.load(tmp_path / "folds.safetensors")
    assert forms(est) == {"mixture", "network"} and est.order_preserving_
    assert_same(est, rows(6, logits))


def averaged(files: list[bytes]) -> bytes:
    """The model file of a mixture with equal weights, in version 1 of the format, which has no checksum."""
    header: dict[str, Any] = {}
    members, data = [], b""
    for index, file in enumerate(files):
        length = int.from_bytes(file[:8], "little")
        parts = json.loads(file[8 : 8 + length])
        metadata = parts.pop("__metadata__")
        members.append(json.loads(metadata["model"]))
        for name, tensor in parts.items():
            tensor["data_offsets"] = [at + len(data) for at in tensor["data_offsets"]]
            header[f"{index}.{name}"] = tensor
        data += file[8 + length :]
    model = {"form": "mixture", "members": members, "weights": [1.0 / len(files)] * len(files)}
    header["__metadata__"] = {**metadata, "version": "1", "model": json.dumps(model)}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


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
    # In 64 bits: in 32, the library moves many classes with one result apart by as many of the smallest steps.
    exact = est.predict_logits(scores, dtype=np.float64)
    masked = np.isneginf(exact)
    assert np.array_equal(np.isneginf(logits), masked)
    # Networks are computed in 32 bits. The logit of a class without any probability does not matter.
    size = np.maximum(1.0, np.abs(np.where(masked, 0.0, exact)).max(axis=1, keepdims=True))
    with np.errstate(invalid="ignore"):
        assert (np.abs(logits - exact) <= 1e-5 * size)[expected > 1e-9].all()
    if not est.order_preserving_:
        # Two classes that are this close may be rounded to change places.
        chosen = np.take_along_axis(expected, probs.argmax(axis=1)[:, None], axis=1)[:, 0]
        assert (expected.max(axis=1) - chosen < 1e-6).all()
        return
    order = np.argsort(-scores, axis=1, kind="stable")
    ranked = np.take_along_axis(scores, order, axis=1)
    unique = ranked[:, 0] > ranked[:, 1]
    with np.errstate(invalid="ignore"):
        equal = np.diff(ranked, axis=1) == 0
        for out in (probs, logits):
            steps = np.diff(np.take_along_axis(out, order, axis=1), axis=1)
            assert (steps[unique, 0] < 0).all()
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
