"""A modelled drive in virtual time, inside a Python program: a simulator, a scheduler, a database under test."""

import array
from typing import NamedTuple

from . import _native
from ._drive import load


class Completion(NamedTuple):
    """Completion of an operation."""

    #: The ticket that :meth:`EmbeddedDrive.submit` returned.
    ticket: int
    #: Instants of submission and completion, in picoseconds.
    submitted_ps: int
    at_ps: int
    #: ``"success"``, ``"media error"``, ``"timed out"``, ``"drive removed"`` or ``"power lost"``.
    status: str
    #: Data of a successful read.
    data: bytes
    #: Time in each stage, in picoseconds; they sum to the latency. Empty unless the drive keeps stages.
    stages: dict

    @property
    def latency_ps(self):
        """Time from submission to completion, in picoseconds."""
        return self.at_ps - self.submitted_ps


class OperationSummary(NamedTuple):
    """Completed commands of one kind."""

    kind: str
    operations: int
    bytes: int
    mean_ps: int
    p99_ps: int
    max_ps: int
    #: Time in each stage over all operations, in picoseconds.
    stages: dict


class BatchResult(NamedTuple):
    """Results of :meth:`EmbeddedDrive.batch`: three arrays with a place for each operation."""

    #: Instants of submission, in picoseconds. The largest number of 64 bits stands for an operation that was not submitted.
    submitted_ps: object
    #: Instants of completion, in picoseconds. The largest number of 64 bits stands for an operation that never completes.
    completed_ps: object
    #: Numbers of the statuses: 0 is success, and :attr:`statuses` has the names of all.
    status: object

    @property
    def failures(self):
        """The operations that failed: a dictionary from place to the name of the status."""
        return {place: self.statuses[number] for place, number in enumerate(self.status) if number}

    @property
    def statuses(self):
        """Names of the statuses, by number."""
        return tuple(_native.EmbeddedDrive.batch_statuses)


def _completion(native):
    *words, stages = native
    return Completion(*words, dict(stages))


