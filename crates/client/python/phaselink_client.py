"""A DC Express device in shared memory, from Python: no system call between a thread and its data.

``phaselink serve DRIVE --shm PATH`` is the device. This module calls the C library ``libphaselink_client`` through
ctypes; there is nothing to build or install. ::

    import phaselink_client

    with phaselink_client.connect("disk.sock") as drive, drive.queue() as queue:
        queue.write(4096, b"x" * 512)
        queue.flush()
        assert queue.read(4096, 512) == b"x" * 512

        buffers = [bytearray(4096) for _ in range(8)]      # eight reads in flight together
        for place, buffer in enumerate(buffers):
            queue.submit_read(place * 4096, buffer)
        while queue.under_way:
            for request in queue.poll():
                print(request.offset, bytes(request.buffer[:4]))

Offsets and lengths are in bytes, multiples of ``drive.block_bytes``. Buffers are anything with the buffer protocol that
lies in one piece; nothing is copied between them and the device but once by the library. A queue belongs to one thread
at a time; threads that want to work together take one each. Calls leave other Python threads running.
"""

import ctypes
import ctypes.util
import errno
import os
from pathlib import Path

__all__ = ["Drive", "Error", "Queue", "Request", "connect"]

#: The longest transfer of :meth:`Queue.submit_read` and :meth:`Queue.submit_write`.
TRANSFER_BYTES_MAX = 128 << 10

_TEXTS = {
    errno.EINVAL: "the device does not take these bytes: offset and length are multiples of a block, within the drive",
    errno.EROFS: "the device lets nobody write here",
    errno.ENOSPC: "the disk behind the device is full",
    errno.EIO: "the disk behind the device has failed",
    errno.EPIPE: "the device has gone",
    errno.EBUSY: "the queue is full, or the server has no room for another client",
    errno.EACCES: "the server lets nobody write here",
    errno.EOPNOTSUPP: "the server has another version of the protocol",
}


class Error(OSError):
    """Error that the device reports, as ``errno`` and text."""


class Request:
    """A transfer or flush in flight, and its result after completion."""

    __slots__ = ("buffer", "error", "kind", "offset", "_slot", "_view", "_keep")

    def __init__(self, kind, offset, buffer):
        #: "read", "write" or "flush".
        self.kind = kind
        #: Offset on the drive, in bytes.
        self.offset = offset
        #: The buffer as it was given; ``None`` for a flush.
        self.buffer = buffer
        #: The :class:`Error` of a request that has failed.
        self.error = None

    def __repr__(self):
        return f"<{self.kind} at {self.offset}{': ' + str(self.error) if self.error else ''}>"


class Queue:
    """Commands of one thread. Made by :meth:`Drive.queue`; a context manager that closes it."""

    def __init__(self, library, pointer, depth):
        self._library, self._pointer, self.depth = library, pointer, depth
        self._requests = []

    def read(self, offset, length):
        """Read ``length`` bytes, wait for them, and return a new ``bytearray``."""
        buffer = bytearray(length)
        self.read_into(offset, buffer)
        return buffer

    def read_into(self, offset, buffer):
        """Fill a writable buffer from the drive, and wait for it."""
        address, length, _keep = _writable(buffer)
        _check(self._library.phaselink_read(self._open(), offset, address, length))

    def write(self, offset, data):
        """Write a buffer of any length, and wait for it."""
        address, length, _keep = _readable(data)
        _check(self._library.phaselink_write(self._open(), offset, address, length))

    def flush(self):
        """Make everything written so far durable, and wait for it."""
        _check(self._library.phaselink_flush(self._open()))

    def submit_read(self, offset, buffer):
        """Submit a read into a writable buffer of up to 128 KiB; it is full when :meth:`poll` returns the request."""
        address, length, keep = _writable(buffer)
        submit = self._library.phaselink_submit_read
        return self._submit(Request("read", offset, buffer), (address, length, keep), submit, offset, length)

    def submit_write(self, offset, data):
        """Submit a write of up to 128 KiB. The caller may reuse the data when this returns."""
        address, length, _keep = _readable(data)
        submit = self._library.phaselink_submit_write
        return self._submit(Request("write", offset, data), (None, 0, None), submit, offset, address, length)

    def submit_flush(self):
        """Submit a flush of everything that has completed so far."""
        return self._submit(Request("flush", 0, None), (None, 0, None), self._library.phaselink_submit_flush)

    @property
    def under_way(self):
        """Number of requests that have been submitted and not been returned by :meth:`poll`."""
        return len(self._requests)

    @property
    def full(self):
        """True if another request would have to wait for one in flight."""
        return len(self._requests) >= self.depth

    def poll(self):
        """The requests that have completed since the last call, in the order in which they were submitted.

        Failed ones carry their ``error``. A device that has gone raises :class:`Error` instead.
        """
        queue, complete = self._open(), self._library.phaselink_complete
        done, waiting = [], []
        for place, request in enumerate(self._requests):
            address, length, _keep = request._view
            answer = complete(queue, request._slot, address, length)
            if answer == -errno.EPIPE:
                self._requests = waiting + self._requests[place:]
                _check(answer)
            if answer == 0:
                waiting.append(request)
                continue
            if answer < 0:
                request.error = _error(-answer)
            request._view = (None, 0, None)
            done.append(request)
        self._requests = waiting
        return done

    def close(self):
        """Close the queue. Requests in flight are not waited for."""
        if self._pointer is not None:
            self._library.phaselink_queue_close(self._pointer)
            self._pointer = None
            self._requests = []

    def _submit(self, request, view, submit, *arguments):
        request._slot = _check(submit(self._open(), *arguments))
        request._view = view
        self._requests.append(request)
        return request

    def _open(self):
        if self._pointer is None:
            raise ValueError("the queue is closed")
        return self._pointer

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self.close()

    def __del__(self):
        self.close()


