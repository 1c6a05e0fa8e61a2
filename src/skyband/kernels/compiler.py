"""How kernels are compiled: as numba does it, without the work that kernels have no use for.

Numba makes every compiled function ready to be called from Python: it is optimised, turned into
machine code and given a wrapper that unpacks Python objects. For a function that only other kernels
call, all of that is done in vain, because it is optimised once more in each kernel that it becomes
part of. An `Inner` function is therefore only translated to LLVM's language.

Numba also compiles a function again for each literal that it is called with, and for each width of
an integer. Here, a literal is a number, and every signed integer has 64 bits.

All that numba does not promise to keep is used in this module. With ``SKYBAND_PLAIN_NUMBA=1`` it is
not imported, see ``jit``.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import signal
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import llvmlite  # type: ignore[import-untyped]
import numba
from llvmlite import ir
from numba import _dynfunc
from numba.core import caching, codegen, compiler, types
from numba.core import cgutils as _cgutils
from numba.core.compiler import Compiler, Flags, _LowerResult
from numba.core.compiler_machinery import register_pass
from numba.core.pythonapi import _boxers
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys
from numba.core.serialize import dumps
from numba.core.typed_passes import NativeLowering
from numba.np import arrayobj as _arrayobj
from numba.np import numpy_support

from skyband.kernels import notice
from skyband.kernels.jit import cache_folder, only_ours

cgutils: Any = _cgutils  # untyped
arrayobj: Any = _arrayobj

# Compiled kernels on disk: one file per kernel and types of arguments, named by what is in it ----
#
# Numba keeps an index per function, and takes a function as changed when its file has another time
# or another path. So a cache that is copied to another machine, or used after a fresh checkout, is
# of no use; and two processes that compile one function for different types at the same time can
# end up with an index that names the wrong code. Here, the name of a file is a digest of all that
# its code depends on: the sources, the versions of Python and numba, the processor and the types. A
# file is written aside and then renamed, so that it is there whole or not at all.


class KernelFiles(caching._Cache):  # noqa: SLF001 - numba's interface of caches
    """What is kept of one kernel. `folder` is of its own sources; see `jit.surroundings`."""

    def __init__(self, function: Any, folder: Path) -> None:
        module = Path(function.__code__.co_filename).stem
        name = f"{module}.{function.__qualname__}".replace("<", "").replace(">", "")
        self._prefix = f"{name}-"
        self._code = function.__code__.co_code
        self._folder = folder

    @property
    def cache_path(self) -> str:
        """The folder that the files of this kernel are in."""
        return str(self._folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The kernel for arguments of these types, or None."""
        # Numba's own cache loads all that the compiler knows about first, scipy included. To run
        # code, its memory manager is enough.
        rtsys.initialize(target_context)
        payload = _read(self._path(sig, target_context.codegen()))
        if payload is None:
            return None
        return compiler.CompileResult._rebuild(target_context, *payload)  # noqa: SLF001

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the kernel for arguments of these types."""
        path = self._path(sig, data.codegen)
        if data.library.has_dynamic_globals:  # addresses that hold in this process only
            return
        aside = path.with_name(f"{path.name}.{uuid.uuid4().hex[:16]}")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            aside.touch(mode=0o600)
            aside.write_bytes(dumps(data._reduce()))  # noqa: SLF001
            aside.replace(path)
        except OSError:  # a full disk, say: it will be compiled again
            aside.unlink(missing_ok=True)

    def _path(self, sig: Any, codegen: Any) -> Path:
        versions = (sys.version_info[:2], numba.__version__, llvmlite.__version__)
        parts = (versions, codegen.magic_tuple(), str(sig), self._code)
        digest = hashlib.sha256(repr(parts).encode()).hexdigest()
        return self._folder / f"{self._prefix}{digest[:24]}.nbi"

    def enable(self) -> None:
        """Part of numba's interface; a kernel is always kept."""

    def disable(self) -> None:
        """Part of numba's interface; a kernel is always kept."""

    def flush(self) -> None:
        """Part of numba's interface; files are removed by removing the folder."""


