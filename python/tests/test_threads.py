"""A fit leaves the interpreter alone: other threads run, callbacks are heard, and Ctrl-C ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import ordercal
import pytest
from conftest import Split, overconfident


def test_two_fits_run_at_once(calib: Split) -> None:
    # Each waits inside its fit until the other is inside its own.
    meeting = threading.Barrier(2, timeout=120)
    met, errors = [], []

    def run() -> None:
        first = [True]

        def progress(iteration: int, of: int, loss: float) -> None:
            if first:
                first.clear()
                met.append(meeting.wait())

        try:
            ordercal.OrderInvariant().fit(calib.scores, calib.labels, progress=progress)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and sorted(met) == [0, 1]


def test_python_runs_while_a_fit_does() -> None:
    data = overconfident(8_000, 20, 3)
    done = threading.Event()
    span = []

    def run() -> None:
        start = time.perf_counter()
        ordercal.OrderInvariant().fit(data.scores, data.labels)
        span.append(time.perf_counter() - start)
        done.set()

    thread = threading.Thread(target=run)
    last = time.perf_counter()
    longest = 0.0
    thread.start()
    while not done.is_set():
        now = time.perf_counter()
        longest = max(longest, now - last)
        last = now
        time.sleep(0.001)
    thread.join()
    # With the interpreter held, this thread would have stood still for the whole of the fit.
    assert longest < span[0] / 2


def test_progress_is_told_in_the_callers_thread(calib: Split) -> None:
    told = []

    def progress(iteration: int, of: int, loss: float) -> None:
        assert threading.current_thread() is threading.main_thread()
        told.append((iteration, of, loss))

    with_news = ordercal.OrderInvariant().fit(calib.scores, calib.labels, progress=progress)
    without = ordercal.OrderInvariant().fit(calib.scores, calib.labels)
    assert len(told) >= 40 and told[-1][0] <= told[-1][1]
    assert all(np.isfinite(loss) for _, _, loss in told)
    assert np.array_equal(with_news.parameters_["params"], without.parameters_["params"])


def test_what_a_callback_raises_ends_the_fit(calib: Split) -> None:
    calls = []

    def progress(iteration: int, of: int, loss: float) -> None:
        calls.append(iteration)
        raise KeyError("enough")

    est = ordercal.OrderInvariant()
    with pytest.raises(KeyError, match="enough"):
        est.fit(calib.scores, calib.labels, progress=progress)
    assert len(calls) == 1 and not hasattr(est, "model_")


@pytest.mark.skipif(os.name != "posix", reason="signals are sent by number")
@pytest.mark.parametrize(
    "call",
    ["method.fit(scores, labels)", "ordercal.compare({'a': (scores, labels) * 2}, [method], bootstrap=0)"],
)
def test_ctrl_c_ends_it(call: str) -> None:
    program = f"""
        import signal
        import numpy as np, ordercal
        # Children of a process in the background ignore Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        scores = np.random.default_rng(0).normal(size=(20_000, 50)).astype(np.float32)
        labels = scores.argmax(axis=1)
        print("fitting", flush=True)
        method = ordercal.OrderInvariant(optimizer={{"kind": "adam", "epochs": 1_000_000}})
        try:
            {call}
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "fitting\n"
    time.sleep(1.0)
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=120)
    assert out == "interrupted\n" and child.returncode == 0