class EmbeddedDrive:
    """A drive in the caller's time; :func:`embed` makes one.

    The program submits operations at instants of its own, in picoseconds, and advances the drive. Nothing here reads a clock. What
    the drive cannot carry out raises :class:`MisuseError`, and the drive stays as it was.
    """

    def __init__(self, native, drive):
        self._native = native
        #: The description of the drive.
        self.drive = drive

    @property
    def capacity_bytes(self):
        """Capacity in bytes."""
        return self._native.capacity_bytes

    @property
    def block_bytes(self):
        """Bytes of a block: offsets and lengths are multiples of it."""
        return self._native.block_bytes

    @property
    def queues(self):
        """Number of queues."""
        return self._native.queues

    @property
    def is_volatile(self):
        """True if completed writes may be lost with power unless a flush follows them."""
        return self._native.is_volatile

    @property
    def now_ps(self):
        """Instant that the drive has reached."""
        return self._native.now_ps

    @property
    def next_at_ps(self):
        """Earliest instant at which an operation may complete; ``None`` if none is in flight."""
        return self._native.next_at_ps

    @property
    def in_flight(self):
        """Number of operations in flight."""
        return self._native.in_flight

    def submit(self, now_ps, kind, offset=0, bytes=0, *, data=None, durable=False, queue=0):
        """Submit an operation at ``now_ps``, and return its ticket.

        ``kind`` is ``"read"``, ``"write"``, ``"flush"``, ``"discard"`` or ``"write zeroes"``. A write has ``data``, unless the drive
        keeps none. ``durable`` is force unit access.
        """
        return self._native.submit(now_ps, queue, kind, offset, bytes, data, durable)

    def advance(self, to_ps):
        """Advance to an instant."""
        self._native.advance(to_ps)

    def advance_to_completion(self, to_ps):
        """Advance to the next completion, or to ``to_ps`` if none comes before. True if an operation has completed.

        2**63 sets no end: if nothing completes, the drive stays at its instant.
        """
        return self._native.advance_to_completion(to_ps)

    def completions(self):
        """Take the completions of all operations that have completed, in the order of time."""
        while (done := self._native.next_completion()) is not None:
            yield _completion(done)

    def take(self, ticket):
        """Take the completion of one operation."""
        return _completion(self._native.take(ticket))

    def wait(self, ticket):
        """Advance until an operation has completed, and take its completion.

        If it never completes, :class:`MisuseError` is raised, and the drive has advanced past all other completions.
        """
        return _completion(self._native.wait(ticket))

    def batch(self, kinds, offsets, bytes, *, at_ps=None, depth=1, queue=0):
        """Carry out many operations without data in one call, and return a :class:`BatchResult`.

        ``kinds`` is one kind for all, or a sequence that is repeated. ``offsets`` is an array or a sequence of numbers, as is
        ``at_ps``, the instants of submission; without these, up to ``depth`` operations are kept in flight from now on. Arrays
        are numpy's if that is installed.

        All operations are checked before the first is submitted: :class:`MisuseError` means that none was. An operation that fails
        has its status at its place in the result. If operations that never complete fill the depth, the rest is not submitted.
        """
        kinds = [kinds] if isinstance(kinds, str) else list(kinds)
        if not kinds:
            raise ValueError("kinds has no kind of an operation")
        if depth < 1:
            raise ValueError(f"depth={depth}; at least one operation has to be in flight")
        offsets = _column(offsets)
        times = None if at_ps is None else _column(at_ps)
        if times is not None and len(times) != len(offsets):
            raise ValueError(
                f"{len(offsets) // 8} offsets and {len(times) // 8} instants; there has to be an instant for each"
            )
        submitted, completed, statuses = self._native.batch(queue, kinds, offsets, bytes, times, depth)
        return BatchResult(_numbers(submitted), _numbers(completed), _numbers(statuses, "B"))

    def peek(self, offset, bytes):
        """Bytes as they are now, without an operation and without time."""
        return self._native.peek(offset, bytes)

    def inject_fault(self, rule):
        """Inject faults from now on: a line such as ``at=2s for=500ms stall``, or a rule of ``[[faults]]``."""
        self._native.inject_fault(rule)

    def cut_power(self, now_ps=None, survives="drawn", seed=1):
        """Cut the power, and start the drive again at once.

        ``survives`` says which writes are there afterwards: ``"everything"`` that was submitted, only what is ``"durable"``, or a
        legal state that is ``"drawn"`` from ``seed``. It may also be one of :meth:`images` of this instant. Operations in flight complete with the status ``"power lost"``.
        """
        now_ps = self.now_ps if now_ps is None else now_ps
        if isinstance(survives, str):
            self._native.cut_power(now_ps, survives, seed)
        else:
            self._native.cut_power_to(now_ps, survives)

    def images(self, wanted=100, seed=1):
        """Up to ``wanted`` of the states that a power cut may leave now: all, if there are no more, otherwise drawn from ``seed``.

        Each has a ``name``, the sentences of its ``explanation`` (each write that is missing or torn, with the rule that allows it,
        and how to replay the state), and ``read(offset, bytes)``.
        """
        return self._native.images(wanted, seed)

    def image(self, name):
        """The state of this name, if a power cut may leave it now."""
        return self._native.image(name)

    def drawn_image(self, seed=1):
        """The state that :meth:`cut_power` leaves now with this seed."""
        return self._native.drawn_image(seed)

    def load_image(self, image):
        """Replace the bytes of the drive by those of an image, of this drive or of a recording.

        An application goes on with what a power cut has left. No operation may be in flight.
        """
        self._native.load_image(image)

    def snapshot(self):
        """The state of the drive, for :meth:`restore`."""
        return self._native.snapshot()

    def restore(self, snapshot):
        """Return to a state, with its instant and its operations in flight.

        A state of a drive that was opened from another description, or with another seed or other options, is refused.
        """
        self._native.restore(snapshot)

    def summary(self):
        """A list of :class:`OperationSummary`, one for each kind of commands that have completed."""
        return [OperationSummary(*words, dict(stages)) for *words, stages in self._native.summary()]


