from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import skyband
from skyband.kernels import jit as jit_module
from skyband.kernels import patient as patience
from skyband.kernels.borrow import borrowed
from skyband.kernels.jit import first_usable, for_python, jit
from skyband.kernels.patient import patient

PACKAGE = Path(skyband.__file__).parent
NO_HOME = "/dev/null"  # a file, so that not even root can create folders below it


@pytest.mark.nojit
def test_the_first_folder_that_passes_is_taken_and_later_ones_are_not_probed() -> None:
    probed = []

    def usable(folder: Path) -> bool:
        probed.append(folder.name)
        return folder.name == "b"

    assert first_usable([Path("a"), Path("b"), Path("c")], usable) == Path("b")
    assert probed == ["a", "b"]
    assert first_usable([Path("a"), Path("c")], usable) is None
    assert first_usable([], usable) is None


@pytest.mark.nojit
def test_the_probe_makes_folders_and_refuses_what_it_cannot_write(tmp_path: Path) -> None:
    assert jit_module._takes_files(tmp_path / "new" / "folder")
    assert list((tmp_path / "new" / "folder").iterdir()) == []
    (tmp_path / "file").touch()
    assert not jit_module._takes_files(tmp_path / "file")
    assert not jit_module._takes_files(tmp_path / "file" / "below")


@pytest.mark.nojit
@pytest.mark.skipif(not hasattr(os, "getuid"), reason="Windows has a temporary folder per user")
def test_a_temporary_folder_that_others_can_write_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine"
    assert jit_module._is_private(mine)
    assert mine.stat().st_mode & 0o777 == 0o700
    assert jit_module._is_private(mine)
    mine.chmod(0o777)
    assert not jit_module._is_private(mine)
    mine.chmod(0o700)
    (tmp_path / "link").symlink_to(mine)
    assert not jit_module._is_private(tmp_path / "link")
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert not jit_module._is_private(mine)


@pytest.mark.nojit
def test_integers_wrap_and_division_by_zero_is_silent_with_and_without_the_jit() -> None:
    @jit
    def twice(x: np.uint64) -> np.uint64:
        return x * np.uint64(2)

    @jit
    def ratio(a: np.float64, b: np.float64) -> np.float64:
        return a / b

    assert twice(np.uint64(2**63 + 5)) == 10
    assert ratio(np.float64(1), np.float64(0)) == np.inf


def run(code: str, env: dict[str, str], path: Path) -> str:
    """What `code` prints in a new process that imports from `path`, with the JIT on."""
    keep = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    done = subprocess.run(
        [sys.executable, "-B", "-c", code],
        env=keep | {"PYTHONPATH": str(path)} | env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


HASH_ONE = """
import numpy as np
from skyband.kernels import hashing, jit
print(jit.cache_folder(), hashing.mix(np.uint64(1)))
"""
EXPECTED = "10451216379200822465"  # of 1


@pytest.fixture
def read_only_install(tmp_path: Path) -> Path:
    """A copy of the kernels that cannot have a cache: a file takes the place of its folder."""
    copy = tmp_path / "site" / "skyband"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE / "kernels", copy / "kernels", ignore=ignore)
    (copy / "__init__.py").touch()
    shutil.copy(PACKAGE / "arrays.py", copy)
    (copy / "kernels" / "__pycache__").touch()
    return copy.parent


def test_caches_in_the_package_by_default(tmp_path: Path) -> None:
    copy = tmp_path / "skyband"
    shutil.copytree(
        PACKAGE / "kernels", copy / "kernels", ignore=shutil.ignore_patterns("__pycache__")
    )
    (copy / "__init__.py").touch()
    shutil.copy(PACKAGE / "arrays.py", copy)
    folder, value = run(HASH_ONE, {"HOME": NO_HOME}, tmp_path).split()
    assert value == EXPECTED
    assert Path(folder) == copy / "kernels" / "__pycache__" / "numba"
    assert list(Path(folder).rglob("*.nbi"))


def test_an_unwritable_install_caches_in_the_users_folder(
    read_only_install: Path, tmp_path: Path
) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    folder, value = run(HASH_ONE, env, read_only_install).split()
    assert (folder, value) == (str(tmp_path / "cache" / "skyband"), EXPECTED)
    assert list(Path(folder).rglob("*.nbi"))


def test_an_unwritable_install_and_home_cache_in_a_temporary_folder(
    read_only_install: Path, tmp_path: Path
) -> None:
    shared = tmp_path / "temporary"
    shared.mkdir()
    env = {"HOME": NO_HOME, "XDG_CACHE_HOME": "", "TMPDIR": str(shared)}
    folder, value = run(HASH_ONE, env, read_only_install).split()
    assert (Path(folder).parent, value) == (shared, EXPECTED)
    assert list(Path(folder).rglob("*.nbi"))


def test_compiles_without_a_cache_where_nothing_can_be_written(read_only_install: Path) -> None:
    code = """
import tempfile
def none():
    raise FileNotFoundError
tempfile.gettempdir = none
"""
    env = {"HOME": NO_HOME, "XDG_CACHE_HOME": ""}
    assert run(code + HASH_ONE, env, read_only_install) == f"None {EXPECTED}"


def test_numba_cache_dir_comes_first_and_other_users_of_numba_keep_their_setting(
    tmp_path: Path,
) -> None:
    code = HASH_ONE + "import numba; print(numba.config.CACHE_DIR)"
    chosen = str(tmp_path / "chosen")
    printed = run(code, {"NUMBA_CACHE_DIR": chosen}, PACKAGE.parent).split()
    assert printed == [chosen, EXPECTED, chosen]
    assert list(Path(chosen).rglob("*.nbi"))


