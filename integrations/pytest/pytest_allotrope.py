"""A pytest plugin: tests with the mark `allotrope` are measured by `allotrope test`.

    @pytest.mark.allotrope(iterations=1000)
    def test_parse():
        for _ in range(1000):
            parse("17")

Without the recorder a marked test is a plain one. Under `allotrope record` and `allotrope
test` its function is called several times with the same fixtures, first as a warm-up, then
each time in a window, whose name is the test's node id. See docs/integrations.md.

The plugin calls the recorder through its C interface (docs/client-abi.md). It needs no
other file: copy it, or install this folder.
"""

import ctypes
import gc
import inspect
import os

import pytest

# Before a window opens, the recorder waits until other threads are quiet.
WAIT_FOR_QUIET = 2
# CPython specialises code and fills caches when a function runs for the first times.
WARM_UP = 1
RUNS = 10


class Recorder:
    """The functions of the recorder, which exist only in a recorded process."""

    def __init__(self, library):
        self.open = library.allotrope_window_open
        self.open.restype = ctypes.c_uint64
        self.open.argtypes = [
            ctypes.c_char_p,
            ctypes.c_size_t,
            ctypes.c_uint64,
            ctypes.c_uint32,
        ]
        self.close = library.allotrope_window_close
        self.close.restype = None
        self.close.argtypes = [ctypes.c_uint64, ctypes.c_uint32]

    def measure(self, name, iterations, function, arguments):
        """Calls a function according to the protocol of a measurement."""
        encoded = name.encode()
        more = setting("ALLOTROPE_WINDOW_FLAGS", 0)
        opening = (encoded, len(encoded), iterations, WAIT_FOR_QUIET | more)
        for _ in range(setting("ALLOTROPE_WARMUP", WARM_UP)):
            function(**arguments)
        for _ in range(max(setting("ALLOTROPE_RUNS", RUNS), 1)):
            self.run(opening, more, function, arguments)

    def run(self, opening, closing, function, arguments):
        """Calls a function in a window. Between the opening and the closing only the
        function and what ctypes does for the two calls can allocate."""
        # A collection in the window would run when the number of all objects says so.
        gc.collect()
        collects = gc.isenabled()
        gc.disable()
        open_window, close_window = self.open, self.close
        try:
            window = open_window(*opening)
            try:
                function(**arguments)
            finally:
                close_window(window, closing)
        finally:
            if collects:
                gc.enable()


def setting(name, default):
    """A number that `allotrope test` sets."""
    value = os.environ.get(name, "")
    return int(value) if value.isdecimal() else default


def recorder():
    """The recorder; None if this process is not recorded."""
    try:
        library = ctypes.CDLL(None)
        return Recorder(library) if hasattr(library, "allotrope_window_open") else None
    except (OSError, TypeError):
        # A Python without a dynamic loader, or another system than Linux.
        return None


RECORDER = recorder()


def iterations_of(mark):
    """The argument of the mark."""
    known = not mark.args and set(mark.kwargs) <= {"iterations"}
    iterations = mark.kwargs.get("iterations", 1)
    if not known or type(iterations) is not int or not 0 < iterations < 2**32:
        raise pytest.UsageError(
            "write @pytest.mark.allotrope or @pytest.mark.allotrope(iterations=NUMBER)"
        )
    return iterations


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "allotrope(iterations=1): `allotrope test` compares what this test allocates with "
        "accepted numbers; its function repeats the measured work `iterations` times.",
    )


def pytest_collection_modifyitems(items):
    for item in items:
        mark = item.get_closest_marker("allotrope")
        if mark is None:
            continue
        iterations_of(mark)
        # A subclass of pytest.Function stands for another way to call the test.
        plain = type(item) is pytest.Function and not inspect.iscoroutinefunction(item.obj)
        if not plain:
            raise pytest.UsageError(
                f"{item.nodeid} cannot be measured: @pytest.mark.allotrope is for functions and "
                "methods that are neither async nor of a unittest.TestCase"
            )


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    mark = pyfuncitem.get_closest_marker("allotrope")
    if mark is None or RECORDER is None:
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names if name in pyfuncitem.funcargs}
    RECORDER.measure(pyfuncitem.nodeid, iterations_of(mark), pyfuncitem.obj, arguments)
    return True
