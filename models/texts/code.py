"""A small event scheduler: tasks are generators that yield how long they want to sleep."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field

Task = Generator[float, None, object]


@dataclass(order=True)
class Wakeup:
    at: float
    order: int
    task: Task = field(compare=False)
    name: str = field(compare=False, default="")


class Cancelled(Exception):
    """Thrown into a task that somebody gave up on."""


class Scheduler:
    def __init__(self, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self._clock = clock
        self._sleep = sleep
        self._queue: list[Wakeup] = []
        self._order = itertools.count()
        self._results: dict[str, object] = {}
        self._failed: dict[str, BaseException] = {}

    def start(self, name: str, task: Task, after: float = 0.0) -> None:
        if any(waiting.name == name for waiting in self._queue):
            raise ValueError(f"there is a task called {name!r} already")
        heapq.heappush(self._queue, Wakeup(self._clock() + after, next(self._order), task, name))

    def cancel(self, name: str) -> bool:
        for index, waiting in enumerate(self._queue):
            if waiting.name != name:
                continue
            self._queue[index] = self._queue[-1]
            self._queue.pop()
            heapq.heapify(self._queue)
            try:
                waiting.task.throw(Cancelled())
            except (Cancelled, StopIteration):
                pass
            return True
        return False

    def run(self, until: float | None = None) -> dict[str, object]:
        while self._queue:
            wakeup = self._queue[0]
            if until is not None and wakeup.at > until:
                break
            delay = wakeup.at - self._clock()
            if delay > 0:
                self._sleep(delay)
                continue  # something may have been started meanwhile
            heapq.heappop(self._queue)
            try:
                pause = next(wakeup.task)
            except StopIteration as ended:
                self._results[wakeup.name] = ended.value
            except Exception as error:  # noqa: BLE001 - one task must not stop the others
                self._failed[wakeup.name] = error
            else:
                wakeup.at += max(pause, 0.0)
                wakeup.order = next(self._order)
                heapq.heappush(self._queue, wakeup)
        return dict(self._results)

    @property
    def failed(self) -> dict[str, BaseException]:
        return dict(self._failed)


def windows(values: Iterable[float], width: int) -> Generator[tuple[float, ...], None, None]:
    """All neighbouring groups of `width` values.

    >>> list(windows([1, 2, 3, 4], 3))
    [(1, 2, 3), (2, 3, 4)]
    """
    if width < 1:
        raise ValueError("a window has at least one value")
    held: list[float] = []
    for value in values:
        held.append(value)
        if len(held) > width:
            held.pop(0)
        if len(held) == width:
            yield tuple(held)


def test_cancelled_tasks_do_not_come_back() -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    seen: list[str] = []

    def tick(name: str, times: int) -> Task:
        for _ in range(times):
            seen.append(name)
            yield 1.5
        return len(seen)

    scheduler = Scheduler(lambda: now[0], sleep)
    scheduler.start("a", tick("a", 3))
    scheduler.start("b", tick("b", 100), after=0.25)
    scheduler.run(until=2.0)
    assert scheduler.cancel("b") and not scheduler.cancel("b")
    assert scheduler.run() == {"a": len(seen)}
    assert seen.count("b") == 2
