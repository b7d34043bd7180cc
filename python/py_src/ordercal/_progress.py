"""A bar for what takes longer than two seconds, where somebody can see it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

#: Seconds before a bar appears, and between two drawings of it.
PATIENCE, PAUSE = 2.0, 0.1

Report = Callable[[int, int, float], object]


def _is_notebook() -> bool:
    shell = sys.modules.get("IPython")
    found = getattr(shell, "get_ipython", lambda: None)()
    return type(found).__name__ == "ZMQInteractiveShell"


def _is_seen() -> bool:
    stream = sys.stderr
    return _is_notebook() or bool(stream is not None and getattr(stream, "isatty", bool)())


class Bar:
    """Draws with tqdm if it is installed, and otherwise writes over one line of stderr."""

    def __init__(self, what: str, patience: float = PATIENCE) -> None:
        self.what = what
        self.start = time.monotonic()
        self.patience = patience
        self.last = 0.0
        self.tqdm: Any = None
        self.drawn = False

    def __call__(self, iteration: int, of: int, loss: float) -> None:
        now = time.monotonic()
        if now - self.start < self.patience or now - self.last < PAUSE:
            return
        self.last = now
        if not self.drawn:
            self.drawn = True
            try:
                from tqdm.auto import tqdm
            except ImportError:
                pass
            else:
                self.tqdm = tqdm(total=of, desc=self.what, leave=False)
        text = "" if loss != loss else f"loss {loss:.4f}"
        if self.tqdm is not None:
            self.tqdm.total = of
            self.tqdm.n = iteration
            self.tqdm.set_postfix_str(text)
        else:
            filled = round(20 * min(iteration / max(of, 1), 1.0))
            bar = "█" * filled + "·" * (20 - filled)
            seconds = now - self.start
            sys.stderr.write(f"\r\x1b[K{self.what} {bar} {iteration}/{of} {text} {seconds:.0f} s")
            sys.stderr.flush()

    def close(self) -> None:
        """Takes the bar away."""
        if self.tqdm is not None:
            self.tqdm.close()
        elif self.drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


@contextmanager
def shown(what: str, verbose: bool | None, progress: Report | None = None) -> Iterator[Report | None]:
    """What is called with news: the caller's own function, a bar, both, or nothing.

    A bar is drawn if `verbose` is true, or if it is None and stderr is a terminal or the front end a notebook.
    """
    if verbose is False or (verbose is None and not _is_seen()):
        yield progress
        return
    bar = Bar(what)

    def both(iteration: int, of: int, loss: float) -> None:
        bar(iteration, of, loss)
        if progress is not None:
            progress(iteration, of, loss)

    try:
        yield both
    finally:
        bar.close()
