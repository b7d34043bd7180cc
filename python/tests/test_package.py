"""What stands in two places is the same in both."""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
import re
from typing import Any, get_args

import ordercal
import pytest
from conftest import ROOT
from ordercal import _native, _types, calarena
from ordercal._calibrator import REGISTRY
from ordercal.sklearn import CalibratedClassifier, ScoreCalibrator


def test_the_version() -> None:
    assert ordercal.__version__ == importlib.metadata.version("ordercal")


def test_licences_come_with_it() -> None:
    names = [str(path) for path in importlib.metadata.files("ordercal") or []]
    for licence in ("LICENSE-MIT", "LICENSE-APACHE"):
        assert any(name.endswith(licence) for name in names), names
    for licence in ("LICENSE-MIT", "LICENSE-APACHE"):
        assert (ROOT / "python" / licence).read_bytes() == (ROOT / licence).read_bytes()
    about = importlib.metadata.metadata("ordercal")
    assert about["License-Expression"] == "MIT OR Apache-2.0"


def test_keys_are_those_of_the_library() -> None:
    keys = _native.keys()
    order = [f"{key}+order" for key in keys if not _native.promises_order(key)]
    assert list(get_args(_types.MethodKey)) == keys + order
    assert list(get_args(_types.MetricKey)) == _native.metrics()


def test_stubs_have_the_keywords_of_the_library() -> None:
    stub = ast.parse((ROOT / "python" / "py_src" / "ordercal" / "methods.pyi").read_text())
    classes = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}

    def keywords(name: str) -> dict[str, Any]:
        node = classes.get(name)
        if node is None:
            return {}
        own = {ast.unparse(f.target): ast.literal_eval(f.value) for f in node.body if isinstance(f, ast.AnnAssign) and f.value}
        return keywords(ast.unparse(node.bases[0])) | own

    public = {name for name in classes if not name.startswith("_")}
    assert public == {found.__name__ for found in REGISTRY.values()}
    for found in REGISTRY.values():
        shown = {name: p.default for name, p in inspect.signature(found).parameters.items()}
        assert keywords(found.__name__) == shown, found.__name__


def test_every_form_of_model_has_a_torch_module() -> None:
    # Read as text: PyTorch need not be there.
    module = (ROOT / "python" / "py_src" / "ordercal" / "_torch.py").read_text()
    table = module[module.index("FORMS:") : module.index("def form(")]
    modules = re.findall(r'^    "(\w+)": \w+,$', table, re.M)
    library = (ROOT / "crates" / "ordercal" / "src" / "models" / "mod.rs").read_text()
    forms = re.findall(r'^ +\w+\(\w+Model\) "(\w+)",$', library, re.M)
    assert len(forms) > 10 and set(forms) - {"custom"} <= set(modules)


def test_the_guide_has_every_public_name() -> None:
    page = (ROOT / "docs" / "python-api.md").read_text()
    # Described here, or named with a link to the page that does.
    named = set(re.findall(r"(?:::: |`)ordercal\.(\w+)", page))
    methods = dict(re.findall(r"^\| `([\w-]+)` \| `(\w+)` \|$", page, re.M))
    assert methods == {key: found.__name__ for key, found in REGISTRY.items()}
    assert set(ordercal.__all__) - set(methods.values()) - {"__version__"} <= named


PUBLIC: list[Any] = [
    *REGISTRY.values(),
    ordercal.evaluate,
    ordercal.reliability,
    ordercal.compare,
    ordercal.threshold,
    ordercal.prediction_sets,
    ordercal.PredictionSets.sets,
    ordercal.PredictionSets.evaluate,
    ordercal.decompose,
    ordercal.describe_metric,
    ordercal.Calibrator.to_torch,
    ordercal.Comparison.leaderboard,
    ordercal.TopScores,
    ordercal.TopScores.of_dense,
    ordercal.TopScores.dense,
    ordercal.TopScores.places,
    ordercal.TopScores.evaluate,
    ordercal.TopK,
    ordercal.TopK.fit,
    ordercal.TopK.apply,
    calarena.ArenaCalibrator,
    calarena.read,
    ordercal.load,
    ordercal.fit_groups,
    ordercal.GroupedModel.predict_proba,
    ordercal.Calibrator.apply_arrow,
    ordercal.MetricState.update_arrow,
    ordercal.calibrator,
    ordercal.MetricState,
    ordercal.MetricState.update,
    ordercal.MetricState.interval,
    ordercal.MetricState.reliability,
    ordercal.Calibrator.fit,
    ordercal.Calibrator.predict_proba,
    ordercal.Calibrator.to_onnx,
    ScoreCalibrator,
    ScoreCalibrator.fit,
    ScoreCalibrator.transform,
    CalibratedClassifier,
    CalibratedClassifier.fit,
    CalibratedClassifier.predict_proba,
]


@pytest.mark.parametrize("thing", PUBLIC, ids=lambda t: t.__qualname__)
def test_every_parameter_is_explained(thing: Any) -> None:
    text = inspect.getdoc(thing) or ""
    for name in inspect.signature(thing).parameters:
        if name in ("self", "verbose", "progress"):
            continue
        match = re.search(rf"^(?:\*\*)?(?:\w+, )*{name}(?:, \w+)*(?: :.*)?\n +(\S.*)", text, re.M)
        assert match and len(match[1]) > 8, f"{thing.__qualname__}: {name}"


def test_temperatures(calib: Any) -> None:
    fitted = ordercal.TemperatureScaling().fit(calib.scores, calib.labels)
    assert fitted.temperature_ == pytest.approx(1 / fitted.parameters_["beta"])
    assert 2 < fitted.temperature_ < 4