def test_a_cached_kernel_is_renewed_when_a_kernel_it_calls_changes(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    start = "from skyband.kernels.jit import jit\n"
    inner = start + "STEP = 1\n@jit\ndef inner(x):\n    return x + STEP\n"
    (folder / "low.py").write_text(inner)
    (folder / "mid.py").write_text(
        start + "from low import inner\n@jit\ndef mid(x):\n    return inner(x)\n"
    )
    (folder / "top.py").write_text(
        start + "from mid import mid\nfrom low import STEP\n"
        "@jit\ndef top(x):\n    return mid(x) + STEP\n"
    )
    env = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    code = f"import sys; sys.path.append({str(folder)!r}); from top import top; print(top(0))"
    assert run(code, env, PACKAGE.parent) == "2"
    (folder / "low.py").write_text(inner.replace("1", "10"))
    assert run(code, env, PACKAGE.parent) == "20"


def test_a_cache_serves_another_copy_of_the_package(tmp_path: Path) -> None:
    """Neither the place nor the times of files count, so images and fresh checkouts can share."""
    code = (
        "import numpy as np\n"
        "from skyband.kernels import strings\n"
        "kernel = strings.prefix_keys.__wrapped__\n"
        "offsets, text = np.arange(3), np.zeros(2, np.uint8)\n"
        "print(len(kernel(offsets, text, 0)), len(kernel.stats.cache_hits))"
    )
    env = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    for name, printed in (("one", "2 0"), ("two", "2 1")):
        copy = tmp_path / name / "skyband"
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PACKAGE / "kernels", copy / "kernels", ignore=ignore)
        (copy / "__init__.py").touch()
        shutil.copy(PACKAGE / "arrays.py", copy)
        for path in copy.rglob("*.py"):
            path.touch()
        assert run(code, env, copy.parent) == printed
    (damaged,) = (tmp_path / "cache").rglob("*.nbi")
    damaged.write_bytes(damaged.read_bytes()[:100])
    assert run(code, env, tmp_path / "one") == "2 0"
    assert run(code, env, tmp_path / "one") == "2 1"


def test_importing_the_kernels_package_does_not_import_numba() -> None:
    code = "import sys, skyband.kernels; print('numba' in sys.modules)"
    assert run(code, {}, PACKAGE.parent) == "False"


@jit
def _triple(x: int) -> int:
    return x * 3


def _sum_of_triples(values: np.ndarray) -> int:
    values = borrowed(values)
    found = 0
    for i in range(len(values)):
        found += _triple(values[i])
    return found


class TestPatient:
    """Kernels that are interpreted as long as there is little work."""

    @pytest.fixture
    def total(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        monkeypatch.setattr(jit_module, "cache_folder", lambda: None)
        monkeypatch.setitem(patience._told, "hurry", False)  # a command may have set it
        return for_python(_sum_of_triples)

    def test_small_calls_are_interpreted_and_large_ones_compiled(self, total: Any) -> None:
        compiled, total = total, patient(total)
        few = np.arange(100)
        assert total(few) == 3 * few.sum()
        assert not compiled.signatures
        many = np.arange(100_000)
        assert total(many) == 3 * many.sum()
        assert len(compiled.signatures) == 1
        assert total(few) == 3 * few.sum()

    def test_patience_ends(self, total: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(patience, "_PATIENCE", 1e-9)
        compiled, total = total, patient(total)
        few = np.arange(10)
        assert total(few) == 135
        assert not compiled.signatures
        assert total(few) == 135
        assert compiled.signatures

    def test_who_hurries_compiles_at_once(
        self, total: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(patience._told, "hurry", True)
        assert patient(total)(np.arange(10)) == 135
        assert total.signatures

    def test_a_kernel_that_was_compiled_before_is_not_interpreted(self, tmp_path: Path) -> None:
        code = (
            "import numpy as np\n"
            "from skyband.kernels import patient, arrange\n"
            "def refuse(kernel): raise AssertionError('interpreted')\n"
            "if {again}: patient.interpreted = refuse\n"
            "kernel = arrange.arrival_numbers\n"
            "found = kernel(np.zeros({rows}, np.int32), np.zeros(1, np.int64))\n"
            "print(found.max(), len(kernel.__wrapped__.signatures))"
        )
        env = {"NUMBA_CACHE_DIR": str(tmp_path)}
        assert run(code.format(again=0, rows=10), env, PACKAGE.parent) == "9 0"
        assert run(code.format(again=0, rows=10_000), env, PACKAGE.parent) == "9999 1"
        assert run(code.format(again=1, rows=10), env, PACKAGE.parent) == "9 1"

    def test_the_first_answer_compiles_nothing(self, tmp_path: Path) -> None:
        code = (
            "import pyarrow as pa, skyband as sb\n"
            "t = pa.table({'id': ['a', 'b', 'c'], 'score': [1.0, 3.0, 2.0]})\n"
            "q = sb.TopK(k=2, score='score', id='id', window=sb.CountWindow(3, slide=1))\n"
            "print(sb.rank(t, q)['id'].to_pylist())"
        )
        env = {"NUMBA_CACHE_DIR": str(tmp_path)}
        assert run(code, env, PACKAGE.parent) == "['a', 'b', 'a', 'b', 'c']"
        assert not list(tmp_path.rglob("*.nbi"))


def test_no_extensions_of_numba_are_looked_for() -> None:
    """That takes 0.05 s of the first answer in each process: it reads all installed packages."""
    code = """
import numpy as np
from numba.core import entrypoints
from skyband.kernels.arrange import counting_order
from skyband.kernels.patient import hurry
hurry()
counting_order(np.zeros(2, np.int32), 1)
assert counting_order.__wrapped__.signatures
print(entrypoints._already_initialized)
"""
    for _ in range(2):  # the first one may compile, which does look for them
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    assert done.stdout.strip() == b"False"
