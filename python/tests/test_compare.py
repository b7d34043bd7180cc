"""Comparisons: the numbers of the command line, its choices, and its words."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import ordercal
import pytest
from conftest import ROOT, Split

FIXTURE = ROOT / "tests" / "data" / "compare" / "small.json"


def bundle(name: str) -> tuple[Any, Any, Any, Any]:
    with np.load(ROOT / "crates/ordercal-cli/demo" / f"{name}.npz") as arrays:
        parts = ("calib_logits", "calib_labels", "test_logits", "test_labels")
        one, two, three, four = (arrays[part] for part in parts)
    return one, two, three, four


def test_the_numbers_are_those_of_the_command_line() -> None:
    expected = json.loads(FIXTURE.read_text())
    data = {entry["name"]: bundle(entry["name"]) for entry in expected["datasets"]}
    asked = ["ts", ordercal.VectorScaling(), "svs+order", "svs"]
    found = ordercal.compare(data, asked, metrics=["nll", "ece", "classwise_ece_sum", "brier"], bootstrap=0)
    for entry in found["datasets"]:
        for method in entry["methods"]:
            assert 0.0 < method.pop("fit_seconds") < 60.0
    assert_alike(dict(found), expected, "")


def assert_alike(found: Any, expected: Any, where: str) -> None:
    """The same but for what other processors may round differently."""
    assert type(found) is type(expected), where
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for key, value in expected.items():
            assert_alike(found[key], value, f"{where}/{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for place, value in enumerate(expected):
            assert_alike(found[place], value, f"{where}/{place}")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-3, abs=1e-9), where
    elif where.endswith("changed_predictions"):
        assert abs(found - expected) <= 2, where
    else:
        assert found == expected, where


def test_averages_ranks_and_words(calib: Split, test: Split) -> None:
    data = {"a": (*calib, *test), "b": (*test, *calib)}
    found = ordercal.compare(data, ["ts", "sms+order", ordercal.VectorScaling(), "ts"], metrics=["nll", "ece"])
    names = ["uncalibrated", "ts", "sms+order", "vs"]
    assert [row["method"] for row in found["datasets"][0]["methods"]] == names
    first = found["datasets"][0]
    assert (first["name"], first["n_calib"], first["n_test"], first["classes"]) == ("a", 800, 600, 5)
    assert [row["order_preserving"] for row in first["methods"]] == [True, True, True, False]
    assert all(row["changed_predictions"] == 0 for row in first["methods"][:3])
    errors = found["average_relative_error"]["nll"]
    assert errors["uncalibrated"] == 1.0 and errors["ts"] < 1.0
    by_hand = np.mean([d["methods"][1]["metrics"]["nll"] / d["methods"][0]["metrics"]["nll"] for d in found["datasets"]])
    assert errors["ts"] == pytest.approx(by_hand)
    assert found["ranks"]["nll"]["a"]["uncalibrated"] == 4
    text = str(found)
    # What is three times worse is not marked as close to the best, on average neither.
    assert not any("uncalibrated" in line and "*" in line for line in text.splitlines())
    assert "Changed predictions" in text and "not significantly different from the best" in text
    assert str(pickle.loads(pickle.dumps(found))) == text
    bare = str(ordercal.compare(data, ["ts"], metrics="nll", bootstrap=0))
    assert "none, all methods are order-preserving" in bare and "not significantly" not in bare


def test_what_is_measured_is_what_evaluate_says(calib: Split, test: Split) -> None:
    found = ordercal.compare({"one": (*calib, *test)}, ["vs"], metrics=["nll", "classwise_ece"], bins=9, bootstrap=0)
    probs = ordercal.VectorScaling().fit(*calib).predict_proba(test.scores, dtype=np.float64)
    row = found["datasets"][0]["methods"][1]
    values = ordercal.evaluate(probs, test.labels, kind="probs", metrics=["nll", "classwise_ece", "accuracy"], bins=9)
    assert row["metrics"] == pytest.approx(dict(values))
    assert row["changed_predictions"] == (probs.argmax(axis=1) != test.scores.argmax(axis=1)).sum()
    assert row["chosen"]["method"] == "vs"


def test_hyperparameters_are_searched_for(calib: Split, test: Split) -> None:
    data = {"one": (*calib, *test)}
    chosen = {}
    for search in ("none", "quick", "paper"):
        found = ordercal.compare(data, ["ms-odir"], metrics="nll", search=search, folds=2, bootstrap=0)
        chosen[search] = found["datasets"][0]["methods"][1]["chosen"]
    assert "runners_up" not in chosen["none"]
    for search in ("quick", "paper"):
        nlls = [chosen[search]["held_out_nll"]] + [other["nll"] for other in chosen[search]["runners_up"]]
        assert nlls == sorted(nlls) and len(nlls) > 1
    with pytest.raises(ordercal.OrdercalError, match="none, quick or paper"):
        ordercal.compare(data, ["ts"], search="hard")


def test_names_of_classes_and_other_kinds(calib: Split, test: Split) -> None:
    letters = np.array(list("edcba"))
    reverse = np.array(list("abcde"))
    plain = ordercal.compare({"one": (*calib, *test)}, ["vs"], metrics="nll", bootstrap=0)
    # Sorted names stand for the columns in turn, so a is the first column; few of them are enough for the test.
    some = np.flatnonzero(test.labels < 2)
    named = (calib.scores, reverse[calib.labels], test.scores[some], reverse[test.labels[some]])
    few = ordercal.compare({"one": named}, ["vs"], metrics="nll", bootstrap=0)
    exact = ordercal.compare(
        {"one": (*calib, test.scores[some], test.labels[some])}, ["vs"], metrics="nll", bootstrap=0
    )
    assert few["average_relative_error"] == exact["average_relative_error"]
    frames = [__import__("pandas").DataFrame(part.scores, columns=letters) for part in (calib, test)]
    by_column = (frames[0], letters[calib.labels], frames[1], letters[test.labels])
    found = ordercal.compare({"one": by_column}, ["vs"], metrics="nll", bootstrap=0)
    assert found["average_relative_error"] == plain["average_relative_error"]
    probs = [np.exp(part.scores) / np.exp(part.scores).sum(axis=1, keepdims=True) for part in (calib, test)]
    other = ordercal.compare(
        {"one": (probs[0], calib.labels, probs[1], test.labels)}, ["ts"], kind="probs", metrics="nll", bootstrap=0
    )
    assert other["datasets"][0]["methods"][1]["changed_predictions"] == 0


def test_defaults_are_the_tools() -> None:
    from ordercal._compare import DEFAULT_BOOTSTRAP, DEFAULT_METHODS, DEFAULT_METRICS

    assert DEFAULT_METHODS[0] == "uncalibrated" and "auto" in DEFAULT_METHODS and "sms" in DEFAULT_METHODS
    assert DEFAULT_METRICS[0] == "nll" and "accuracy" in DEFAULT_METRICS
    assert DEFAULT_BOOTSTRAP == 500


def test_mistakes_are_named(calib: Split, test: Split) -> None:
    data = {"one": (*calib, *test)}
    with pytest.raises(ordercal.OrdercalError, match="a dataset"):
        ordercal.compare({}, ["ts"])
    with pytest.raises(ordercal.OrdercalError, match="a metric"):
        ordercal.compare(data, ["ts"], metrics=[], bootstrap=0)
    with pytest.raises(ordercal.OrdercalError, match="nonsense"):
        ordercal.compare(data, ["nonsense"])
    with pytest.raises(ordercal.OrdercalError, match="one, test: row 3"):
        bad = test.scores.copy()
        bad[3, 1] = np.nan
        ordercal.compare({"one": (*calib, bad, test.labels)}, ["ts"])
    with pytest.raises(ordercal.OrdercalError, match="one, uncalibrated: the scores have 4 classes"):
        ordercal.compare({"one": (*calib, test.scores[:, :4], np.minimum(test.labels, 3))}, [])
    with pytest.raises(ordercal.OrdercalError, match="bins"):
        ordercal.compare(data, ["ts"], bins=0)


def test_several_settings_of_a_method_and_given_probabilities(calib: Split, test: Split) -> None:
    probs = [np.exp(part.scores.astype(float)) for part in (calib, test)]
    probs = [one / one.sum(axis=1, keepdims=True) for one in probs]
    given = ordercal.TemperatureScaling(kind="probs").fit(probs[0], calib.labels).predict_proba(probs[1])
    small = ordercal.OrderInvariant(hidden=(3,))
    asked = ["oi", small, ("tiny", ordercal.OrderInvariant(hidden=(2,))), "ts", ("given", {"one": given})]
    data = {"one": (probs[0], calib.labels, probs[1], test.labels)}
    found = ordercal.compare(data, asked, metrics="nll", kind="probs", bootstrap=0)
    rows = {row["method"]: row for row in found["datasets"][0]["methods"]}
    assert list(rows) == ["uncalibrated", "oi", "ts", "OrderInvariant(hidden=(3,))", "tiny", "given"]
    nll = {name: row["metrics"]["nll"] for name, row in rows.items()}
    assert len({nll["oi"], nll["tiny"], nll["OrderInvariant(hidden=(3,))"]}) == 3
    assert rows["tiny"]["order_preserving"] and rows["tiny"]["changed_predictions"] == 0
    assert nll["given"] == pytest.approx(nll["ts"], abs=1e-6)
    with pytest.raises(ordercal.OrdercalError, match="`given` has no probabilities for the test rows of one"):
        ordercal.compare(data, [("given", {"two": given})], kind="probs")


def test_tables_and_marks_as_data(calib: Split, test: Split) -> None:
    data = {"a": (*calib, *test), "b_1": (*test, *calib)}
    found = ordercal.compare(data, ["ts", "ets", "vs"], metrics=["nll", "ece"], bootstrap=100)
    marks = found.marks
    assert set(marks) == {"nll", "ece"} and set(marks["nll"]) == {"a", "b_1", "average_relative_error"}
    for dataset in ("a", "b_1"):
        best = min(found["ranks"]["nll"][dataset], key=found["ranks"]["nll"][dataset].get)  # type: ignore[arg-type]
        assert marks["nll"][dataset][best] and not marks["nll"][dataset]["uncalibrated"]
    latex, html = found.to_latex(), found.to_html()
    value = f"{found['datasets'][0]['methods'][1]['metrics']['nll']:.4f}"
    assert value in str(found) and value in latex and value in html
    assert latex.count(r"\begin{table*}") == latex.count(r"\end{table*}") == 3 and r"b\_1" in latex
    assert html.count("<table>") == html.count("</table>") == 3 and "<th>b_1</th>" in html
    assert found._repr_html_() == html
    again = pickle.loads(pickle.dumps(found))
    assert again.marks == marks and again.to_latex() == latex


def test_a_comparison_is_a_data_frame(calib: Split, test: Split) -> None:
    pytest.importorskip("pandas")
    found = ordercal.compare({"one": (*calib, *test)}, ["ts"], metrics=["nll", "auroc"], bootstrap=0)
    frame = found.to_pandas()
    assert set(frame["method"]) == {"uncalibrated", "ts"} and {"nll", "auroc"} <= set(frame["metric"])
    row = frame[(frame["method"] == "ts") & (frame["metric"] == "nll")]
    assert row["value"].item() == found["datasets"][0]["methods"][1]["metrics"]["nll"]
