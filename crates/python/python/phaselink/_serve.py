"""Drives served by this process."""

import json
import os
import shutil
import tempfile

from . import _native, _text
from ._drive import load
from ._verbs import connect

#: Front-ends by their keyword, with the flag of ``phaselink serve``.
_FRONTS = {"shm": "shm", "nbd": "nbd", "vfio_user": "vfio-user", "vhost_user": "vhost-user"}


class Served:
    """A drive that this process serves; :func:`serve` makes one. Leaving its ``with`` block stops it."""

    def __init__(self, drive, native, folder, tolerance_us):
        self._native = native
        self._folder = folder
        self._tolerance_us = tolerance_us
        self._ended = None
        #: The drive that is served.
        self.drive = drive
        #: Where clients find it: ``shm:PATH``, ``nbd+unix:///?socket=PATH``, ...
        self.addresses = native.addresses()

    @property
    def path(self):
        """The socket of the drive in shared memory, which :func:`connect` takes; ``None`` if it has none."""
        paths = [address[len("shm:") :] for address in self.addresses if address.startswith("shm:")]
        return paths[0] if paths else None

    def connect(self, *, queues=1, depth=63, writes=True):
        """A connection in shared memory, as of :func:`connect`."""
        if self.path is None:
            raise ValueError("this drive is not served in shared memory: serve(..., shm=PATH)")
        return connect(self.path, queues=queues, depth=depth, writes=writes)

    @property
    def running(self):
        """True while it serves: not after :meth:`stop`, nor after a front-end has failed."""
        return self._native.is_running()

    def stop(self):
        """Stop serving; everything acknowledged is in the store when this returns. Once stopped, it stays so.

        Raises ``OSError`` for what a front-end or the disk has met.
        """
        if self._ended is None:
            try:
                self._ended = self._native.stop(self._tolerance_us)
            finally:
                if self._folder:
                    shutil.rmtree(self._folder, ignore_errors=True)

    def to_dict(self):
        """Summary of the served requests, as ``phaselink serve --json`` prints it, without its time of day. It stops the server.

        With timing on, ``["phaselink"]["lag"]`` says how far answers were behind the model, in ns.
        """
        self.stop()
        return json.loads(self._ended[0])

    def __str__(self):
        """The tables that ``phaselink serve`` prints at its end, or the addresses until then."""
        return self._ended[1] if self._ended else repr(self)

    def __repr__(self):
        state = "serving" if self.running else "stopped"
        return f"<{self.drive.name}, {state}: {', '.join(self.addresses)}>"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def serve(
    drive="nvme",
    *,
    shm=None,
    nbd=None,
    vfio_user=None,
    vhost_user=None,
    timing=True,
    wait="adaptive",
    store=None,
    seed=1,
    lag_tolerance_us=10.0,
    set=None,
    **overrides,
):
    """Serve a drive to real programs, from threads of this process; on Linux.

    ``drive``, ``set`` and other keywords are as in :func:`load`. ``shm``, ``vfio_user`` and ``vhost_user`` are paths of sockets,
    ``nbd`` is an address (``nbd+unix:///?socket=PATH``, ``nbd://127.0.0.1:PORT``); each is one or several, as the flags of
    ``phaselink serve`` (``docs/serve.md``). Without any, the drive is in shared memory at a socket of its own, which goes with
    the server. Only this machine reaches it.

    With ``timing``, requests are answered when the model says, otherwise at once. ``wait`` is ``"adaptive"``, ``"spin"`` or
    ``"block"``. ``store`` is a file that keeps the bytes, which are in memory otherwise. ``lag_tolerance_us`` is the lag at the
    99th percentile beyond which a result says that it is not to be trusted.

    Gives a :class:`Served`, a context manager. Raises :class:`InputError` with what keeps the drive from its addresses.

    >>> with serve("dc-express", timing=False, wait="block") as served:
    ...     queue = served.connect().queue()
    ...     queue.write(4096, b"x" * 512)
    ...     queue.read(4096, 512) == b"x" * 512
    True
    """
    if not hasattr(_native, "Server"):
        raise NotImplementedError("drives are served on Linux")
    drive = load(drive, set=set, **overrides)
    asked = {"shm": shm, "nbd": nbd, "vfio_user": vfio_user, "vhost_user": vhost_user}
    fronts = [(_FRONTS[name], _addresses(given)) for name, given in asked.items() if given is not None]
    folder = None if fronts else tempfile.mkdtemp(prefix="phaselink-")
    if folder:
        fronts = [("shm", [os.path.join(folder, "drive.sock")])]
    options = {
        "fronts": fronts,
        "timing": bool(timing),
        "wait": wait,
        "store": None if store is None else os.fspath(store),
        "seed": seed,
    }
    try:
        native = _native.Server(drive._native, options)
    except BaseException:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return Served(drive, native, folder, float(lag_tolerance_us))


def _addresses(given):
    several = [given] if isinstance(given, (str, os.PathLike)) else given
    return [_text.option(address) for address in several]
