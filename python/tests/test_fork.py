"""A forked process has none of its parent's threads: what it computes must not wait for them."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import ordercal
import pytest
from conftest import Split, overconfident

#: Far more than any of this takes; a process that waits for threads that are not there waits for ever.
PATIENCE = 120.0


@pytest.fixture(scope="module")
def used() -> Iterator[tuple[ordercal.Calibrator, Split]]:
    """A calibrator whose threads have worked in this process, and rows enough to need them."""
    data = overconfident(4_000, 30, 5)
    fitted = ordercal.TemperatureScaling().fit(data.scores, data.labels)
    fitted.predict_proba(data.scores)
    ordercal.evaluate(data.scores, data.labels, metrics=["ece", "classwise_ece"])
    yield fitted, data


def everything(fitted: ordercal.Calibrator, data: Split) -> float:
    """Every way into the library, in another process."""
    probs = fitted.predict_proba(data.scores)
    ordercal.TemperatureScaling().fit(data.scores, data.labels)
    found = ordercal.evaluate(probs, data.labels, kind="probs", metrics=["nll", "classwise_ece"], bootstrap=5)
    ordercal.MetricState(30).update(data.scores, data.labels).finalize()
    ordercal.reliability(data.scores, data.labels)
    fitted.to_onnx()
    return found["nll"]


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_processes_of_every_kind(method: str, used: tuple[ordercal.Calibrator, Split]) -> None:
    fitted, data = used
    expected = everything(fitted, data)
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        jobs = [pool.submit(everything, fitted, data) for _ in range(2)]
        try:
            assert [job.result(timeout=PATIENCE) for job in jobs] == [expected] * 2
        except TimeoutError:
            for process in pool._processes.values():
                process.kill()
            raise


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_server_that_loads_before_it_forks() -> None:
    # As gunicorn does with --preload: the parent has used the model, its workers answer, and fork workers themselves.
    code = """
        import os, sys
        import numpy as np, ordercal
        rng = np.random.default_rng(0)
        scores = rng.normal(size=(3000, 20)).astype(np.float32)
        labels = rng.integers(0, 20, 3000)
        model = ordercal.Diagonal(hidden=(4,)).fit(scores, labels)
        expected = model.predict_proba(scores)
        def serve(depth):
            good = np.array_equal(model.predict_proba(scores), expected)
            if depth:
                child = os.fork()
                if child == 0:
                    os._exit(serve(depth - 1))
                good = os.waitpid(child, 0)[1] == 0 and good
                good = np.array_equal(model.predict_proba(scores), expected) and good
            return 0 if good else 1
        sys.exit(serve(2))
    """
    subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)], timeout=PATIENCE, check=True)


def test_joblib(used: tuple[ordercal.Calibrator, Split]) -> None:
    joblib = pytest.importorskip("joblib")
    fitted, data = used
    for backend in ("loky", "threading", "multiprocessing"):
        with joblib.parallel_config(backend=backend):
            jobs = (joblib.delayed(everything)(fitted, data) for _ in range(2))
            found = joblib.Parallel(n_jobs=2, timeout=PATIENCE)(jobs)
        assert found[0] == found[1], backend


def test_workers_of_a_torch_loader(used: tuple[ordercal.Calibrator, Split]) -> None:
    torch = pytest.importorskip("torch", reason="torch is too large for the tests' environment")
    fitted, data = used

    class Batches(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> Any:
            return fitted.predict_proba(data.scores[index * 1000 : (index + 1) * 1000])

    loader = torch.utils.data.DataLoader(Batches(), batch_size=None, num_workers=2, timeout=PATIENCE)
    found = np.concatenate([np.asarray(batch) for batch in loader])
    np.testing.assert_array_equal(found, fitted.predict_proba(data.scores))


def test_small_batches_are_not_slower_for_it(calib: Split) -> None:
    fitted = ordercal.TemperatureScaling().fit(calib.scores, calib.labels)
    start = time.perf_counter()
    for _ in range(1000):
        fitted.predict_proba(calib.scores[:1])
    assert time.perf_counter() - start < 5.0
