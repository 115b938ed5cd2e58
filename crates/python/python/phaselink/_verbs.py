"""Runs, comparisons, predictions, traces, and the way to a served drive."""

import os

from . import _native, _progress, _text
from ._drive import Drive, load, many, read
from ._drive import drives as shipped_drives
from ._results import Comparison, Prediction, Result, Steps, Transfers

#: What is compared where no drive is named.
_COMPARED = "interfaces"
#: Requests that ``requests=True`` keeps.
_KEPT = 100_000
#: Draws that ``intervals=True`` stands for, as ``--intervals`` does.
_DRAWS = 40
#: Least number of draws.
_DRAWS_MIN = 20


def run(
    drive="nvme",
    *,
    jobs=None,
    seed=1,
    verify=False,
    precision=None,
    intervals=None,
    requests=None,
    progress=None,
    set=None,
    **options,
):
    """Simulate one drive under one workload.

    ``drive`` is whatever :func:`load` takes, and ``set`` and keywords for its sections (``link={"lanes": 8}``, ``media="dram"``)
    change it as there. The workload is either options of one fio job as keywords (``rw``, ``bs``,
    ``iodepth``, ``numjobs``, ``number_ios``, ``runtime``, ``size``, ``rate_iops``, ``read_iolog`` for a trace, and all
    others of ``docs/fio.md``), with the defaults of ``phaselink run``: random reads of 4 KiB, one at a time, 100,000 of
    them; or ``jobs``, the text or the path of a fio job file, or several.

    ``seed`` is that of everything random. With ``verify`` real bytes move, and a read that returned what it may not
    raises ``RuntimeError``. With ``precision`` (a share: 0.01 for 1 %) the run goes on until mean and p99 are known so
    well with 95 % confidence, or until the job ends; ``precision="p99.99=10%"`` is about a percentile (``docs/tails.md``). With ``intervals`` (``True`` for 40, or a number of draws) the job also
    runs with all constants that are assumed or fitted drawn from their ranges, on all processors, and
    :attr:`Result.intervals` says between which ends nine draws of ten lie. With ``requests`` (``True`` for 100,000, or a
    number) the first so many requests are kept for :meth:`Result.requests`, with 400 bytes of memory each. ``progress`` is a
    function that is told which share of the run is done, from 0.0 to 1.0, or ``True`` for a bar of tqdm, if it is installed,
    or else a line on the terminal.

    Raises :class:`InputError` with everything that is wrong, and ``KeyboardInterrupt`` soon after Ctrl-C. Other threads
    go on meanwhile.

    >>> run("dc-express", bs=512, number_ios=1000).iops > 700_000
    True
    """
    sections, options = _text.divided(options)
    drive = load(drive, set=set, **sections)
    question = {"seed": seed, "verify": verify, "precision": _goal(precision), "draws": _draws(intervals)}
    question["requests"] = _kept(requests)
    with _progress.shown(progress, drive.name) as told:
        return Result(drive, _native.run(drive._native, _jobs(jobs, options), question, told))


def compare(
    drives=None,
    *,
    bs=None,
    iodepth=None,
    numjobs=None,
    ios=None,
    jobs=None,
    seed=1,
    at=None,
    precision=None,
    intervals=None,
    progress=None,
    set=None,
    **options,
):
    """Run the same requests on several drives, on all processors.

    ``drives`` are whatever :func:`load` takes; without them, one for each interface. ``bs``, ``iodepth`` and ``numjobs``
    are one value or several: there is a line for each combination (512 and 4k by 1 and 8 threads if none is given).
    ``ios`` is the number of requests of each line over all its threads (20,000 if nothing else ends the job). ``at`` is a load
    at which drives are compared in place of a depth: requests a second, reads and writes together (``"iops=100k"``). Other
    keywords are options of fio, as in :func:`run`; ``set`` and sections change all drives, as in :func:`load`. ``precision``,
    ``intervals`` and ``progress`` are those of :func:`run`; the first two stand in each cell of :meth:`Comparison.to_dict`.

    Raises what :func:`run` raises.

    >>> compare(["nvme", "dc-express"], bs="4k", numjobs=1, ios=500).rows()[0]["drive"]
    'nvme'
    """
    sections, options = _text.divided(options)
    texts = _text.overrides(set, sections)
    chosen = [load(drive, set=texts) for drive in many(shipped_drives(_COMPARED) if drives is None else drives)]
    question = {name: _text.listed(sizes) for name, sizes in (("bs", bs), ("iodepth", iodepth), ("numjobs", numjobs))}
    question |= {"ios": ios, "seed": seed, "precision": _goal(precision), "set": texts, "draws": _draws(intervals)}
    question["at"] = None if at is None else str(at)
    natives = [drive._native for drive in chosen]
    with _progress.shown(progress, "compare") as told:
        return Comparison(_native.compare(natives, _jobs(jobs, options), question, told))


def predict(drive="nvme", *, jobs=None, intervals=None, set=None, **options):
    """Compute the closed forms of a drive under a workload, both given as in :func:`run`; nothing is simulated.

    ``intervals`` are those of :func:`run`, in :attr:`Prediction.intervals`.

    >>> predict("nvme", bs="4k", iodepth=32).bottleneck
    'cores'
    """
    sections, options = _text.divided(options)
    drive = load(drive, set=set, **sections)
    return Prediction(*_native.predict(drive._native, _jobs(jobs, options), _draws(intervals)))