def embed(
    drive,
    /,
    *,
    set=None,
    seed=1,
    data=True,
    stages=False,
    power_cuts=False,
    host_software=False,
    **overrides,
):
    """Open a drive in the caller's time.

    ``drive``, ``set`` and ``overrides`` say which, as in :func:`load`. Without ``data`` the drive holds no bytes. With ``stages``
    each completion has them; with ``power_cuts`` the drive can lose power. With ``host_software`` the simulated software of the
    drive's host stands before the driver; otherwise the program is the host's software.
    """
    drive = load(drive, set=set, **overrides)
    text = drive.to_toml()
    wants = [not data, stages, power_cuts, host_software]
    return EmbeddedDrive(_native.EmbeddedDrive((f"{drive.name}.toml", text), [], seed, wants), drive)


def recording_images(path, wanted=100, seed=1, *, name=None):
    """States that a power cut may leave at any event of a recording that ``phaselink crash --record`` made.

    Up to ``wanted`` are returned: all, if there are no more, otherwise drawn from ``seed``; with ``name``, the one of that name alone.
    Each is as those of :meth:`EmbeddedDrive.images`, and :meth:`EmbeddedDrive.load_image` puts it on a drive.
    """
    with open(path, "rb") as file:
        return _native.recording_images(str(path), file.read(), name, wanted, seed)


class SimPyDrive:
    """An :class:`EmbeddedDrive` as a resource of a SimPy environment.

    Each operation is an event, whose value is the :class:`Completion`::

        drive = phaselink.SimPyDrive(env, phaselink.embed("tlc-gen4"))
        done = yield drive.write(0, bytes(4096))
        yield drive.flush()

    One unit of the environment's time is a second, or ``unit_s`` seconds.
    """

    def __init__(self, env, drive, unit_s=1.0):
        self.env = env
        #: The drive of the resource.
        self.drive = drive
        self._ps_per_unit = unit_s * 1e12
        self._events = {}
        self._wakes_at = None

    def read(self, offset, bytes, **options):
        """Event of a read."""
        return self._submit("read", offset, bytes, **options)

    def write(self, offset, data, **options):
        """Event of a write of ``data``; of so many bytes without data if it is a number."""
        if isinstance(data, int):
            return self._submit("write", offset, data, **options)
        return self._submit("write", offset, len(data), data=data, **options)

    def flush(self, **options):
        """Event of a flush."""
        return self._submit("flush", **options)

    def _now_ps(self):
        return max(self.drive.now_ps, round(self.env.now * self._ps_per_unit))

    def _submit(self, kind, *place, **options):
        event = self.env.event()
        self._events[self.drive.submit(self._now_ps(), kind, *place, **options)] = event
        self._hand_over()
        return event

    def _hand_over(self):
        """Succeed the events of completed operations, and wake up when the next may complete."""
        for done in self.drive.completions():
            event = self._events.pop(done.ticket, None)
            if event is not None:
                event.succeed(done)
        next_ps = self.drive.next_at_ps
        if next_ps is None or (self._wakes_at is not None and self._wakes_at <= next_ps):
            return
        self._wakes_at = next_ps
        delay = max(0.0, next_ps / self._ps_per_unit - self.env.now)
        self.env.timeout(delay, value=next_ps).callbacks.append(self._wake)

    def _wake(self, timeout):
        if timeout.value != self._wakes_at:
            return
        self._wakes_at = None
        self.drive.advance(max(timeout.value, self.drive.now_ps))
        self._hand_over()


def _column(numbers):
    """64-bit numbers as bytes."""
    if hasattr(numbers, "astype"):
        return numbers.astype("u8").tobytes()
    return array.array("Q", numbers).tobytes()


def _numbers(column, code="Q"):
    """An array of numbers: of 64 bits, or bytes with the code ``B``."""
    try:
        import numpy
    except ImportError:
        return array.array(code, column)
    return numpy.frombuffer(column, code)
