"""The world of a job, simulated: every step can be the last one, or fail."""

from __future__ import annotations

import hashlib
import io
import random
import socket
import tempfile
import urllib.request
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from crashes.disk import Content, Disk, DiskFile, Folder
from crashes.servers import Servers, kafka_client, postgres_client
from skyband.embedded.formats import OpenFile, opened, readable
from skyband.embedded.read_ahead import Load
from skyband.embedded.time_order import by_name
from skyband.errors import SchemaError
from skyband.jobs.world import Mode, World

START = 1_800_000_000.0
"""The simulated clock at the beginning, in seconds since 1970."""
_REAL = Path(tempfile.gettempdir()) / "skyband-crashes"
"""Where readers of files find their contents, which they can only read from a real disk."""


class Crash(BaseException):
    """The machine or the process stops here."""


Fault = Callable[[str, str], None]
"""Told the name of a step and what it is about; raises OSError if the step is to fail."""


class SimulatedWorld(World):
    """A disk, servers, and a clock."""

    def __init__(self, pace: float = 0.01, lazy: bool = False) -> None:
        self.disk, self.servers = Disk(), Servers()
        self.now, self.pace, self.lazy = START, pace, lazy
        """The clock; how far it goes whenever it is read; whether threads are late."""
        self.skew = 0.0
        """How far the clock has jumped; what never jumps is not affected."""
        self.locked: set[int] = set()
        self.deadline = float("inf")
        """When whoever waits for the job gives up."""
        self.begin()

    def begin(self) -> None:
        """A process starts: nothing has been done yet."""
        self.changes = 0
        """How many steps have changed the world, or were to change it."""
        self.calls = 0
        """How many steps there were of any kind."""
        self.stop: int | None = None
        """The number of the change at which the process stops, instead of making it."""
        self.dead = False
        self.watch: Callable[[SimulatedWorld], None] | None = None
        """Called before each change."""
        self.fault: Fault | None = None
        self.torn: tuple[int, bytes] | None = None
        """The file and the bytes of the write that is about to be done."""

    def copy(self) -> SimulatedWorld:
        """The same world, as another process would find it if this one stopped."""
        made = SimulatedWorld(self.pace, self.lazy)
        made.disk, made.servers = self.disk.copy(), self.servers.copy()
        made.now, made.skew, made.torn = self.now, self.skew, self.torn
        return made

    def crash(self, how: str, chance: random.Random) -> None:
        """The process has stopped: it was killed, or the machine lost its power."""
        if self.torn is not None and chance.random() < 0.5:
            (number, content), self.torn = self.torn, None
            file = self.disk.inodes[number]
            assert isinstance(file, Content)
            file.now += content[: chance.randint(0, len(content))]
        if how != "kill":
            self.disk.lose(None if how == "worst" else chance)
        self.locked.clear()
        self.now += 5.0
        self.begin()

    def step(self, name: str, do: Callable[[], None] | None = None, about: str = "") -> None:
        """A step; if it changes something, ``do`` does it, and the process may stop before it."""
        if self.dead:
            raise Crash
        self.calls += 1
        if name not in ("look", "read", "ask"):
            self.changes += 1
            if self.watch is not None:
                self.watch(self)
            if self.changes == self.stop:
                self.dead = True
                raise Crash
        if self.fault is not None and name != "commit":
            self.fault(name, about)
        self.torn = None
        if do is not None:
            do()
        if self.fault is not None and name == "commit":
            self.fault(name, about)  # it was committed, but nobody heard of it

    # Files -------------------------------------------------------------------------------------

    def open(self, path: Path, mode: Mode, private: bool = True) -> io.RawIOBase:
        if mode != "r" and (mode == "w" or self.disk.number(path) is None):
            self.step("create", lambda: self._create(path), str(path))
        else:
            self.step("look", None, str(path))
        number, content = self.disk.number(path), self.disk.file(path)
        assert number is not None
        file = DiskFile(number, content, lambda name, data: self._touch(file, name, data), mode)
        file.name = str(path)  # type: ignore[attr-defined]
        close = file.close

        def closed() -> None:
            if file.locked:
                self.locked.discard(number)
                file.locked = False
            close()

        file.close = closed  # type: ignore[method-assign]
        return file

    def _create(self, path: Path) -> None:
        if self.disk.number(path) is None:
            self.disk.add(path, Content(changed=self._mtime()))
        else:
            self.disk.file(path).now = b""

    def _touch(self, file: DiskFile, name: str, data: bytes) -> bool:
        """A step of an open file; whether it is made. A process that is dead makes none."""
        if self.dead and name != "read":
            return False
        self.torn = (file.number, data) if name == "write" else None
        self.step(name, None, file.name)  # type: ignore[attr-defined]
        if name != "read":
            file.content.changed = self._mtime()
        return True

    def _mtime(self) -> int:
        return int((self.now + self.skew) * 1e9)

    def sync(self, file: io.RawIOBase) -> None:
        assert isinstance(file, DiskFile)

        def do() -> None:
            file.content.safe = file.content.now

        self.step("sync", do, file.name)  # type: ignore[attr-defined]

    def lock(self, file: io.RawIOBase) -> None:
        assert isinstance(file, DiskFile)
        self.step("look")
        if file.number in self.locked:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        self.locked.add(file.number)
        file.locked = True

    def state(self, path: Path) -> list[int] | None:
        self.step("look", None, str(path))
        if self.disk.number(path) is None:
            return None
        found = self.disk.inode(path)
        return [0, 0] if isinstance(found, Folder) else [len(found.now), found.changed]

    def names(self, folder: Path) -> list[str]:
        self.step("look", None, str(folder))
        return list(self.disk.folder(folder).now)

    def is_folder(self, path: Path) -> bool:
        self.step("look")
        number = self.disk.number(path)
        return number is not None and isinstance(self.disk.inodes[number], Folder)

    def make_folder(self, path: Path) -> None:
        def do() -> None:
            if self.disk.number(path) is not None:
                raise FileExistsError(17, "File exists", str(path))
            self.disk.add(path, Folder())

        self.step("make", do, str(path))

    def sync_folder(self, path: Path) -> None:
        self.step("sync", lambda: self.disk.sync_folder(path), str(path))

    def rename(self, path: Path, target: Path) -> None:
        self.step("rename", lambda: self.disk.rename(path, target), str(target))

    def remove(self, path: Path) -> None:
        self.step("remove", lambda: self.disk.remove(path), str(path))

    def remove_folder(self, path: Path) -> None:
        self.step("remove", lambda: self.disk.remove(path), str(path))

    # Sources and servers -----------------------------------------------------------------------

    def paths(self, pattern: str) -> list[Path]:
        self.step("look", None, pattern)
        folder = Path(pattern)
        names = self.disk.files(folder)
        if not names:
            raise SchemaError(f"folder {pattern!r} has no files that Skyband reads")
        return sorted((folder / name for name in names), key=by_name)

    def table_file(self, path: Path, delimiter: str | None = None) -> OpenFile:
        def on_disk() -> Path:
            self.step("look", None, str(path))
            content = self.disk.file(path).now
            real = _REAL / hashlib.sha256(content).hexdigest()[:24] / path.name
            if not real.exists():
                real.parent.mkdir(parents=True, exist_ok=True)
                real.write_bytes(content)
            return real

        def read(load: Load) -> pa.Table:
            self.step("read", None, str(path))
            return load()

        found = opened(readable(path, on_disk)(), delimiter)
        loads = found.loads
        found.loads = lambda needed: (  # type: ignore[method-assign]
            readable(path, partial(read, load)) for load in loads(needed)
        )
        return found

    def kafka(self) -> Any:
        return kafka_client(self.servers, self.step)

    def psycopg(self) -> Any:
        return postgres_client(self.servers, self.step)

    def post(self, request: urllib.request.Request, seconds: float) -> None:
        key, body = request.get_header("Idempotency-key"), request.data
        self.step("post", lambda: self.servers.posts.append((str(key), body)), request.full_url)

    def connect(self, address: tuple[str, int], seconds: float) -> socket.socket:
        raise ConnectionRefusedError(111, "Connection refused")

    def show(self, text: str) -> None:
        self.step("show")

    # Time and threads --------------------------------------------------------------------------

    def time(self) -> float:
        self.now += self.pace
        return self.now + self.skew

    def monotonic(self) -> float:
        self.now += self.pace
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def worker(self, name: str) -> Executor:
        return LateWorker() if self.lazy else Worker()

    def readers(self) -> int:
        return 1


class Worker(Executor):
    """A thread that does everything at once."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work(*args, **named))
        except Exception as problem:  # noqa: BLE001  (raised where the result is awaited)
            done.set_exception(problem)
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        pass


class LateWorker(Worker):
    """A thread that does everything once somebody waits for it."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        return LateFuture(lambda: work(*args, **named))


class LateFuture(Future[Any]):
    """What comes of work that is done when somebody asks for it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__()
        self._work: Callable[[], Any] | None = work

    def _do(self) -> None:
        work, self._work = self._work, None
        if work is not None:
            try:
                self.set_result(work())
            except Exception as problem:  # noqa: BLE001
                self.set_exception(problem)

    def done(self) -> bool:
        self._do()
        return super().done()

    def result(self, timeout: float | None = None) -> Any:
        self._do()
        return super().result(timeout)