def trace(drive="nvme", *, rw="randread", bs="4k", iodepth=1, skip=64, requests=1, seed=1, set=None, **sections):
    """Record every packet and activity of one request of a stream, after ``skip`` others.

    ``requests`` more of them are in :meth:`Steps.to_perfetto`. ``set`` and sections change the drive, as in :func:`load`.

    >>> "doorbell" in trace("nvme").ladder
    True
    """
    question = {"rw": _text.option(rw), "bs": _text.option(bs), "iodepth": _text.option(iodepth)}
    question |= {"skip": skip, "requests": requests, "seed": seed}
    return Steps(_native.trace(load(drive, set=set, **sections)._native, question))


def dma(
    device="nfp6000-gen3-x8",
    *,
    op="read",
    size="8..2048",
    window="8k",
    outstanding=64,
    transfers=20_000,
    cache=None,
    node=None,
    iommu=None,
    direct=False,
    seed=1,
    set=None,
):
    """Let a device read and write host memory and do nothing else (``docs/dma.md``): a :class:`Transfers`.

    ``device`` is one that comes with the package, the path of a file, or a :class:`Drive`. ``op`` is ``"read"``, ``"write"``,
    ``"both"`` in turns, or ``"write-read"``. ``size`` is one or several sizes in bytes, or a range that doubles
    (``"8..2048"``); transfers begin at random lines in ``window`` bytes. Latency is measured one transfer at a time, bandwidth
    with ``outstanding`` of them, over ``transfers`` each. ``cache`` (``"warm"``, ``"cold"``, ``"device-written"``), ``node``
    (``"local"``, ``"remote"``) and ``iommu`` are as the device says if they are not given. ``direct`` leaves its engine out.
    ``set`` changes keys of its sections ``link``, ``dma``, ``host`` and ``root_complex``.

    Raises :class:`InputError` with everything that makes no sense.

    >>> round(dma(size=64, transfers=1000).rows()[0]["mean_ns"])
    593
    """
    name, text = _device(device)
    options = {"op": op, "window": window, "outstanding": outstanding, "transfers": transfers, "cache": cache, "node": node}
    options |= {"iommu": iommu, "direct": direct}
    given = [(option, _text.option(value)) for option, value in options.items() if value is not None]
    question = {"device": name, "text": text, "overrides": _text.overrides(set, {}), "sizes": _text.listed(size)}
    return Transfers(_native.transfers(question | {"options": given, "seed": seed}))


def connect(path, *, queues=1, depth=63, writes=True):
    """Connect to a drive that ``phaselink serve DRIVE --shm PATH`` serves; on Linux.

    The connection has ``capacity_bytes``, ``block_bytes`` and ``queue()``, which gives one of ``queues`` queues; each has
    ``read(offset, length)``, ``write(offset, data)`` and ``flush()``, in bytes and multiples of a block. A queue belongs
    to one thread at a time; others go on while it waits. Raises ``OSError`` for what the device says.
    """
    if not hasattr(_native, "Client"):
        raise NotImplementedError("devices in shared memory need Linux")
    return _native.Client(os.fspath(path), queues, depth, writes)


def _device(device):
    """The name or the file of a device, and its text if it is no shipped one."""
    if isinstance(device, Drive):
        return device.name, device.to_toml()
    word = os.fspath(device)
    return (word, read(word)) if word.endswith(".toml") or os.sep in word else (word, None)


def _draws(intervals):
    """Return the number of draws, if intervals are requested."""
    if intervals is None or intervals is False:
        return None
    if intervals is True:
        return _DRAWS
    if not isinstance(intervals, int) or intervals < _DRAWS_MIN:
        raise ValueError(f"intervals is True, or {_DRAWS_MIN} draws or more: fewer have no interval in which nine of ten lie")
    return intervals


def _kept(requests):
    """Return the number of single requests to keep, if any."""
    if requests is None or requests is False:
        return None
    if requests is True:
        return _KEPT
    if not isinstance(requests, int) or requests < 1:
        raise ValueError("requests is True, or how many are to be kept")
    return requests


def _jobs(jobs, options):
    """The jobs of a call: options, or the texts of job files with their names."""
    if jobs is None:
        return _native.Jobs(_text.options(options), [])
    if options:
        raise TypeError(f"jobs come from files or from keywords, not both: {', '.join(options)}")
    several = [jobs] if isinstance(jobs, (str, os.PathLike)) else jobs
    return _native.Jobs([], [_job_file(job) for job in several])


def _job_file(job):
    """Return name and text: a word with a line that starts a section is a text."""
    is_text = isinstance(job, str) and "[" in job and ("\n" in job or not os.path.exists(job))
    return ("jobs", job) if is_text else (os.fspath(job), read(job))


def _goal(precision):
    """The text of a goal of precision: a share becomes per cent."""
    if precision is None or isinstance(precision, str):
        return precision
    if not 0.0001 <= precision <= 1:
        raise _native.InputError(f"precision is {precision}; allowed: 0.0001 to 1, or per cent, as in '1%'")
    return f"{round(100 * precision, 9)}%"
