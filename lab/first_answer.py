"""How long the first answer takes when nothing is compiled, and what the compiler does meanwhile.

    python -m lab.first_answer                 every query, each in a fresh process
    python -m lab.first_answer topk topk-by    only these
    python -m lab.first_answer --kernels topk  and what each kernel costs
    python -m lab.first_answer --cached topk   a second process each, which finds everything cached

Times are seconds after the import of skyband and of what makes the data. A specialisation is one
kernel compiled for one list of argument types; the time of a kernel is without that of the kernels
that it calls.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

ROWS = 1_000_000
NAMES = (
    "topk", "topk-count", "topk-by", "hh", "hh-text", "hh-by", "uncertain", "fused", "skyline",
    "join",
)  # fmt: skip
_HOUR = 3_600_000_000
_STREAMS = ("a", "b")


def _table(rows: int) -> Any:
    """An hour of rows."""
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(1)
    item = rng.zipf(1.2, rows) % 100_000
    return pa.table(
        {
            "ts": pa.array(np.sort(rng.integers(0, _HOUR, rows))).view(pa.timestamp("us", "UTC")),
            "id": np.arange(rows),
            "item": item,
            "text": pa.DictionaryArray.from_arrays(
                pa.array(item), pa.array([f"item {i}" for i in range(100_000)])
            ).cast(pa.string()),
            "group": rng.integers(0, 100, rows),
            "stream": pa.DictionaryArray.from_arrays(
                pa.array(rng.integers(0, 2, rows)), pa.array(_STREAMS)
            ).cast(pa.string()),
            "score": rng.random(rows),
            "p": rng.uniform(0.05, 0.95, rows),
        }
    )


def _reports(table: Any) -> Any:
    """Each object reports once per stream within a window."""
    import numpy as np
    import pyarrow as pa

    rows = table.num_rows
    return table.set_column(
        table.schema.get_field_index("id"), "id", pa.array(np.arange(rows) // 2)
    ).set_column(
        table.schema.get_field_index("stream"),
        "stream",
        pa.DictionaryArray.from_arrays(pa.array(np.arange(rows) % 2), pa.array(_STREAMS)),
    )


def _queries() -> dict[str, Callable[[], tuple[Any, Any]]]:
    """The source and the query of each case."""
    import skyband as sb

    window = sb.TimeWindow("10 minutes", slide="1 minute")
    count = sb.CountWindow(100_000, slide=1_000)
    sides = {"left_score": "max", "left_p": "min", "right_score": "max", "right_p": "min"}

    def top(**more: Any) -> Any:
        return sb.TopK(k=10, score="score", id="id", **{"window": window, "time": "ts", **more})

    def items(**more: Any) -> Any:
        return sb.HeavyHitters(k=10, window=window, time="ts", **{"item": "item", **more})

    def join() -> tuple[Any, Any]:
        table = _table(ROWS).select(["ts", "group", "score", "p"])
        half = ROWS // 2
        source = {"left": table.slice(0, half), "right": table.slice(0, half)}
        return source, sb.SkylineJoin(
            left="left", right="right", on="group", prefer=sides, window=window, time="ts"
        )

    def of(query: Any) -> Callable[[], tuple[Any, Any]]:
        return lambda: (_table(ROWS), query)

    return {
        "topk": of(top()),
        "topk-count": of(sb.TopK(k=2, score="score", id="id", window=count)),
        "topk-by": of(top(by="group")),
        "hh": of(items()),
        "hh-text": of(items(item="text")),
        "hh-by": of(items(by="group")),
        "uncertain": of(sb.UncertainTopK(
            k=10, score="score", probability="p", id="id", window=window, time="ts")),
        "fused": lambda: (_reports(_table(ROWS)), sb.FusedTopK(
            k=10, id="id", stream="stream", value="p", streams=_STREAMS, window=window, time="ts")),
        "skyline": of(sb.Skyline(
            prefer={"score": "max", "p": "min"}, id="id", window=window, time="ts")),
        "join": join,
    }  # fmt: skip


def measure(name: str) -> dict[str, Any]:
    """Run one case in this process."""
    from numba.core import event as numba_event

    import skyband as sb

    source, query = _queries()[name]()
    moments: list[tuple[float, Any]] = []

    event: Any = numba_event  # typed in some versions only

    class Listener(event.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            moments.append((time.process_time(), event))

        on_end = on_start

    event.register("numba:compile", Listener())
    began, cpu = time.perf_counter(), time.process_time()
    rows = sb.rank(source, query).num_rows
    took = {"wall": time.perf_counter() - began, "cpu": time.process_time() - cpu}
    kernels = _self_times(moments)
    return {"name": name, "rows": rows, **took, "kernels": kernels}


def _self_times(events: list[tuple[float, Any]]) -> list[tuple[str, str, float]]:
    open_: list[tuple[float, float]] = []
    done: list[tuple[str, str, float]] = []
    for moment, event in events:
        if event.is_start:
            open_.append((moment, 0.0))
            continue
        began, inner = open_.pop()
        if open_:
            open_[-1] = (open_[-1][0], open_[-1][1] + moment - began)
        kernel = event.data["dispatcher"].py_func
        where = f"{kernel.__module__.removeprefix('skyband.kernels.')}.{kernel.__name__}"
        done.append((where, str(event.data["args"]), moment - began - inner))
    return done


def in_fresh_process(name: str, folder: str) -> dict[str, Any]:
    """Run one case in a fresh process with the cache in `folder`."""
    done = subprocess.run(  # noqa: S603 - our own module
        [sys.executable, "-m", "lab.first_answer", "--here", name],
        env=os.environ | {"NUMBA_CACHE_DIR": folder},
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print one line per case."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--cached", action="store_true")
    parser.add_argument("--here", action="store_true")
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure(options.names[0])))
        return
    print(f"{'query':12} {'cpu s':>6} {'wall s':>6} {'specialisations':>15} {'compiling s':>11}")
    for name in options.names or NAMES:
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(2 if options.cached else 1):
                found = in_fresh_process(name, folder)
                kernels = found["kernels"]
                print(
                    f"{name:12} {found['cpu']:6.2f} {found['wall']:6.2f} {len(kernels):15} "
                    f"{sum(k[2] for k in kernels):11.2f}",
                    flush=True,
                )
                if options.kernels:
                    for where, args, took in sorted(kernels, key=lambda k: -k[2]):
                        print(f"  {took:6.2f}  {where:42} {args}")


if __name__ == "__main__":
    main()
