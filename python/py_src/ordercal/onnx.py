"""Calibration inside a network's own ONNX file. Needs the package `onnx`."""

from __future__ import annotations

import os
from typing import Any

import onnx
from onnx import compose, version_converter

from ._calibrator import Calibrator, load
from ._errors import OrdercalError

#: The version of the operators that calibrators are written in.
OPSET = 18


def append_to(
    model: str | os.PathLike[str] | bytes | Any,
    calibrator: Calibrator | str | os.PathLike[str],
    *,
    output: str | None = None,
    path: str | os.PathLike[str] | None = None,
    keep_outputs: bool = True,
) -> Any:
    """Joins a calibrator to the output of a network, so that one file computes calibrated probabilities.

    `model` is an ONNX file, its bytes or a loaded model; `calibrator` a fitted one or a model file. The scores
    are the network's only output, or the one called `output`; the calibrator's `kind` must be what they are.
    The result has the outputs `probabilities` and `logits` before the network's own, which `keep_outputs=False`
    drops; `calibrated_probabilities` and `calibrated_logits` if the network uses those names itself. With
    a path it is written there too.
    """
    network = _read(model)
    if not isinstance(calibrator, Calibrator):
        calibrator = load(calibrator)
    scores = _output(network, output)
    classes = _width(scores)
    expected = calibrator.n_features_in_
    if classes is not None and classes != expected:
        raise OrdercalError(
            f"the network's output `{scores.name}` has {classes} columns, and the calibrator is for {expected} classes"
        )
    narrow = scores.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16
    if not narrow and scores.type.tensor_type.elem_type != onnx.TensorProto.FLOAT:
        raise OrdercalError(f"the network's output `{scores.name}` is not of floats of 32 or 16 bits")

    version = _opset(network)
    if version < OPSET:
        network = version_converter.convert_version(network, OPSET)
        version = OPSET
    tail = onnx.load_model_from_string(calibrator.to_onnx(input_type="f16" if narrow else "f32"))
    # Every operator in use has kept its meaning since.
    for entry in tail.opset_import:
        entry.version = version
    tail.ir_version = network.ir_version = max(tail.ir_version, network.ir_version)

    taken = _names(network)
    prefix = _free("ordercal/", taken)
    tail = compose.add_prefix(tail, prefix)
    own = [out.name for out in network.graph.output]
    joined = compose.merge_models(
        network,
        tail,
        io_map=[(scores.name, f"{prefix}scores")],
        outputs=[f"{prefix}probabilities", f"{prefix}logits"] + [n for n in own if n != scores.name],
    )
    for result in ("probabilities", "logits"):
        name = result if result not in taken else f"calibrated_{result}"
        if name in taken:
            raise OrdercalError(f"the network uses the names `{result}` and `{name}` itself")
        _rename(joined.graph, f"{prefix}{result}", name)
    calibrated = list(joined.graph.output)[:2]
    kept = [out for out in network.graph.output] if keep_outputs else []
    del joined.graph.output[:]
    joined.graph.output.extend([*calibrated, *kept])
    onnx.checker.check_model(joined)
    if path is not None:
        onnx.save_model(joined, os.fspath(path))
    return joined


def _read(model: Any) -> Any:
    if isinstance(model, onnx.ModelProto):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        return copy
    if isinstance(model, (bytes, bytearray)):
        return onnx.load_model_from_string(bytes(model))
    return onnx.load_model(os.fspath(model))


def _output(network: Any, name: str | None) -> Any:
    outputs = {out.name: out for out in network.graph.output}
    if name is None:
        if len(outputs) != 1:
            raise OrdercalError(f"the network has the outputs {', '.join(outputs)}: say which with output=…")
        return next(iter(outputs.values()))
    if name not in outputs:
        raise OrdercalError(f"the network has no output `{name}`; it has {', '.join(outputs)}")
    return outputs[name]


def _width(value: Any) -> int | None:
    dims = value.type.tensor_type.shape.dim
    if len(dims) == 2 and dims[1].HasField("dim_value"):
        return int(dims[1].dim_value)
    return None


def _opset(network: Any) -> int:
    versions = [entry.version for entry in network.opset_import if entry.domain in ("", "ai.onnx")]
    if not versions:
        raise OrdercalError("the network does not say which version of the operators it uses")
    return int(versions[0])


def _names(network: Any) -> set[str]:
    graph = network.graph
    names = {value.name for group in (graph.input, graph.output, graph.initializer) for value in group}
    for node in graph.node:
        names.update(node.output)
    return names


def _free(prefix: str, taken: set[str]) -> str:
    while any(name.startswith(prefix) for name in taken):
        prefix = "_" + prefix
    return prefix


def _rename(graph: Any, old: str, new: str) -> None:
    for node in graph.node:
        for place, name in enumerate(node.output):
            if name == old:
                node.output[place] = new
        for place, name in enumerate(node.input):
            if name == old:
                node.input[place] = new
    for value in graph.output:
        if value.name == old:
            value.name = new
