"""Bars appear where they can be seen, for what takes long."""

from __future__ import annotations

import sys
from typing import Any

import ordercal
import pytest
from conftest import Split
from ordercal import _progress


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting for two seconds, and no tqdm."""
    monkeypatch.setattr(_progress, "PAUSE", 0.0)
    monkeypatch.setattr(_progress.Bar.__init__, "__defaults__", (0.0,))
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)


@pytest.mark.usefixtures("impatient")
def test_a_bar_if_asked_for(calib: Split, capsys: pytest.CaptureFixture[str]) -> None:
    fitted = ordercal.OrderInvariant(hidden=(4,)).fit(calib.scores, calib.labels, verbose=True)
    told = capsys.readouterr().err
    assert "OrderInvariant █" in told and "loss" in told and told.endswith("\r\x1b[K")
    silent = ordercal.OrderInvariant(hidden=(4,)).fit(calib.scores, calib.labels)
    assert capsys.readouterr().err == "" and silent.report_ == fitted.report_
    ordercal.evaluate(calib.scores, calib.labels, bootstrap=200, metrics="ece", verbose=True)
    assert "intervals " in capsys.readouterr().err
    data = {"x": (calib.scores, calib.labels, calib.scores, calib.labels)}
    ordercal.compare(data, ["oi"], metrics=["nll"], bootstrap=0, verbose=True)
    assert "compare " in capsys.readouterr().err


@pytest.mark.usefixtures("impatient")
def test_a_bar_in_a_terminal(
    calib: Split, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    told: list[Any] = []
    ordercal.OrderInvariant(hidden=(4,)).fit(calib.scores, calib.labels, progress=lambda *news: told.append(news))
    assert "OrderInvariant" in capsys.readouterr().err and told
    ordercal.OrderInvariant(hidden=(4,)).fit(calib.scores, calib.labels, verbose=False)
    assert capsys.readouterr().err == ""


def test_nothing_for_what_is_quick(calib: Split, capsys: pytest.CaptureFixture[str]) -> None:
    ordercal.TemperatureScaling().fit(calib.scores, calib.labels, verbose=True)
    assert capsys.readouterr().err == ""
