"""Documents and figures as types. Made by a test from the schema of results and the registry of figures; `make snapshots`
renews it."""

from typing import Any, Literal, TypedDict

from typing_extensions import NotRequired

class Figures:
    @property
    def ios(self) -> float: ...
    @property
    def iops(self) -> float: ...
    @property
    def read_iops(self) -> float: ...
    @property
    def write_iops(self) -> float: ...
    @property
    def bytes_per_s(self) -> float: ...
    @property
    def min_ns(self) -> float | None: ...
    @property
    def mean_ns(self) -> float | None: ...
    @property
    def p50_ns(self) -> float | None: ...
    @property
    def p90_ns(self) -> float | None: ...
    @property
    def p95_ns(self) -> float | None: ...
    @property
    def p99_ns(self) -> float | None: ...
    @property
    def p99_9_ns(self) -> float | None: ...
    @property
    def p99_99_ns(self) -> float | None: ...
    @property
    def beyond_p99_mean_ns(self) -> float | None: ...
    @property
    def max_ns(self) -> float | None: ...
    @property
    def read_mean_ns(self) -> float | None: ...
    @property
    def read_p50_ns(self) -> float | None: ...
    @property
    def read_p99_ns(self) -> float | None: ...
    @property
    def read_p99_9_ns(self) -> float | None: ...
    @property
    def read_p99_99_ns(self) -> float | None: ...
    @property
    def write_mean_ns(self) -> float | None: ...
    @property
    def write_p50_ns(self) -> float | None: ...
    @property
    def write_p99_ns(self) -> float | None: ...
    @property
    def write_p99_9_ns(self) -> float | None: ...
    @property
    def write_p99_99_ns(self) -> float | None: ...
    @property
    def flushes(self) -> float: ...
    @property
    def flush_mean_ns(self) -> float | None: ...
    @property
    def flush_p99_ns(self) -> float | None: ...
    @property
    def commits(self) -> float: ...
    @property
    def commit_mean_ns(self) -> float | None: ...
    @property
    def commit_p50_ns(self) -> float | None: ...
    @property
    def commit_p99_ns(self) -> float | None: ...
    @property
    def queries(self) -> float: ...
    @property
    def queries_per_s(self) -> float: ...
    @property
    def query_mean_ns(self) -> float | None: ...
    @property
    def query_p50_ns(self) -> float | None: ...
    @property
    def query_p99_ns(self) -> float | None: ...
    @property
    def link_busy_share(self) -> float: ...
    @property
    def upstream_busy_share(self) -> float: ...
    @property
    def downstream_busy_share(self) -> float: ...
    @property
    def busy_cores(self) -> float: ...
    @property
    def cores_per_gb_per_s(self) -> float: ...
    @property
    def busy_target_cores(self) -> float | None: ...
    @property
    def server_w(self) -> float | None: ...
    @property
    def joules_per_io(self) -> float | None: ...
    @property
    def joules_per_io_above_idle(self) -> float | None: ...
    @property
    def memory_joules_per_io(self) -> float | None: ...
    @property
    def precision_share(self) -> float | None: ...

