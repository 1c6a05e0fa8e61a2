"""Faults of the world at each step: the job stops with a clear error, and goes on afterwards.

    full        no room on the disk
    read-only   nothing may be changed on the disk
    broken      the disk gives an error, also when it is read
    away        a server does not answer; what it was sent may have been committed all the same
    slow        forcing to disk takes a minute
    forward     the clock jumps a day ahead
    back        the clock jumps ten years back
    replaced    a file of the source is another one from now on

Each comes once, or stays until the job has stopped. A file that is replaced stays as it is.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from crashes.enumerate import Client, Enumeration, MismatchError, finish
from crashes.scripts import ROOT, Script, bytes_of
from crashes.world import SimulatedWorld
from skyband.errors import SkybandError

CHANGES = {"create", "write", "truncate", "make", "rename", "remove"}
FAULTS: dict[str, tuple[int, set[str]]] = {
    "full": (errno.ENOSPC, {"create", "write", "make", "sync"}),
    "read-only": (errno.EROFS, CHANGES),
    "broken": (errno.EIO, CHANGES | {"sync", "look", "read"}),
    "away": (errno.ECONNREFUSED, {"connect", "commit", "post", "ask"}),
    "slow": (0, {"sync"}),
    "forward": (0, {"sync", "look"}),
    "back": (0, {"sync", "look"}),
    "replaced": (0, {"look", "read"}),
}
"""The error of each fault, if it is one, and the steps at which it can come."""
_SKEW = {"forward": 86_400.0, "back": -3.2e8}


class FaultPoint(NamedTuple):
    """A fault at one call of a run."""

    kind: str
    call: int
    stays: bool


@dataclass
class FaultyRuns:
    """The same script with a fault at each of its steps."""

    made: Enumeration

    def points(self) -> Iterator[FaultPoint]:
        """Every step at which a fault can come."""
        self.made.reference()
        calls: list[str] = []
        world = self.made.new()
        world.fault = lambda name, about: calls.append(name)
        finish(world, self.made.script, Client())
        for kind, (code, steps) in FAULTS.items():
            if kind == "replaced" and self.made.script.family != "files":
                continue
            for call, name in enumerate(calls, 1):
                if name in steps:
                    lasting = (False, True) if code else (False,)
                    yield from (FaultPoint(kind, call, stays) for stays in lasting)

    def run(self, point: FaultPoint) -> bool:
        """Run with a fault, mend it, run on, and compare; whether the job stopped."""
        script, client, world = self.made.script, Client(), self.made.new()
        code, steps = FAULTS[point.kind]
        calls = 0
        replaced: list[str] = []

        def fault(name: str, about: str) -> None:
            nonlocal calls
            calls += 1
            if calls < point.call or (calls > point.call and not point.stays):
                return
            if point.kind == "slow":
                world.now += 60.0
            elif point.kind in _SKEW:
                world.skew = _SKEW[point.kind]
            elif point.kind == "replaced":
                replaced.append(self._replace(world))
            elif name in steps:
                raise OSError(code, os.strerror(code), about or None)

        world.fault = fault
        try:
            stopped = self._stops(world, client)
            for name in replaced:
                self._put_back(world, name)
            if stopped:
                world.crash("kill", random.Random(0))
                finish(world, script, client)
            elif replaced and self._is_taken(world):
                return False
            self.made.compare(world, client)
        except Exception as problem:
            raise MismatchError(
                f"{type(problem).__name__}: {problem}\n  repeat: make crashes CRASH_ARGS='"
                f"--seed {script.seed} --batches {script.batches} --fault {point.kind}"
                f"{' --stays' * point.stays} --step {point.call}'"
            ) from problem
        return stopped

    def _stops(self, world: SimulatedWorld, client: Client) -> bool:
        """Run until the end, or until the fault stops the job with an error of Skyband's."""
        try:
            finish(world, self.made.script, client)
        except SkybandError as problem:
            if len(str(problem)) < 20:
                raise AssertionError(f"not a clear error: {problem}") from problem
            return True
        finally:
            world.fault = None
        return False

    def _replace(self, world: SimulatedWorld) -> str:
        """Another file in place of the first one of the source, if it is there."""
        name = next(iter(world.disk.files(ROOT / "in")), "")
        if name:
            other = self.made.script.table(0).slice(0, 1)
            content = bytes_of(other, self.made.script.input_form)
            world.disk.put(ROOT / "in" / name, content, int(world.now * 1e9) - 1)
        return name

    def _is_taken(self, world: SimulatedWorld) -> bool:
        """Whether the job read the other file before it began: as the first, or as a new one."""
        for place in (0, self.made.script.of_phase(0).stop - 1):
            other = Script(self.made.script.seed, self.made.script.batches)
            rows = other.pushes.pop(0)[:1]
            other.pushes.insert(place, rows)
            if other.held(world) == other.wanted:
                return True
        return False

    def _put_back(self, world: SimulatedWorld, name: str) -> None:
        if name:
            self.made.script.place(world, int(name.partition(".")[0]))
