"""KServe and Triton serve ONNX: this writes a model repository with the calibrator behind a network, or alone."""

from __future__ import annotations

from pathlib import Path

import ordercal
import ordercal.onnx

CONFIG = """name: "{name}"
platform: "onnxruntime_onnx"
max_batch_size: 0
"""


def write(repository: Path, name: str, calibrator: ordercal.Calibrator, network: str | None = None) -> Path:
    """Writes `repository/name/1/model.onnx` and its `config.pbtxt`; KServe's `storageUri` is the repository."""
    folder = repository / name
    (folder / "1").mkdir(parents=True)
    model = folder / "1" / "model.onnx"
    if network is None:
        calibrator.to_onnx(model)
    else:
        ordercal.onnx.append_to(network, calibrator, path=model)
    # Triton reads inputs and outputs from the ONNX file itself.
    (folder / "config.pbtxt").write_text(CONFIG.format(name=name), encoding="utf-8")
    return model