FioJob = dict[str, Any]
RunResult = TypedDict(
    "RunResult",
    {
        "drive": str,
        "seed": int,
        "finished": bool,
        "elapsed_ns": float,
        "measured": "MeasuredIn",
        "events": int,
        "figures": "RunFigures",
        "tails": dict[str, "TailResult"],
        "jobs": list["RunJob"],
        "link": "LinkUse",
        "cpu": "ProcessorUse",
        "energy": "EnergyUse",
        "counters": dict[str, int],
        "description": "RunSubject",
        "evidence": NotRequired[list["Evidence"] | None],
        "findings": NotRequired[list["Finding"] | None],
        "usage": NotRequired[list["ResourceUse"] | None],
        "faults": NotRequired[list["FaultResult"]],
        "precision": NotRequired["PrecisionResult | None"],
        "intervals": NotRequired[dict[str, "FigureInterval"] | None],
        "version": str,
        "verb": Literal["run"],
    },
)
MeasuredIn = TypedDict(
    "MeasuredIn",
    {
        "state": str,
        "warm_up_ios": int,
        "warm_up_ns": float,
        "reason": str | None,
    },
)
RunFigures = TypedDict(
    "RunFigures",
    {
        "ios": int,
        "iops": float,
        "read_iops": float,
        "write_iops": float,
        "bytes_per_s": float,
        "min_ns": float | None,
        "mean_ns": float | None,
        "p50_ns": float | None,
        "p90_ns": float | None,
        "p95_ns": float | None,
        "p99_ns": float | None,
        "p99_9_ns": float | None,
        "p99_99_ns": float | None,
        "beyond_p99_mean_ns": float | None,
        "max_ns": float | None,
        "read_mean_ns": float | None,
        "read_p50_ns": float | None,
        "read_p99_ns": float | None,
        "read_p99_9_ns": float | None,
        "read_p99_99_ns": float | None,
        "write_mean_ns": float | None,
        "write_p50_ns": float | None,
        "write_p99_ns": float | None,
        "write_p99_9_ns": float | None,
        "write_p99_99_ns": float | None,
        "flushes": int,
        "flush_mean_ns": float | None,
        "flush_p99_ns": float | None,
        "commits": int,
        "commit_mean_ns": float | None,
        "commit_p50_ns": float | None,
        "commit_p99_ns": float | None,
        "queries": int,
        "queries_per_s": float,
        "query_mean_ns": float | None,
        "query_p50_ns": float | None,
        "query_p99_ns": float | None,
        "link_busy_share": float,
        "upstream_busy_share": float,
        "downstream_busy_share": float,
        "busy_cores": float,
        "cores_per_gb_per_s": float,
        "busy_target_cores": float | None,
        "server_w": float | None,
        "joules_per_io": float | None,
        "joules_per_io_above_idle": float | None,
        "memory_joules_per_io": float | None,
        "precision_share": float | None,
    },
)
TailResult = TypedDict(
    "TailResult",
    {
        "value_ns": float | None,
        "low_ns": float | None,
        "high_ns": float | None,
        "effective_ios": float | None,
        "needed_ios": int | None,
        "needed_s": float | None,
        "why_unknown": str | None,
    },
)
RunJob = TypedDict(
    "RunJob",
    {
        "name": str,
        "iodepth": int,
        "threads": int,
        "read": "DirectionResult",
        "write": "DirectionResult",
        "flush": NotRequired["DirectionResult | None"],
        "discard": NotRequired["DirectionResult | None"],
        "zeroes": NotRequired["DirectionResult | None"],
    },
)
DirectionResult = TypedDict(
    "DirectionResult",
    {
        "ios": int,
        "runtime_ns": float,
        "latency_ns": "LatencySummary",
        "stages": list["StageMean"],
        "total_ns": float,
    },
)
LatencySummary = TypedDict(
    "LatencySummary",
    {
        "min": float,
        "max": float,
        "mean": float,
        "stddev": float,
        "percentile": "AllPercentiles",
    },
)
AllPercentiles = TypedDict(
    "AllPercentiles",
    {
        "p1": float | None,
        "p50": float | None,
        "p90": float | None,
        "p95": float | None,
        "p99": float | None,
        "p99_9": float | None,
        "p99_99": float | None,
        "p99_999": float | None,
    },
)
StageMean = TypedDict(
    "StageMean",
    {
        "stage": "StageName",
        "mean_ns": float,
    },
)
StageName = Literal["queued", "batch", "driver", "fill buffers", "mark tags", "command capsule", "R2T and write data", "target wake-up", "target wait", "target", "doorbell", "line request", "poll wait", "fetch", "psl", "translation", "parse", "request queue", "firmware wait", "firmware", "host read", "media wait", "media", "device cache", "ring", "dma engine", "claim", "link wait", "transfer", "propagation", "settle", "completion entry", "response", "network wait", "interrupt", "context switch", "core wait", "poll", "check tags", "copy", "time-out"] | str
LinkUse = TypedDict(
    "LinkUse",
    {
        "upstream": "WireTraffic",
        "downstream": "WireTraffic",
    },
)
WireTraffic = TypedDict(
    "WireTraffic",
    {
        "bytes_per_ns": float,
        "data_bytes": int,
        "command_bytes": int,
        "header_bytes": int,
        "dllp_bytes": int,
        "packets": int,
        "replays": int,
        "busy_ns": float,
        "busy_share": float,
        "payload_efficiency": float,
    },
)
ProcessorUse = TypedDict(
    "ProcessorUse",
    {
        "cores": int,
        "working_ns": float,
        "spinning_ns": float,
        "switching_ns": float,
        "interrupts": int,
        "context_switches": int,
        "busy_cores": float,
        "cores_per_gb_per_s": float,
        "busy_target_cores": float | None,
    },
)
EnergyUse = TypedDict(
    "EnergyUse",
    {
        "server_w": float | None,
        "idle_w": float | None,
        "joules_per_io": float | None,
        "memory_joules_per_io": float | None,
    },
)
RunSubject = Description | dict[str, Any]
Description = dict[str, Any]
Evidence = TypedDict(
    "Evidence",
    {
        "part": str,
        "name": str,
        "sources": list[str],
        "rows": int,
        "median_error_pct": float | None,
        "papers": list[str],
    },
)
Finding = TypedDict(
    "Finding",
    {
        "kind": "FindingKind",
        "at": "FindingPlace | None",
        "parts": list["FindingPart"],
        "sentence": str,
    },
)
FindingKind = Literal["short_queues"] | Literal["volatile"] | Literal["result"] | Literal["fastest"] | Literal["latency"] | Literal["steps"] | Literal["throughput"] | Literal["equal_load"] | Literal["limit"] | Literal["network"]
FindingPlace = TypedDict(
    "FindingPlace",
    {
        "bs": int | None,
        "numjobs": int,
        "iodepth": int | None,
    },
)
FindingPart = TypedDict(
    "FindingPart",
    {
        "drives": list[str],
        "cause": str | None,
        "awaited": NotRequired[str | None],
        "amount": float | None,
        "unit": "FindingUnit | None",
    },
)
FindingUnit = Literal["ns"] | Literal["1/s"] | Literal["requests"] | Literal["cores"]
ResourceUse = TypedDict(
    "ResourceUse",
    {
        "resource": str,
        "share": float,
    },
)
FaultResult = TypedDict(
    "FaultResult",
    {
        "line": str,
        "touched": int,
        "first_ns": float | None,
        "last_ns": float | None,
    },
)
PrecisionResult = TypedDict(
    "PrecisionResult",
    {
        "figure": str | None,
        "wanted_share": float,
        "reached": bool,
        "confidence": float,
        "mean": "KnownFigure | None",
        "p99": "KnownFigure | None",
        "warm_up_ios": int | None,
        "batch_ios": int | None,
        "why_unknown": str | None,
    },
)
KnownFigure = TypedDict(
    "KnownFigure",
    {
        "value_ns": float,
        "half_width_ns": float,
    },
)
FigureInterval = TypedDict(
    "FigureInterval",
    {
        "value": float | None,
        "low": float,
        "high": float,
        "draws": int,
        "contributions": list["Contribution"],
        "model_error": list[float] | None,
    },
)
Contribution = TypedDict(
    "Contribution",
    {
        "key": str,
        "correlation": float,
    },
)
ComparedCell = RanCell | ShortCell
RanCell = TypedDict(
    "RanCell",
    {
        "drive": str,
        "bs": int | None,
        "numjobs": int,
        "iodepth": int | None,
        "offered_iops": float | None,
        "rw": str | None,
        "acknowledged_write": str,
        "ios": int,
        "iops": float,
        "read_iops": float,
        "write_iops": float,
        "bytes_per_s": float,
        "min_ns": float | None,
        "mean_ns": float | None,
        "p50_ns": float | None,
        "p90_ns": float | None,
        "p99_ns": float | None,
        "p99_9_ns": float | None,
        "p99_99_ns": float | None,
        "beyond_p99_mean_ns": float | None,
        "max_ns": float | None,
        "read_mean_ns": float | None,
        "read_p50_ns": float | None,
        "read_p99_ns": float | None,
        "read_p99_9_ns": float | None,
        "read_p99_99_ns": float | None,
        "write_mean_ns": float | None,
        "write_p50_ns": float | None,
        "write_p99_ns": float | None,
        "write_p99_9_ns": float | None,
        "write_p99_99_ns": float | None,
        "flushes": int,
        "flush_mean_ns": float | None,
        "flush_p99_ns": float | None,
        "commits": int,
        "commit_mean_ns": float | None,
        "commit_p50_ns": float | None,
        "commit_p99_ns": float | None,
        "queries": int,
        "queries_per_s": float,
        "query_mean_ns": float | None,
        "query_p50_ns": float | None,
        "query_p99_ns": float | None,
        "link_busy_share": float,
        "busy_cores": float,
        "joules_per_io": float | None,
        "joules_per_io_above_idle": float | None,
        "memory_joules_per_io": float | None,
        "keeps_up": bool | None,
        "tails": dict[str, "TailResult"],
        "measured": "MeasuredIn",
        "limit": str | None,
        "usage": list["ResourceUse"],
        "stages": list["StageMean"],
        "precision": NotRequired["PrecisionResult | None"],
        "intervals": NotRequired[dict[str, "FigureInterval"] | None],
    },
)
ShortCell = TypedDict(
    "ShortCell",
    {
        "drive": str,
        "bs": int | None,
        "numjobs": int,
        "iodepth": int | None,
        "offered_iops": float | None,
        "rw": str | None,
        "acknowledged_write": str,
        "iodepth_max": int,
    },
)
ComparedAtLoad = TypedDict(
    "ComparedAtLoad",
    {
        "offered_iops": float,
        "cells": list["ComparedCell"],
    },
)
CrashDrive = TypedDict(
    "CrashDrive",
    {
        "capacity_bytes": int,
        "block_bytes": int,
        "atomic_write_bytes": int,
        "zones": int | None,
        "kept_once": "KeptOnce",
    },
)
KeptOnce = Literal["flushed"] | Literal["answered"]
RecordedRequests = TypedDict(
    "RecordedRequests",
    {
        "writes": int,
        "written_bytes": int,
        "trims": int,
        "zeroings": int,
        "zone_resets": int,
        "zone_finishes": int,
        "flushes": int,
        "force_unit_access": int,
        "lines_printed": int,
        "epochs": int,
    },
)
CheckedImages = TypedDict(
    "CheckedImages",
    {
        "possible": int | None,
        "possible_log10": float,
        "tested": int,
        "failed": int,
        "timed_out": int,
        "elapsed_s": float,
        "failing": list[str],
    },
)
SmallestCrash = TypedDict(
    "SmallestCrash",
    {
        "image": str,
        "words": list[str],
        "rules": list[str],
        "check": str,
        "said": str,
        "command": str,
    },
)
PredictedDrive = TypedDict(
    "PredictedDrive",
    {
        "drive": str,
        "jobs": list["PredictedJob"],
        "description": "Description",
        "intervals": NotRequired[dict[str, "FigureInterval"] | None],
    },
)
PredictedJob = TypedDict(
    "PredictedJob",
    {
        "name": str,
        "iodepth": int,
        "threads": int,
        "mean_bytes": float,
        "classes": list["PredictedClass"],
        "limits": list["ResourceLimit"],
        "bottleneck": str,
        "saturation_depth": float | None,
        "alone_ns": float | None,
        "loaded": "LoadedJob",
    },
)
PredictedClass = TypedDict(
    "PredictedClass",
    {
        "op": "OpName",
        "bytes": int,
        "share": float,
        "alone": "AloneLatency | None",
    },
)
OpName = Literal["read"] | Literal["write"]
AloneLatency = TypedDict(
    "AloneLatency",
    {
        "certainty": "CertaintyName",
        "why": str | None,
        "stages": list["StageTime"],
        "total_ns": float,
        "flash_read": NotRequired["PredictedLoneFlashRead | None"],
    },
)
CertaintyName = Literal["exact"] | Literal["mean"] | Literal["at_least"]
StageTime = TypedDict(
    "StageTime",
    {
        "stage": "StageName",
        "ns": float,
    },
)
PredictedLoneFlashRead = TypedDict(
    "PredictedLoneFlashRead",
    {
        "latency_ns": float,
        "cells_share": float,
        "page_read_ns": list[float],
        "pages_together": int,
    },
)
ResourceLimit = TypedDict(
    "ResourceLimit",
    {
        "resource": str,
        "servers": float,
        "busy_ns": float,
        "iops_max": float,
        "bytes_per_s_max": float,
    },
)
LoadedJob = TypedDict(
    "LoadedJob",
    {
        "outstanding": int,
        "iops_max": float,
        "bytes_per_s_max": float,
        "iops_balanced": float | None,
        "mean_ns_min": float | None,
    },
)
SweepRow = dict[str, Any]
Interval = TypedDict(
    "Interval",
    {
        "low": float,
        "high": float,
        "draws": int,
        "contributions": list["Contribution"],
        "model_error": list[float] | None,
    },
)
FittedKey = TypedDict(
    "FittedKey",
    {
        "key": str,
        "start": float,
        "value": float,
        "low": float | None,
        "high": float | None,
        "determined": bool,
    },
)
FittedFigure = TypedDict(
    "FittedFigure",
    {
        "job": str,
        "figure": str,
        "unit": "FigureUnit",
        "measured": float,
        "fitted": float,
    },
)
FigureUnit = Literal["1/s"] | Literal["ns"]
AlikeKeys = TypedDict(
    "AlikeKeys",
    {
        "keys": list[str],
        "ratio": float | None,
        "known": bool,
    },
)
DmaQuestion = TypedDict(
    "DmaQuestion",
    {
        "op": str,
        "window_bytes": int,
        "outstanding": int,
        "transfers": int,
        "direct": bool,
        "cache": str | None,
        "node": str | None,
        "iommu": bool | None,
    },
)
DmaRow = TypedDict(
    "DmaRow",
    {
        "bytes": int,
        "direction": "OpName",
        "mean_ns": float,
        "p50_ns": float | None,
        "p99_ns": float | None,
        "p99_9_ns": float | None,
        "tails": dict[str, "TailResult"],
        "max_ns": float,
        "bytes_per_s": float,
        "transfers_per_s": float,
    },
)
ReproducedRow = TypedDict(
    "ReproducedRow",
    {
        "paper": str,
        "id": str,
        "quantity": str,
        "unit": str,
        "published": float,
        "simulated": float | None,
        "error_pct": float | None,
        "tolerance_pct": float,
        "accepted": list[float],
        "kind": "ClaimKind",
        "verdict": "RowVerdict",
        "provenance": "Provenance",
        "fitted": int,
        "fitted_keys": list[str],
        "depends_on": list[str],
        "interval": "Interval | None",
        "published_inside": bool | None,
        "reason": str,
        "source": str,
    },
)
ClaimKind = Literal["input"] | Literal["number"] | Literal["shape"]
RowVerdict = Literal["given"] | Literal["reproduced"] | Literal["off"] | Literal["unexplained"]
Provenance = Literal["given"] | Literal["returned"] | Literal["solved"] | Literal["fitted"] | Literal["predicted"]
ValidatedSource = TypedDict(
    "ValidatedSource",
    {
        "source": str,
        "title": str,
        "rows": int,
        "answered": int,
        "unanswerable": int,
        "left_out": dict[str, int],
        "provenance": dict[str, int],
        "all": "Agreement",
        "predicted": "Agreement",
    },
)
Agreement = TypedDict(
    "Agreement",
    {
        "rows": int,
        "median_error_pct": float | None,
        "wmape_rates_pct": float | None,
        "wmape_latencies_pct": float | None,
        "median_latency_error_pct": float | None,
        "bias_pct": float | None,
        "coverage_pct": float | None,
    },
)
ValidatedRow = TypedDict(
    "ValidatedRow",
    {
        "id": str,
        "source": str,
        "quantity": str,
        "unit": str,
        "figure": "MeasuredKind",
        "measured": float,
        "predicted": float | None,
        "error_pct": float | None,
        "low": float | None,
        "high": float | None,
        "provenance": "Provenance | None",
        "left_out": str | None,
        "because": str,
    },
)
MeasuredKind = Literal["latency"] | Literal["rate"] | Literal["bandwidth"] | Literal["other"]
FoldResult = TypedDict(
    "FoldResult",
    {
        "name": str,
        "order_only": bool,
        "train_rows": int,
        "agreement": "Agreement",
    },
)
SourceResult = TypedDict(
    "SourceResult",
    {
        "source": str,
        "agreement": "Agreement",
    },
)
CurvePoint = TypedDict(
    "CurvePoint",
    {
        "name": str,
        "train_rows": int,
        "agreement": "Agreement",
    },
)
ParameterResult = TypedDict(
    "ParameterResult",
    {
        "name": str,
        "key": str,
        "only": str,
        "range": list[float],
        "rows": int,
        "sources": list[str],
        "value": float,
        "folds": list[float | None],
        "spread_pct": float,
    },
)
SingleConstant = TypedDict(
    "SingleConstant",
    {
        "of": str,
        "key": str,
        "value": float,
        "from": str,
    },
)
ConfoundedPair = TypedDict(
    "ConfoundedPair",
    {
        "parameters": list[float],
        "correlation": float,
    },
)
BreakEven = TypedDict(
    "BreakEven",
    {
        "block_bytes": int,
        "break_even_s": float,
        "parts_s": dict[str, float],
        "drive_iops": float,
        "limit": "RateLimit",
        "used_iops": float,
        "tail_ns": float | None,
    },
)
RateLimit = Literal["dies"] | Literal["channels"] | Literal["mapping table"] | Literal["link"] | Literal["given"]
BreakEvenInputs = TypedDict(
    "BreakEvenInputs",
    {
        "summary": str,
        "utilisation": float,
        "percentile": float,
        "unit": str,
        "drive_cost": float,
        "core": float,
        "core_iops": float,
        "memory_die": float,
        "memory_die_bytes": float,
        "memory_bytes_per_ns": float,
        "drives": int,
        "host_iops": float | None,
    },
)
LifetimeRows = list["FlashLifetimeRow"] | list["LineLifetimeRow"]
FlashLifetimeRow = TypedDict(
    "FlashLifetimeRow",
    {
        "workload": "WrittenPattern",
        "block_bytes": int,
        "write_amplification": float,
        "written_bytes": float,
        "drive_writes_per_day": float,
        "bytes_per_s": float,
        "years": float,
        "bytes_per_day": int | None,
        "years_at_bytes_per_day": float | None,
    },
)
WrittenPattern = Literal["sequential"] | Literal["random"]
LineLifetimeRow = TypedDict(
    "LineLifetimeRow",
    {
        "workload": str,
        "wear_levelling": str,
        "line_writes": float,
        "ideal_share": float,
        "line_writes_per_s": float,
        "years": float,
    },
)
ErrorRates = TypedDict(
    "ErrorRates",
    {
        "raw_bit_error_rate": float,
        "uncorrectable_sector_rate": float,
        "uncorrectable_bit_error_rate": float,
        "uncorrectable_sector_rate_sampled": "SampledProbability",
        "miscorrected_sector_rate": float,
        "miscorrected_sector_rate_sampled": "SampledProbability",
        "decode_ns_mean": float,
    },
)
SampledProbability = TypedDict(
    "SampledProbability",
    {
        "mean": float,
        "low": float,
        "high": float,
    },
)
InjectedDamage = TypedDict(
    "InjectedDamage",
    {
        "fault": str,
        "within_power": bool,
        "corrected": int,
        "reported": int,
        "miscorrected": int,
    },
)
CellSpread = TypedDict(
    "CellSpread",
    {
        "claim": str,
        "first_error_cycles": float,
        "corrected_until_cycles": float,
        "first_error_of": str,
        "cells": float,
        "lognormal_sigma_needed": float | None,
        "weibull_shape_needed": float | None,
    },
)
ExportCondition = TypedDict(
    "ExportCondition",
    {
        "read_percent": float,
        "bytes": int,
        "in_flight": int,
        "iops": float,
        "reads": "LatencyQuantiles | None",
        "writes": "LatencyQuantiles | None",
        "measured": "MeasuredIn",
    },
)
LatencyQuantiles = TypedDict(
    "LatencyQuantiles",
    {
        "requests": int,
        "mean_latency_ns": float,
        "known_to_percent": float,
        "ns": list[float],
    },
)
ExportLoad = TypedDict(
    "ExportLoad",
    {
        "read_percent": float,
        "bytes": int,
        "load_percent": float,
        "offered_iops": float,
        "reads": "LatencyQuantiles | None",
        "writes": "LatencyQuantiles | None",
    },
)
LeftOutCheck = TypedDict(
    "LeftOutCheck",
    {
        "axis": str,
        "percent": float,
        "conditions": int,
        "median_error_percent": float,
        "max_error_percent": float,
    },
)
LoadCheck = TypedDict(
    "LoadCheck",
    {
        "read_percent": float,
        "bytes": int,
        "load_percent": float,
        "offered_iops": float,
        "direction": str,
        "simulated": "CheckedLatency",
        "by_load": "CheckedLatency",
        "by_in_flight": "CheckedLatency",
    },
)
CheckedLatency = TypedDict(
    "CheckedLatency",
    {
        "median_ns": float,
        "tail_ns": float,
    },
)
LoadPoint = TypedDict(
    "LoadPoint",
    {
        "offered_iops": float,
        "iops": float,
        "keeps_up": bool,
        "read_p50_ns": float | None,
        "write_p50_ns": float | None,
        "tails": dict[str, "TailResult"],
        "measured": "MeasuredIn",
    },
)
KvLayout = Literal["block"] | Literal["layer"] | Literal["token"]
TierReplacement = Literal["lru"] | Literal["fifo"] | Literal["clock"]
DriveWrites = Literal["evicted"] | Literal["reused"] | Literal["all"]
KvCacheDrive = TypedDict(
    "KvCacheDrive",
    {
        "drive": str,
        "tier_bytes": list[int],
        "accelerator_hits": "BlockCount",
        "host_hits": "BlockCount",
        "drive_hits": "BlockCount",
        "computed": "BlockCount",
        "used": "BlockCount",
        "distinct": "BlockCount",
        "ideal": "BlockCount",
        "written": "BlockCount",
        "evicted_blocks": list[int],
        "unnamed_tokens": int,
        "output_tokens": int,
        "read_bytes_per_s": float,
        "written_bytes_per_s": float,
        "most_bytes_per_s": float | None,
        "load": float | None,
        "load_low": float | None,
        "load_high": float | None,
        "drives_needed": float | None,
        "read_wait": "SampledTime | None",
        "first_token": "SampledTime | None",
        "first_token_without_drive": "SampledTime",
        "first_token_without_cache": "SampledTime",
        "prefill_shares": list[float],
        "sampled_requests": int,
        "drive_writes_per_day": float,
        "lifetime": "CacheLifetime",
    },
)
BlockCount = TypedDict(
    "BlockCount",
    {
        "blocks": int,
        "tokens": int,
        "bytes": int,
    },
)
SampledTime = TypedDict(
    "SampledTime",
    {
        "mean_s": float,
        "low_s": float,
        "high_s": float,
        "p50_s": float,
        "p99_s": float,
    },
)
CacheLifetime = CellLifetime | dict[str, Any] | None
CellLifetime = TypedDict(
    "CellLifetime",
    {
        "years": float,
        "write_amplification": float,
        "placed_years": float | None,
        "rated_writes_per_day": float,
    },
)
SheetKey = TypedDict(
    "SheetKey",
    {
        "key": str,
        "value": str,
        "from": str,
        "low": float | None,
        "high": float | None,
    },
)
SheetFigure = TypedDict(
    "SheetFigure",
    {
        "direction": str,
        "percentile": float,
        "measured_us": float,
        "simulated_us": float,
    },
)
SheetLoad = TypedDict(
    "SheetLoad",
    {
        "writes_per_s": float,
        "read_us": list[float],
        "write_us": list[float],
    },
)
TailFigure = TypedDict(
    "TailFigure",
    {
        "drive": str,
        "writes_per_s": float,
        "direction": str,
        "percentile": float,
        "measured_us": float,
        "predicted_us": float,
        "low_us": float,
        "high_us": float,
        "in_interval": bool,
    },
)
TailError = TypedDict(
    "TailError",
    {
        "drive": str,
        "direction": str,
        "percentile": float,
        "loads": int,
        "median_error": float,
        "in_interval": float,
    },
)
KneeFigure = TypedDict(
    "KneeFigure",
    {
        "drive": str,
        "measured_per_s": float,
        "predicted_per_s": float,
    },
)
RankedDrive = TypedDict(
    "RankedDrive",
    {
        "drive": str,
        "stack": str,
        "gain": float,
        "gain_low": float,
        "gain_high": float,
        "most_of_it_from": list[str],
        "pays": "DrivePays",
        "elapsed_s": float,
        "waited_s": float,
        "read_mean_s": float | None,
        "write_mean_s": float | None,
        "flush_mean_s": float | None,
    },
)
DrivePays = Literal["now"] | Literal["yes"] | Literal["unsure"] | Literal["no"]
TraceDevice = TypedDict(
    "TraceDevice",
    {
        "name": str,
        "requests": int,
    },
)
SizedRequests = TypedDict(
    "SizedRequests",
    {
        "op": "OpName",
        "bytes": int,
        "requests": int,
    },
)
SizePercentile = TypedDict(
    "SizePercentile",
    {
        "percent": int,
        "bytes": int,
    },
)
TraceFootprint = TypedDict(
    "TraceFootprint",
    {
        "is_exact": bool,
        "bytes": int,
        "read_bytes": int,
        "written_bytes": int,
        "accesses_per_block": float,
        "once_share": float,
        "busiest_tenth_share": float,
    },
)
TraceQueueDepth = TypedDict(
    "TraceQueueDepth",
    {
        "mean": float,
        "most": int | None,
        "response_ns": float,
    },
)
LeftOutRecords = TypedDict(
    "LeftOutRecords",
    {
        "kind": str,
        "records": int,
    },
)
RunDocument = TypedDict(
    "RunDocument",
    {
        "fio version": str,
        "jobs": list["FioJob"],
        "phaselink": "RunResult",
    },
)
CompareDocument = TypedDict(
    "CompareDocument",
    {
        "seed": int,
        "rw": str | None,
        "options": list[str],
        "set": list[str],
        "findings": list["Finding"],
        "evidence": list["Evidence"],
        "cells": list["ComparedCell"],
        "equal_load": NotRequired[list["ComparedAtLoad"]],
        "descriptions": list["Description"],
        "version": str,
        "verb": Literal["compare"],
    },
)
CrashDocument = TypedDict(
    "CrashDocument",
    {
        "seed": int,
        "finished": bool,
        "drive": "CrashDrive",
        "recording": "RecordedRequests",
        "images": "CheckedImages",
        "smallest_failure": "SmallestCrash | None",
        "version": str,
        "verb": Literal["crash"],
    },
)
PredictDocument = TypedDict(
    "PredictDocument",
    {
        "drives": list["PredictedDrive"],
        "version": str,
        "verb": Literal["predict"],
    },
)
SweepDocument = TypedDict(
    "SweepDocument",
    {
        "plan": str,
        "axes": list[str],
        "columns": list[str],
        "points": int,
        "rows": list["SweepRow"],
        "version": str,
        "verb": Literal["sweep"],
    },
)
SearchDocument = TypedDict(
    "SearchDocument",
    {
        "target": list[str],
        "unit": str,
        "points": int,
        "ruled_out": int,
        "slower": int,
        "dearer": int,
        "best": "SweepRow | None",
        "rows": list["SweepRow"],
        "version": str,
        "verb": Literal["sweep"],
    },
)
FitDocument = TypedDict(
    "FitDocument",
    {
        "drive": str,
        "model_error_share": float,
        "seed": int,
        "keys": list["FittedKey"],
        "figures": list["FittedFigure"],
        "unseen": list[str],
        "not_told_apart": list["AlikeKeys"],
        "misfit_share": float | None,
        "findings": list[str],
        "simulations": int,
        "version": str,
        "verb": Literal["fit"],
    },
)
DmaDocument = TypedDict(
    "DmaDocument",
    {
        "seed": int,
        "device": str,
        "question": "DmaQuestion | None",
        "rows": list["DmaRow"],
        "description": "Description",
        "version": str,
        "verb": Literal["dma"],
    },
)
ReproduceDocument = TypedDict(
    "ReproduceDocument",
    {
        "rows": list["ReproducedRow"],
        "version": str,
        "verb": Literal["reproduce"],
    },
)
ValidateDocument = TypedDict(
    "ValidateDocument",
    {
        "sources": list["ValidatedSource"],
        "total": "ValidatedSource",
        "rows": list["ValidatedRow"],
        "version": str,
        "verb": Literal["validate"],
    },
)
FoldsDocument = TypedDict(
    "FoldsDocument",
    {
        "folds": list["FoldResult"],
        "sources": list["SourceResult"],
        "curve": list["CurvePoint"],
        "parameters": list["ParameterResult"],
        "singles": list["SingleConstant"],
        "confounded": list["ConfoundedPair"],
        "interval": list[float] | None,
        "fitted": "Agreement",
        "version": str,
        "verb": Literal["validate"],
    },
)
BreakevenDocument = TypedDict(
    "BreakevenDocument",
    {
        "times": list["BreakEven"],
        "change_by_tenth_more": dict[str, float],
        "description": "BreakEvenInputs",
        "version": str,
        "verb": Literal["breakeven"],
    },
)
EnduranceDocument = TypedDict(
    "EnduranceDocument",
    {
        "seed": NotRequired[int | None],
        "drive": str,
        "lifetimes": "LifetimeRows",
        "description": "Description",
        "version": str,
        "verb": Literal["endurance"],
    },
)
EccDocument = TypedDict(
    "EccDocument",
    {
        "corrected_bits": int,
        "trials": int,
        "seed": int,
        "rates": list["ErrorRates"],
        "injected": list["InjectedDamage"],
        "raw_bit_error_rate_tolerated": float,
        "uncorrectable_bit_error_rate_target": float,
        "endurance": list["CellSpread"],
        "version": str,
        "verb": Literal["ecc"],
    },
)
ExportDocument = TypedDict(
    "ExportDocument",
    {
        "drive": str,
        "pattern": str,
        "threads": int,
        "requests": int,
        "seed": int,
        "percents": list[float],
        "conditions": list["ExportCondition"],
        "loads": list["ExportLoad"],
        "left_out": list["LeftOutCheck"],
        "checks": list["LoadCheck"],
        "description": "Description",
        "version": str,
        "verb": Literal["export"],
    },
)
KneeDocument = TypedDict(
    "KneeDocument",
    {
        "drive": str,
        "options": dict[str, str],
        "seed": int,
        "saturated_iops": float | None,
        "iops_max": float,
        "knee_iops": float | None,
        "is_doubled": bool,
        "knee_figure": str,
        "points": list["LoadPoint"],
        "description": "Description",
        "version": str,
        "verb": Literal["knee"],
    },
)
KvcacheDocument = TypedDict(
    "KvcacheDocument",
    {
        "requests": int,
        "input_tokens": int,
        "duration_s": float,
        "token_bytes": int,
        "block_tokens": int,
        "layout": "KvLayout",
        "replacement": "TierReplacement",
        "drive_writes": "DriveWrites",
        "drives_per_host": int,
        "windows": int,
        "seed": int,
        "drives": list["KvCacheDrive"],
        "version": str,
        "verb": Literal["kvcache"],
    },
)
SheetDocument = TypedDict(
    "SheetDocument",
    {
        "drive": str,
        "keys": list["SheetKey"],
        "idle": list["SheetFigure"],
        "predicted": list["SheetLoad"],
        "simulations": int,
        "drive_file": str,
        "version": str,
        "verb": Literal["sheet"],
    },
)
TailsDocument = TypedDict(
    "TailsDocument",
    {
        "latencies": list["TailFigure"],
        "errors": list["TailError"],
        "knees": list["KneeFigure"],
        "version": str,
        "verb": Literal["tails"],
    },
)
WhatifDocument = TypedDict(
    "WhatifDocument",
    {
        "file": str,
        "recorded_requests": int,
        "replayed_requests": int,
        "windows": int,
        "draws": int,
        "seed": int,
        "ranked": list["RankedDrive"],
        "cannot": list[str],
        "version": str,
        "verb": Literal["whatif"],
    },
)
TraceInfoDocument = TypedDict(
    "TraceInfoDocument",
    {
        "file": str,
        "format": str,
        "devices": list["TraceDevice"],
        "device": str | None,
        "requests": int,
        "read_share": float,
        "read_bytes": int,
        "written_bytes": int,
        "seconds": float,
        "requests_per_s": float | None,
        "busiest_second_requests": int,
        "sizes": list["SizedRequests"],
        "size_percentiles": list["SizePercentile"],
        "granule_bytes": int,
        "aligned_4k_share": float,
        "sequential_share": float,
        "end_bytes": int,
        "footprint": "TraceFootprint",
        "queue_depth": "TraceQueueDepth | None",
        "left_out": list["LeftOutRecords"],
        "command": str | None,
        "notes": list[str],
        "version": str,
        "verb": Literal["trace-info"],
    },
)
