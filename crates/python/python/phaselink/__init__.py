"""phaselink: what a fast memory gives an application, behind an interface, in a host.

A drive is described once, and then run, compared, predicted, traced and swept. Everything is simulated packet by packet,
on a clock of its own; the same description, job and seed give the same figures everywhere, to the last bit, and those
that the command line prints. ::

    import phaselink

    drive = phaselink.load("dc-express", link={"lanes": 8})
    result = phaselink.run(drive, bs="4k", iodepth=8, number_ios=20_000)
    print(result.iops, result.mean_ns, result.p99_ns)

Units stand last in names: ``mean_ns`` is in nanoseconds, ``bytes_per_s`` in bytes a second, ``server_w`` in watts. What
is wrong with an input raises :class:`InputError`, whose text tells all of it at once.
"""

from ._answers import (
    BreakEven,
    Endurance,
    ErrorCorrection,
    Export,
    Knee,
    KvCache,
    Validation,
    WhatIf,
    breakeven,
    ecc,
    endurance,
    export,
    knee,
    kvcache,
    validate,
    whatif,
)
from ._drive import Drive, Preset, drives, load, presets
from ._embed import BatchResult, Completion, EmbeddedDrive, OperationSummary, SimPyDrive, embed, recording_images
from ._executors import RayExecutor
from ._native import VERSION as __version__
from ._native import InputError, MisuseError
from ._reproduce import Reproduction, papers, reproduce
from ._results import Comparison, Prediction, Requests, Result, Steps, Transfers
from ._search import Optimum, optimize
from ._serve import Served, serve
from ._sweep import Sweep, figures, sweep
from ._verbs import compare, connect, dma, predict, run, trace

__all__ = [
    "BatchResult",
    "BreakEven",
    "Comparison",
    "Completion",
    "Drive",
    "EmbeddedDrive",
    "Endurance",
    "ErrorCorrection",
    "Export",
    "InputError",
    "Knee",
    "KvCache",
    "MisuseError",
    "OperationSummary",
    "Optimum",
    "Prediction",
    "Preset",
    "RayExecutor",
    "Reproduction",
    "Requests",
    "Result",
    "Served",
    "SimPyDrive",
    "Steps",
    "Sweep",
    "Transfers",
    "Validation",
    "WhatIf",
    "__version__",
    "breakeven",
    "compare",
    "connect",
    "dma",
    "drives",
    "ecc",
    "embed",
    "endurance",
    "export",
    "figures",
    "knee",
    "kvcache",
    "load",
    "optimize",
    "papers",
    "predict",
    "presets",
    "recording_images",
    "reproduce",
    "run",
    "serve",
    "sweep",
    "trace",
    "validate",
    "whatif",
]