class Drive:
    """A connection to a device. Made by :func:`connect`; a context manager that ends it.

    Queues that have been taken stay usable when the drive is closed, and the connection ends with the last of them.
    """

    def __init__(self, library, pointer, depth):
        self._library, self._pointer, self._depth = library, pointer, depth
        #: Bytes of the drive that this client sees.
        self.capacity_bytes = library.phaselink_capacity(pointer)
        #: Block size in bytes, of which offsets and lengths are multiples.
        self.block_bytes = library.phaselink_block(pointer)

    def queue(self):
        """The next queue, for a thread of its own. There are as many as :func:`connect` was asked for."""
        if self._pointer is None:
            raise ValueError("the drive is closed")
        pointer = self._library.phaselink_queue(self._pointer)
        if not pointer:
            raise Error(errno.EBUSY, "all queues that were asked for have been taken")
        return Queue(self._library, pointer, self._depth)

    def close(self):
        """End the connection, but for the queues that have been taken."""
        if self._pointer is not None:
            self._library.phaselink_close(self._pointer)
            self._pointer = None

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self.close()

    def __del__(self):
        self.close()


def connect(path, queues=1, depth=32, writes=True, library=None):
    """Connect to the device whose socket is at ``path``.

    ``queues`` (up to 16) is how many threads will work with it, ``depth`` (up to 1023) how many commands each has under
    way at most. Without ``writes``, a share that is read-only lets this client in. ``library`` is the path of
    libphaselink_client; without it, $PHASELINK_CLIENT, the system's places and the build directory are looked at.
    """
    loaded, pointer = _load(library), ctypes.c_void_p()
    _check(loaded.phaselink_connect(os.fsencode(path), queues, depth, bool(writes), ctypes.byref(pointer)), path)
    return Drive(loaded, pointer.value, depth)


def _load(path):
    library = ctypes.CDLL(os.fspath(path or os.environ.get("PHASELINK_CLIENT") or _find()))
    pointer, number, length = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t
    signatures = {
        "connect": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_int, pointer]),
        "capacity": (number, [pointer]),
        "block": (ctypes.c_uint32, [pointer]),
        "queue": (pointer, [pointer]),
        "queue_close": (None, [pointer]),
        "close": (None, [pointer]),
        "read": (ctypes.c_int, [pointer, number, pointer, length]),
        "write": (ctypes.c_int, [pointer, number, pointer, length]),
        "flush": (ctypes.c_int, [pointer]),
        "submit_read": (ctypes.c_int, [pointer, number, ctypes.c_uint32]),
        "submit_write": (ctypes.c_int, [pointer, number, pointer, ctypes.c_uint32]),
        "submit_flush": (ctypes.c_int, [pointer]),
        "complete": (ctypes.c_int, [pointer, ctypes.c_int, pointer, length]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, "phaselink_" + name)
        function.restype, function.argtypes = result, arguments
    return library


def _find():
    """Return the path of the library: beside this file, installed, or built in the repository."""
    name, here = "libphaselink_client.so", Path(__file__).resolve().parent
    targets = [here.parents[2] / "target" / kind / name for kind in ("release", "debug")] if len(here.parents) > 2 else []
    found = next((path for path in [here / name, *targets] if path.exists()), None)
    found = found or ctypes.util.find_library("phaselink_client")
    if not found:
        raise FileNotFoundError(errno.ENOENT, "cargo build --release makes it; $PHASELINK_CLIENT says where it is", name)
    return found


def _writable(buffer):
    """Return address and length of a buffer to fill, and the object that keeps it in place."""
    view = memoryview(buffer).cast("B")
    array = (ctypes.c_char * view.nbytes).from_buffer(view)
    return ctypes.addressof(array), view.nbytes, array


def _readable(data):
    """Return address and length of data to write, and the object that keeps it in place.

    A read-only object other than ``bytes`` is copied once.
    """
    view = memoryview(data).cast("B")
    if not view.readonly:
        return _writable(view)
    whole = data if isinstance(data, bytes) else bytes(view)
    return ctypes.cast(ctypes.c_char_p(whole), ctypes.c_void_p).value, len(whole), whole


def _error(number, path=None):
    text = _TEXTS.get(number, os.strerror(number))
    return Error(number, text) if path is None else Error(number, text, os.fspath(path))


def _check(answer, path=None):
    """Return the result of the library, or raise its error."""
    if answer < 0:
        raise _error(-answer, path)
    return answer
