"""Types of the package; the sources say what everything means."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import matplotlib.axes
import numpy
import pandas
import polars
from numpy.typing import NDArray
from typing_extensions import Unpack

from ._documents import (
    BreakevenDocument,
    CompareDocument,
    DmaDocument,
    EccDocument,
    EnduranceDocument,
    FigureInterval,
    Figures,
    Finding,
    ExportDocument,
    KneeDocument,
    KvcacheDocument,
    PredictDocument,
    PredictedJob,
    ReproduceDocument,
    ReproducedRow,
    RunDocument,
    SweepDocument,
    ValidateDocument,
    WhatifDocument,
)
from ._options import CompareOptions, RunOptions, Sections

__version__: str

DriveLike = str | os.PathLike[str] | Mapping[str, Any] | Drive
JobLike = str | os.PathLike[str]
Axes = Mapping[str, Any] | Mapping[tuple[str, ...], Any] | Mapping[str | tuple[str, ...], Any]
Progress = bool | Callable[[float], object] | None
Overrides = str | Mapping[str, Any] | Sequence[str]

class InputError(ValueError):
    problems: list[tuple[str, int | None, str, str]]

class Preset(NamedTuple):
    section: str
    name: str
    summary: str

class Section(Mapping[str, Any]):
    def __getattr__(self, name: str) -> Any: ...
    def __getitem__(self, name: str) -> Any: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...

class Drive:
    name: str
    summary: str
    interface: str
    @property
    def fitted(self) -> list[str]: ...
    @property
    def assumed(self) -> list[str]: ...
    def set(self, set: Overrides | None = None, **overrides: Any) -> Drive: ...
    def to_dict(self) -> dict[str, Any]: ...
    def to_toml(self) -> str: ...
    def explain(self) -> str: ...
    def __getattr__(self, name: str) -> Section: ...
    def __getitem__(self, name: str) -> Any: ...

class _Table:
    def rows(self) -> list[dict[str, Any]]: ...
    def columns(self) -> list[str]: ...
    def to_pandas(self) -> pandas.DataFrame: ...
    def to_polars(self) -> polars.DataFrame: ...
    def to_arrow(self) -> Any: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[dict[str, Any]]: ...
    def __getitem__(self, place: int) -> dict[str, Any]: ...

class Requests:
    @property
    def left_out(self) -> int: ...
    def columns(self) -> list[str]: ...
    def to_arrow(self) -> Any: ...
    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

class Result(Figures, _Table):
    def requests(self) -> Requests: ...
    drive: Drive
    @property
    def seed(self) -> int: ...
    @property
    def finished(self) -> bool: ...
    @property
    def elapsed_ns(self) -> float: ...
    @property
    def events(self) -> int: ...
    @property
    def stages(self) -> list[dict[str, Any]]: ...
    @property
    def findings(self) -> list[str]: ...
    def plot(self, kind: str = "stages", ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes: ...
    @property
    def intervals(self) -> dict[str, FigureInterval]: ...
    @property
    def tails(self) -> dict[str, TailResult]: ...
    def percentile(self, percent: float, kind: str = "total", direction: str | None = None) -> float | None: ...
    def histogram(
        self, kind: str = "total", direction: str | None = None
    ) -> tuple[NDArray[numpy.float64], NDArray[numpy.uint64]]: ...
    def to_dict(self) -> RunDocument: ...
    def to_json(self) -> str: ...
    def to_html(self) -> str: ...
    def rows(self) -> list[dict[str, Any]]: ...

class Comparison(_Table):
    @property
    def findings(self) -> list[Finding]: ...
    def plot(self, figure: str = "mean_ns", ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes: ...
    def to_dict(self) -> CompareDocument: ...
    def columns(self) -> list[str]: ...
    def rows(self) -> list[dict[str, Any]]: ...

class Prediction:
    @property
    def alone_ns(self) -> float | None: ...
    @property
    def iops_max(self) -> float: ...
    @property
    def bytes_per_s_max(self) -> float: ...
    @property
    def bottleneck(self) -> str: ...
    @property
    def saturation_depth(self) -> float | None: ...
    @property
    def jobs(self) -> list[PredictedJob]: ...
    @property
    def intervals(self) -> dict[str, FigureInterval]: ...
    def to_dict(self) -> PredictDocument: ...

class Steps(_Table):
    @property
    def ladder(self) -> str: ...
    def to_perfetto(self) -> str: ...
    def columns(self) -> list[str]: ...
    def rows(self) -> list[dict[str, Any]]: ...

class Transfers(_Table):
    def to_dict(self) -> DmaDocument: ...
    def rows(self) -> list[dict[str, Any]]: ...

class _Answer(_Table):
    def rows(self) -> list[dict[str, Any]]: ...

class _PagedAnswer(_Answer):
    def to_html(self) -> str: ...

class BreakEven(_PagedAnswer):
    def to_dict(self) -> BreakevenDocument: ...

class ErrorCorrection(_Answer):
    def to_dict(self) -> EccDocument: ...

class Endurance(_Answer):
    def to_dict(self) -> EnduranceDocument: ...

class Export(_Answer):
    files: dict[str, str]
    def write(self, folder: str | os.PathLike[str]) -> list[Path]: ...
    def to_dict(self) -> ExportDocument: ...

class Knee(_PagedAnswer):
    @property
    def knee_iops(self) -> float | None: ...
    def to_dict(self) -> KneeDocument: ...

class KvCache(_PagedAnswer):
    def to_dict(self) -> KvcacheDocument: ...

class Validation(_PagedAnswer):
    def to_dict(self) -> ValidateDocument: ...

class WhatIf(_PagedAnswer):
    def to_dict(self) -> WhatifDocument: ...

class Served:
    drive: Drive
    addresses: list[str]
    @property
    def path(self) -> str | None: ...
    @property
    def running(self) -> bool: ...
    def connect(self, *, queues: int = 1, depth: int = 63, writes: bool = True) -> Client: ...
    def stop(self) -> None: ...
    def to_dict(self) -> dict[str, Any]: ...
    def __enter__(self) -> Served: ...
    def __exit__(self, *_: object) -> None: ...

class Sweep(_Table):
    skipped: list[str]
    def column(self, name: str) -> NDArray[numpy.float64]: ...
    def plot(self, y: str | None = None, x: str | None = None, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes: ...
    def to_dict(self) -> SweepDocument: ...
    def to_json(self) -> str: ...
    def to_csv(self) -> str: ...
    def columns(self) -> list[str]: ...
    def rows(self) -> list[dict[str, Any]]: ...

class Optimum(_Table):
    points: int
    ruled_out: int
    drive: Drive | None
    @property
    def best(self) -> dict[str, Any] | None: ...
    @property
    def cost(self) -> float | None: ...
    @property
    def runs(self) -> int: ...
    def rows(self) -> list[dict[str, Any]]: ...

class Reproduction(_Table):
    def to_dict(self) -> ReproduceDocument: ...
    def to_list(self) -> list[ReproducedRow]: ...
    def rows(self) -> list[dict[str, Any]]: ...

class Executor(Protocol):
    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Future[Any]: ...

class RayExecutor:
    def __init__(self, **options: Any) -> None: ...
    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]: ...

class Queue:
    def read(self, offset: int, length: int) -> bytes: ...
    def write(self, offset: int, data: bytes) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...

class Client:
    @property
    def capacity_bytes(self) -> int: ...
    @property
    def block_bytes(self) -> int: ...
    def queue(self) -> Queue: ...
    def close(self) -> None: ...

def load(drive: DriveLike = "nvme", /, *, set: Overrides | None = None, **overrides: Any) -> Drive: ...
def drives(set: str | None = None) -> list[str]: ...
def presets(section: str | None = None) -> list[Preset]: ...
def run(
    drive: DriveLike = "nvme",
    *,
    jobs: JobLike | Sequence[JobLike] | None = None,
    seed: int = 1,
    verify: bool = False,
    precision: float | str | None = None,
    intervals: bool | int | None = None,
    requests: bool | int | None = None,
    progress: Progress = None,
    set: Overrides | None = None,
    **options: Unpack[RunOptions],
) -> Result: ...
def compare(
    drives: DriveLike | Iterable[DriveLike] | None = None,
    *,
    bs: Any = None,
    iodepth: Any = None,
    numjobs: Any = None,
    ios: int | None = None,
    jobs: JobLike | Sequence[JobLike] | None = None,
    seed: int = 1,
    at: str | float | None = None,
    precision: float | str | None = None,
    intervals: bool | int | None = None,
    progress: Progress = None,
    set: Overrides | None = None,
    **options: Unpack[CompareOptions],
) -> Comparison: ...
def predict(
    drive: DriveLike = "nvme",
    *,
    jobs: JobLike | Sequence[JobLike] | None = None,
    intervals: bool | int | None = None,
    set: Overrides | None = None,
    **options: Unpack[RunOptions],
) -> Prediction: ...
def trace(
    drive: DriveLike = "nvme",
    *,
    rw: str = "randread",
    bs: int | str = "4k",
    iodepth: int = 1,
    skip: int = 64,
    requests: int = 1,
    seed: int = 1,
    set: Overrides | None = None,
    **sections: Unpack[Sections],
) -> Steps: ...
def breakeven(
    description: str | os.PathLike[str] = "slc-cpu",
    *,
    bs: int | str | Sequence[int | str] | None = None,
    utilisation: float | None = None,
    host_iops: float | None = None,
    drives: int | None = None,
    sensitivity: bool = False,
    history: bool = False,
) -> BreakEven: ...
def ecc(*, trials: int | None = None, inject: int | None = None, seed: int | None = None) -> ErrorCorrection: ...
def endurance(
    drive: DriveLike = "nvme",
    *,
    workload: str | Sequence[str] | None = None,
    bs: int | str | Sequence[int | str] | None = None,
    per_day: int | str | None = None,
    seed: int | None = None,
    set: Overrides | None = None,
    **sections: Unpack[Sections],
) -> Endurance: ...
def export(
    drive: DriveLike = "nvme",
    *,
    rw: Literal["randrw", "rw"] = "randrw",
    bs: int | str | Sequence[int | str] = (),
    iodepth: int | Sequence[int] = (),
    rwmixread: float | Sequence[float] = (),
    numjobs: int = 1,
    ios: int = 20_000,
    burst: bool = False,
    seed: int = 1,
    progress: Progress = None,
    set: Overrides | None = None,
    **sections: Unpack[Sections],
) -> Export: ...
def knee(
    drive: DriveLike = "nvme",
    *,
    rates: str | Sequence[int | float | str] | None = None,
    ios: int = 40_000,
    numjobs: int = 4,
    iodepth: int = 64,
    seed: int = 1,
    progress: Progress = None,
    set: Overrides | None = None,
    **options: Unpack[RunOptions],
) -> Knee: ...
def kvcache(
    drives: DriveLike | Iterable[DriveLike] = ("tlc-gen4", "tlc-gen5", "xl-flash"),
    *,
    trace: str | os.PathLike[str] | None = None,
    trace_format: str | None = None,
    block_tokens: int | None = None,
    mix: str | None = None,
    rate: float | None = None,
    duration: float | None = None,
    kv_model: str | os.PathLike[str] = "llama-3.1-70b",
    layout: str = "block",
    accelerator_memory: int | str = "160g",
    host_memory: int | str = "1t",
    drive_size: int | str | None = None,
    drives_per_host: int = 1,
    replacement: str = "lru",
    drive_writes: str = "evicted",
    io_size: int | str = "1m",
    accelerator: str = "h100",
    accelerators: int = 8,
    utilisation: float | None = None,
    windows: int = 20,
    seed: int = 1,
    progress: Progress = None,
    set: Overrides | None = None,
) -> KvCache: ...
def validate(
    *sources: str, data: str | os.PathLike[str] | None = None, worst: int = 5, progress: Progress = None
) -> Validation: ...
def whatif(
    trace: str | os.PathLike[str],
    drives: DriveLike | Iterable[DriveLike] = (
        "tlc-gen4",
        "tlc-gen5",
        "xl-flash",
        "optane-p5800x",
        "optane-p4800x",
        "tlc-gen3",
    ),
    *,
    stack: str | Sequence[str] = ("linux-6", "user-space"),
    now: DriveLike | None = None,
    recorded_on: DriveLike | None = None,
    trace_device: str | None = None,
    trace_format: str | None = None,
    draws: int = 20,
    requests: int = 4000,
    seed: int = 1,
    progress: Progress = None,
    set: Overrides | None = None,
) -> WhatIf: ...
def dma(
    device: str | os.PathLike[str] | Drive = "nfp6000-gen3-x8",
    *,
    op: str = "read",
    size: int | str | Sequence[int] = "8..2048",
    window: int | str = "8k",
    outstanding: int = 64,
    transfers: int = 20_000,
    cache: str | None = None,
    node: str | None = None,
    iommu: bool | None = None,
    direct: bool = False,
    seed: int = 1,
    set: Overrides | None = None,
) -> Transfers: ...
def sweep(
    plan: DriveLike | None,
    axes: Axes | None = None,
    *,
    executor: Executor | Callable[[], Executor] | Any | None = None,
    batch: int | None = None,
    retries: int = 2,
    state: str | os.PathLike[str] | None = None,
    skip_invalid: bool = False,
    columns: Sequence[str] | None = None,
    seed: int | Sequence[int] = 1,
    progress: Progress = None,
    set: Overrides | None = None,
    **job: Unpack[RunOptions],
) -> Sweep: ...
def optimize(
    drive: DriveLike | None,
    axes: Axes,
    *,
    meet: Mapping[str, tuple[float | None, float | None]],
    cost: Mapping[str, Any] | Callable[[Drive], float],
    seed: int = 1,
    set: Overrides | None = None,
    **job: Unpack[RunOptions],
) -> Optimum: ...
def figures() -> dict[str, str]: ...
def papers() -> list[str]: ...
def reproduce(*which: str) -> Reproduction: ...
def connect(path: str | os.PathLike[str], *, queues: int = 1, depth: int = 63, writes: bool = True) -> Client: ...
def serve(
    drive: DriveLike = "nvme",
    *,
    shm: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    nbd: str | Sequence[str] | None = None,
    vfio_user: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    vhost_user: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    timing: bool = True,
    wait: str = "adaptive",
    store: str | os.PathLike[str] | None = None,
    seed: int = 1,
    lag_tolerance_us: float = 10.0,
    set: Overrides | None = None,
    **overrides: Any,
) -> Served: ...

class MisuseError(ValueError):
    code: int

class Completion(NamedTuple):
    ticket: int
    submitted_ps: int
    at_ps: int
    status: str
    data: bytes
    stages: dict[str, int]
    @property
    def latency_ps(self) -> int: ...

class BatchResult(NamedTuple):
    submitted_ps: Any
    completed_ps: Any
    status: Any
    @property
    def statuses(self) -> tuple[str, ...]: ...
    @property
    def failures(self) -> dict[int, str]: ...

class OperationSummary(NamedTuple):
    kind: str
    operations: int
    bytes: int
    mean_ps: int
    p99_ps: int
    max_ps: int
    stages: dict[str, int]

class EmbeddedDrive:
    drive: Drive
    @property
    def capacity_bytes(self) -> int: ...
    @property
    def block_bytes(self) -> int: ...
    @property
    def queues(self) -> int: ...
    @property
    def is_volatile(self) -> bool: ...
    @property
    def now_ps(self) -> int: ...
    @property
    def next_at_ps(self) -> int | None: ...
    @property
    def in_flight(self) -> int: ...
    def submit(
        self,
        now_ps: int,
        kind: str,
        offset: int = 0,
        bytes: int = 0,
        *,
        data: bytes | None = None,
        durable: bool = False,
        queue: int = 0,
    ) -> int: ...
    def advance(self, to_ps: int) -> None: ...
    def advance_to_completion(self, to_ps: int) -> bool: ...
    def completions(self) -> Iterator[Completion]: ...
    def take(self, ticket: int) -> Completion: ...
    def wait(self, ticket: int) -> Completion: ...
    def batch(
        self,
        kinds: str | Sequence[str],
        offsets: Iterable[int],
        bytes: int,
        *,
        at_ps: Iterable[int] | None = None,
        depth: int = 1,
        queue: int = 0,
    ) -> BatchResult: ...
    def peek(self, offset: int, bytes: int) -> bytes: ...
    def inject_fault(self, rule: str) -> None: ...
    def cut_power(self, now_ps: int | None = None, survives: Any = "drawn", seed: int = 1) -> None: ...
    def images(self, wanted: int = 100, seed: int = 1) -> list[Any]: ...
    def image(self, name: str) -> Any: ...
    def drawn_image(self, seed: int = 1) -> Any: ...
    def load_image(self, image: Any) -> None: ...
    def snapshot(self) -> Any: ...
    def restore(self, snapshot: Any) -> None: ...
    def summary(self) -> list[OperationSummary]: ...

def recording_images(
    path: str | os.PathLike[str], wanted: int = 100, seed: int = 1, *, name: str | None = None
) -> list[Any]: ...

class SimPyDrive:
    env: Any
    drive: EmbeddedDrive
    def __init__(self, env: Any, drive: EmbeddedDrive, unit_s: float = 1.0) -> None: ...
    def read(self, offset: int, bytes: int, **options: Any) -> Any: ...
    def write(self, offset: int, data: bytes | int, **options: Any) -> Any: ...
    def flush(self, **options: Any) -> Any: ...

def embed(
    drive: DriveLike,
    /,
    *,
    set: Overrides | None = None,
    seed: int = 1,
    data: bool = True,
    stages: bool = False,
    power_cuts: bool = False,
    host_software: bool = False,
    **overrides: Any,
) -> EmbeddedDrive: ...