def _read(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            if not only_ours(os.fstat(file.fileno())):
                return None
            return pickle.load(file)  # noqa: S301 - numba's own format, in a file of ours
    except (OSError, EOFError, pickle.UnpicklingError):
        return None


class _Shared(Flags):
    """The flags that numba's own functions inherit from ours, the same object for all kernels.

    Numba compiles its functions once for each value of the flags of who calls them, and compares
    all flags whenever it looks one up.
    """

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


_SHARED = _Shared()
_SHARED.nrt = True
_SHARED.release_gil = True
_SHARED.error_model = "numpy"
_SHARED.forceinline = False


class _Flags(Flags):
    """The flags of one kernel."""

    __slots__ = ()

    def copy(self) -> Flags:
        """What numba hands down to the functions that a kernel calls."""
        return _SHARED


def _array_object(kind: Any, array: Any, c: Any) -> Any:
    """Make the Python object of an array that a kernel returns, without running any Python.

    Numba unpickles the type of arrays with a Python function, and does not look whether it fails.
    It does when a signal arrived: the handler runs there. Results then lacked an array, or came
    along with an exception, which the interpreter complained about.
    """
    dtype, box_type = (
        c.env_manager.read_const(c.env_manager.add_const(each))
        for each in (numpy_support.as_dtype(kind.dtype), kind.box_type)
    )
    python, number = c.pyapi.pyobj, ir.IntType(32)
    signature = ir.FunctionType(python, [cgutils.voidptr_t, python, number, number, python])
    name = "NRT_adapt_ndarray_to_python_acqref"
    function = cgutils.get_or_insert_function(c.builder.module, signature, name)
    place = c.builder.bitcast(cgutils.alloca_once_value(c.builder, array), cgutils.voidptr_t)
    made = c.builder.call(
        function, [place, box_type, number(kind.ndim), number(int(kind.mutable)), dtype]
    )
    c.context.nrt.decref(c.builder, kind, array)
    return made


def _named_tuple_object(kind: Any, value: Any, c: Any) -> Any:
    """Make the Python object of a named tuple that a kernel returns, without running any Python.

    Numba unpickles its class, and calls it. Where a signal arrived, either may fail, and numba does
    not look: the process ended with a segmentation fault.
    """
    maker, named = (
        c.env_manager.read_const(c.env_manager.add_const(each))
        for each in (tuple.__new__, kind.instance_class)
    )
    items = c.pyapi.tuple_new(kind.count)
    for i, each in enumerate(kind):
        c.pyapi.tuple_setitem(items, i, c.box(each, c.builder.extract_value(value, i)))
    made = c.pyapi.call_function_objargs(maker, (named, items))
    c.pyapi.decref(items)
    return made


class _Compiler(Compiler):
    """Numba's compiler, which says that it is at work."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        notice.compiling(cache_folder())
        import numba.core.boxing  # noqa: F401  late, because kernels that are kept do without it

        _boxers.functions[types.Array] = _array_object
        for named in (types.NamedTuple, types.NamedUniTuple):
            _boxers.functions[named] = _named_tuple_object


class _Linkable(codegen.JITCodeLibrary):
    """Code that becomes part of other code, and is optimised there."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout  # noqa: SLF001

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _Translation(NativeLowering):
    """Translate to LLVM's language, and leave it there."""

    _name = "native_lowering"

    def run_pass(self, state: Any) -> bool:
        context = state.targetctx
        state.library = _Linkable(context.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        _, call_helper, _, env = state.cr
        name = state.func_id.func_name
        # It has no address. Numba knows a compiled function by this object.
        stub = _dynfunc.make_function(
            state.cr.fndesc.lookup_module(), name, "", 0, env, (state.library,)
        )
        context.insert_user_function(stub, state.cr.fndesc, [state.library])
        state["cr"] = _LowerResult(state.cr.fndesc, call_helper, stub, env)
        return True


class _Translator(_Compiler):
    """The compiler of functions that only other kernels call."""

    def define_pipelines(self) -> list[Any]:
        """The steps of a compilation."""
        (steps,) = super().define_pipelines()
        steps.passes = [
            (_Translation if step is NativeLowering else step, name) for step, name in steps.passes
        ]
        return [steps]


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Let the handlers of signals run afterwards, Ctrl-C's among them.

    LLVM calls Python while it links. What a handler raises there is lost, and the code is broken.
    """
    handlers: dict[int, Any] = {}
    arrived: list[tuple[int, Any]] = []
    waiting = True

    def wait(number: int, frame: Any) -> None:
        if waiting:
            arrived.append((number, frame))
        else:
            handlers[number](number, frame)

    main = threading.current_thread() is threading.main_thread()  # the only one that handles them
    try:
        for number in signal.valid_signals() if main else ():
            if callable(handler := signal.getsignal(number)):
                handlers[number] = handler
                signal.signal(number, wait)
        yield
    finally:
        waiting = False
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number, frame in arrived:
            handlers[number](number, frame)


class Entry(CPUDispatcher):
    """A compiled function that Python may call."""

    _steps: type[Compiler] = _Compiler

    def __init__(self, py_func: Any, locals: Any = None, targetoptions: Any = None) -> None:  # noqa: A002
        super().__init__(py_func, locals, targetoptions, pipeline_class=self._steps)
        self._compiler._customize_flags = _Flags  # noqa: SLF001

    def keep_in(self, folder: Path) -> None:
        """Keep what is compiled in a folder, and look there first."""
        self._cache = KernelFiles(self.py_func, folder)

    def compile(self, sig: Any) -> Any:
        """Compile for arguments of these types, or load what is kept."""
        with _signals_wait(), notice.waiting():
            return super().compile(sig)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """What numba asks for when a kernel calls this one with arguments of such types."""
        plain = [_widened(arg) for arg in args]
        return super().get_call_template(plain, {k: _widened(arg) for k, arg in kws.items()})


def _widened(kind: Any) -> Any:
    """The type that an argument is passed as: all signed integers are passed as int64."""
    kind = types.unliteral(kind)
    narrow = isinstance(kind, types.Integer) and kind.signed and kind.bitwidth < 64
    return types.int64 if narrow else kind


class Inner(Entry):
    """A compiled function for other kernels. If Python calls it, it calls its `twin`."""

    _steps = _Translator
    twin: Callable[[], Any]  # the same function as an `Entry`

    def __call__(self, *args: Any) -> Any:
        """It has no machine code of its own."""
        return self.twin()(*args)


# Intrinsics, which kernels call by the names in ``borrow`` ----------------------------------------


def ownerless(_context: Any, array: Any) -> Any:
    """The same array, of which no references are counted."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = arrayobj.make_array(signature.args[0])(context, builder, arguments[0])
        owner: Any = types.MemInfoPointer
        view.meminfo = context.get_constant_null(owner(types.voidptr))
        view.parent = context.get_constant_null(types.pyobject)
        return view._getvalue()  # noqa: SLF001 - numba's own way to build a value

    return array(array), generate


def copied(_context: Any, target: Any, source: Any, rows: Any) -> Any:
    """Copy the first rows of one array into another."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        into = arrayobj.make_array(signature.args[0])(context, builder, arguments[0])
        out_of = arrayobj.make_array(signature.args[1])(context, builder, arguments[1])
        count = context.cast(builder, arguments[2], signature.args[2], types.intp)
        row = cgutils.unpack_tuple(builder, out_of.strides)[0]
        cgutils.raw_memmove(builder, into.data, out_of.data, count, row)
        return context.get_dummy_value()

    return types.void(target, source, rows), generate
