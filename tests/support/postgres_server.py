"""A temporary PostgreSQL server, in its own folder, on loopback."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pyarrow as pa


class Server:
    """A temporary PostgreSQL server, in its own folder."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self.programs = programs
        self.user = "nobody" if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    def call(self, program: str, *arguments: str) -> None:
        command = [str(self.programs / program), *arguments]
        subprocess.run(command, check=True, capture_output=True, user=self.user, cwd="/")

    def start(self) -> str:
        data = self.folder / "data"
        data.mkdir()
        if self.user is not None:
            for path in (self.folder, data):
                shutil.chown(path, self.user)
                path.chmod(0o700)
        self.call("initdb", "-D", str(data), "-U", "skyband", "--auth=trust", "-N")
        return self.resume()

    def resume(self) -> str:
        """Start it, again if it was stopped."""
        data = self.folder / "data"
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -k {data} -c fsync=off"
        log = str(data / "log")
        self.call("pg_ctl", "-D", str(data), "-w", "-l", log, "-o", options, "start")
        return self.address

    @property
    def address(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=skyband dbname=postgres"

    def stop(self) -> None:
        """Stop it at once, as a crash would."""
        self.call("pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "stop")


def rows_in(address: str, table: str) -> int:
    """Number of rows of a table; 0 if the table does not exist yet."""
    import psycopg

    with psycopg.connect(address) as connection:
        (found,) = connection.execute("SELECT to_regclass(%s)", [table]).fetchone() or (None,)
        if found is None:
            return 0
        (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone() or (0,)
        return int(count)


def stored(address: str, table: str) -> pa.Table:
    """All rows of a table, under its own column names."""
    import psycopg

    with psycopg.connect(address) as connection:
        cursor = connection.execute(f"SELECT * FROM {table}")
        names = [column.name for column in cursor.description or ()]
        return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in cursor])
