"""Runs a script, stops it at each step, starts it again, and compares with the definition."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from crashes.scripts import ROOT, Script, plain
from crashes.world import Crash, SimulatedWorld
from skyband.answers.answer import Answer
from skyband.errors import EngineError
from skyband.jobs.local.local_job import BatchOutcome, LocalJob
from skyband.jobs.local.posts import Inbox, Request
from skyband.jobs.world import clear_errors
from skyband.serve.history import Event, History

HOWS = ("kill", "power", "worst")
"""A crash: the process is killed; power fails, and chance takes; power fails, and all that was not
safe is gone."""
_SECONDS = 100_000.0
"""How much simulated time a run may take."""


@dataclass
class Client:
    """Who sends posts, each with its key until it is acknowledged; and how far the script is."""

    phase: int = 0
    brought: bool = False
    replies: dict[int, Any] = field(default_factory=dict)
    """What was acknowledged, by the number of the post."""
    shown: list[str] = field(default_factory=list)
    """The answers that a page has in the end, query by query."""

    def copy(self) -> Client:
        return Client(self.phase, self.brought, dict(self.replies), list(self.shown))


class Outbox(Inbox):
    """Where posts wait for the job; the client sends more whenever the job has nothing to do."""

    def __init__(self, world: SimulatedWorld, script: Script, client: Client) -> None:
        super().__init__()
        self.world, self.script, self.client = world, script, client
        self.sent: list[int] = []

    def over(self) -> bool:
        """Whether the job may stop: all posts of this board were acknowledged."""
        if self.world.now > self.world.deadline:
            raise AssertionError("the job hangs")
        if self.script.family != "posts":
            return False  # it ends by itself
        posts = self.script.of_phase(self.client.phase)
        return all(number in self.client.replies for number in posts)

    def wait(self, seconds: float) -> None:
        self.world.sleep(self.script.idle)
        if any(number not in self.client.replies for number in self.sent):
            return
        numbers = self.script.of_phase(self.client.phase)
        left = [number for number in numbers if number not in self.client.replies]
        self.sent = left[: self.script.together]
        for number in self.sent:
            table = self.script.table(number)
            digest = hashlib.sha256(str(number).encode()).hexdigest()
            request = Request("", table, table.nbytes, f"key-{number}", digest)
            self.submit(request).add_done_callback(partial(self._reply, number))

    def _reply(self, number: int, done: Any) -> None:
        problem = done.exception()
        self.client.replies[number] = done.result() if problem is None else repr(problem)


class Reader:
    """Keeps the answers that a page shows, as a service does."""

    def __init__(self, world: SimulatedWorld, names: Sequence[str]) -> None:
        self.history = History(names, 1_000, ROOT / "state" / "answers", world=world)
        self.names, self.number = names, 0

    def applied(self, source: str) -> None:
        pass

    def stopped(self, source: str, problem: Exception) -> None:
        raise problem

    def saving(self) -> None:
        self.history.write()

    def entered(self, outcomes: Sequence[BatchOutcome], stats: Mapping[str, Any]) -> None:
        events = [self._event(answer) for each in outcomes for answer in each.answers]
        self.history.add([each for each in events if each.number > self.history.last], self.number)

    def shown(self) -> list[str]:
        """What a page shows; raises if numbers do not grow."""
        found = [self.history.newest(name, 1_000) for name in self.names]
        for events in found:
            numbers = [event.number for event in events]
            assert numbers == sorted(set(numbers)), numbers
        return [f"{e.name} {e.end}\n{e.text}" for events in found for e in events]

    def _event(self, answer: Answer) -> Event:
        self.number += 1
        text = "\n".join(plain(answer.table.to_pylist()))
        return Event(self.number, answer.name or self.names[0], str(answer.end), text)


def start(world: SimulatedWorld, script: Script, client: Client) -> tuple[LocalJob, Outbox, Any]:
    """Start the job of the board that is due, up to the end of its recovery."""
    job = script.jobs[client.phase]
    inbox = Outbox(world, script, client)
    if not script.served:
        return LocalJob(job, None, inbox, script.save_bytes, world=world), inbox, None
    late: Any = _Late()
    running = LocalJob(job, late, inbox, script.save_bytes, world=world)
    with clear_errors():
        late.reader = reader = Reader(world, list(job.queries))
    reader.number = running.answers
    reader.history.expect(reader.number)
    for _ in running.replay():
        pass
    reader.number = running.answers
    reader.history.expect(reader.number)
    return running, inbox, reader


class _Late:
    """Stands for a reader that is made once the job is."""

    reader: Reader

    def __getattr__(self, name: str) -> Any:
        return getattr(self.reader, name)


def finish(world: SimulatedWorld, script: Script, client: Client) -> None:
    """Run what is left of a script; raises Crash where the world stops."""
    world.deadline = world.now + _SECONDS
    while client.phase < len(script.boards):
        if not client.brought:
            script.bring(world, client.phase)
            client.brought = True
        running, inbox, reader = start(world, script, client)
        try:
            for _ in running.steps(inbox.over):
                pass
        finally:
            if not world.dead:
                running.close()
        client.phase, client.brought = client.phase + 1, False
        client.shown = [] if reader is None else reader.shown()


@dataclass
class Point:
    """A moment at which the job can stop: the world as it is, and what the client knows."""

    number: int
    world: SimulatedWorld
    client: Client


class MismatchError(AssertionError):
    """Something is lost, or there twice, or wrong."""


def points(world: SimulatedWorld, script: Script, client: Client) -> Iterator[Point]:
    """Run what is left, and give the moment before each of its steps, and the one at its end."""
    found: list[Point] = []
    world.watch = lambda now: found.append(Point(now.changes, now.copy(), client.copy()))
    finish(world, script, client)
    world.watch = None
    yield from found
    yield Point(world.changes + 1, world, client)


@dataclass
class Enumeration:
    """The crash points of one script."""

    script: Script
    again: float = 0.5
    """How often the job is stopped once more while it recovers."""

    def new(self) -> SimulatedWorld:
        return SimulatedWorld(self.script.pace, self.script.lazy)

    def reference(self) -> list[Point]:
        """The run that nothing stops, which has to agree with the definition."""
        found = list(points(self.new(), self.script, Client()))
        last = found[-1]
        self.letters = self.script.letters(last.world)
        self.replies, self.shown = last.client.replies, last.client.shown
        self.compare(last.world, last.client)
        return found

    def compare(self, world: SimulatedWorld, client: Client) -> None:
        """Compare sinks, letters and acknowledgements with the definition."""
        held = self.script.held(world)
        for name, wanted in self.script.wanted.items():
            if held[name] != wanted:
                sink = self.script.sinks[name]
                raise MismatchError(f"query {name} in {sink}: {_differences(held[name], wanted)}")
        letters = self.script.letters(world)
        if letters != self.letters:
            raise MismatchError(f"letters: {_differences(letters, self.letters)}")
        if client.shown != self.shown:
            raise MismatchError(f"the page: {_differences(client.shown, self.shown)}")
        if client.replies != self.replies:
            raise MismatchError(f"acknowledged {client.replies}, wanted {self.replies}")

    def crash_at(self, point: Point, how: str) -> None:
        """Stop at a point, start again, perhaps stop again, and compare in the end."""
        chance = random.Random(f"{self.script.seed}/{point.number}/{how}")
        world, client = point.world.copy(), point.client.copy()
        stops = [point.number]
        world.crash(how, chance)
        try:
            while True:
                if len(stops) < 4 and chance.random() < self.again:
                    world.stop = chance.randint(1, 40)
                try:
                    finish(world, self.script, client)
                    break
                except Crash:
                    stops.append(world.changes)
                    world.crash(chance.choice(HOWS), chance)
            self.compare(world, client)
        except Exception as problem:
            raise MismatchError(
                f"{type(problem).__name__}: {problem}\n  repeat: {repeat(self.script, point, how)}"
                f"\n  stopped at {stops}"
            ) from problem


def repeat(script: Script, point: Point, how: str) -> str:
    """The command that runs one crash point once more."""
    return (
        f"make crashes CRASH_ARGS='--seed {script.seed} --batches {script.batches} "
        f"--step {point.number} --how {how}'"
    )


def _differences(held: list[str], wanted: list[str]) -> str:
    lost, more = list(wanted), []
    for line in held:
        if line in lost:
            lost.remove(line)
        else:
            more.append(line)
    return f"lost {lost[:3]} ({len(lost)}), too many {more[:3]} ({len(more)})"


def refused_beside(world: SimulatedWorld, script: Script, client: Client) -> int:
    """Start a second process at every step of the first; how often it was refused."""
    refused = 0

    def second(now: SimulatedWorld) -> None:
        nonlocal refused
        now.watch = None
        before = _contents(now)
        try:
            LocalJob(script.jobs[client.phase], world=now).close()
        except EngineError as problem:
            refused += 1
            if "another process uses" not in str(problem) or _contents(now) != before:
                raise MismatchError(
                    f"a second process at step {now.changes}: {problem}"
                ) from problem
        finally:
            now.watch = second

    world.watch = second
    finish(world, script, client)
    return refused


def _contents(world: SimulatedWorld) -> list[dict[str, bytes]]:
    return [world.disk.files(ROOT / name) for name in ("state", "out", "bad")]
