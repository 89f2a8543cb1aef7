"""How it is measured: correctness first, then all candidates in turn in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from shared.norms.benchmark.rows import Function, Row
from shared.norms.benchmark.steps import Step

Run = Callable[[], object]
# One line of the record; `shared.records.benchmark.Line` reads it and tells what the keys mean.
# This package writes it without: it needs torch and nothing else.
Line = dict[str, Any]
PASSED = "passed"
FLUSH_BYTES = 2**28  # more than any GPU's second-level cache
ORDERS = ("forward", "backward", "double_backward")


class Times(NamedTuple):
    """Medians in milliseconds by candidate: on the device, and (CUDA alone) with the launches."""

    device: dict[str, float]
    wall: dict[str, float]


def _once_cuda(run: Run, flush: Tensor) -> tuple[float, float]:
    flush.zero_()
    torch.cuda.synchronize()
    event: Any = torch.cuda.Event
    start, stop = event(enable_timing=True), event(enable_timing=True)
    began = time.perf_counter()
    start.record()
    run()
    stop.record()
    stop.synchronize()
    return float(start.elapsed_time(stop)), (time.perf_counter() - began) * 1e3


def _once_cpu(run: Run) -> float:
    """Time of this thread, so that other processes on the machine do not count."""
    start = time.thread_time()
    run()
    return (time.thread_time() - start) * 1e3


def interleaved(runs: Mapping[str, Run], repeats: int, device: str) -> Times:
    """Median of each, taken in turn, so that a drift of the machine meets all alike."""
    flush = torch.empty(FLUSH_BYTES if device == "cuda" else 0, dtype=torch.int8, device=device)
    times: dict[str, list[float]] = {name: [] for name in runs}
    walls: dict[str, list[float]] = {name: [] for name in runs if device == "cuda"}
    for run in runs.values():
        run()
    for _ in range(repeats):
        for name, run in runs.items():
            if device == "cuda":
                taken, wall = _once_cuda(run, flush)
                walls[name].append(wall)
            else:
                taken = _once_cpu(run)
            times[name].append(taken)
    medians = [{n: statistics.median(v) for n, v in t.items()} for t in (times, walls)]
    return Times(*medians)


def kept_mib(function: Function, inputs: list[Tensor]) -> float:
    """Memory that the forward keeps for its backward, the inputs themselves excepted."""
    own = {t.untyped_storage().data_ptr() for t in inputs}
    kept: dict[int, int] = {}

    def pack(t: Tensor) -> Tensor:
        storage = t.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = function(*inputs)
    kept.pop(y.untyped_storage().data_ptr(), None)  # the next layer holds it in any case
    return sum(kept.values()) / 2**20


def _derivatives(function: Function, inputs: list[Tensor], orders: int) -> list[Tensor]:
    y = function(*inputs)
    torch.manual_seed(1)
    grad = torch.randn(y.shape, dtype=torch.float64).to(y.device, y.dtype).requires_grad_()
    first = torch.autograd.grad(y, inputs, grad, create_graph=orders > 1)
    if orders == 1:
        return [y, *first]
    v = torch.randn(first[0].shape, dtype=torch.float64).to(y.device, y.dtype)
    return [y, *first, *torch.autograd.grad(first[0], [grad, inputs[0]], v)]


def compare(got: list[Tensor], truth: list[Tensor], dtype: torch.dtype) -> str:
    """`passed`, or which result is how far off the one in float64."""
    bound = 200 * torch.finfo(dtype).eps
    for i, (g, t) in enumerate(zip(got, truth, strict=True)):
        if t.numel() == 0:
            continue
        scale = t.detach().abs().max().clamp_min(1e-30)
        error = float((g.detach().double() - t.detach()).abs().max() / scale)
        if not error <= bound:
            return f"result {i} is off by {error:.1e} of its maximum, allowed {bound:.1e}"
    return PASSED


def gate(row: Row, function: Function, device: str) -> str:
    """Compares a function's results of all orders with torch's formula in float64."""
    inputs = row.inputs(device)
    exact = [t.detach().double().requires_grad_() for t in inputs]
    truth = _derivatives(row.torch, exact, row.orders)
    return compare(_derivatives(function, inputs, row.orders), truth, inputs[0].dtype)


def _runs(function: Function, inputs: list[Tensor], orders: int) -> dict[str, Run]:
    y = function(*inputs)
    grad, v = torch.randn_like(y), torch.randn_like(inputs[0])
    runs: dict[str, Run] = {
        "forward": lambda: function(*inputs),
        "backward": lambda: torch.autograd.grad(y, inputs, grad, retain_graph=True),
    }
    if orders > 1:
        leaf = torch.randn_like(y).requires_grad_()
        pair = [leaf, inputs[0]]
        first = torch.autograd.grad(function(*inputs), inputs[0], leaf, create_graph=True)
        runs["double_backward"] = lambda: torch.autograd.grad(first, pair, v, retain_graph=True)
    return runs


def measure(row: Row, compiled: bool, repeats: int, device: str) -> list[Line]:
    """All phases of a row; without numbers where one of ours is wrong."""
    verdicts = {name: gate(row, function, device) for name, function in row.ours.items()}
    failed = [f"{i}: {v}" for i, v in verdicts.items() if v != PASSED]
    line = {"operator": row.operator, "shape": row.label}
    if failed:
        return [_without_numbers(line, "; ".join(failed))]
    ours = {f"ours:{name}": function for name, function in row.ours.items()}
    candidates = {**ours, "torch": row.torch, **row.peers}
    inputs = row.inputs(device)
    by_name = {name: _runs(f, inputs, row.orders) for name, f in candidates.items()}
    if compiled:  # torch.compile has no double backward
        # A backward is measured many times, so its inputs must outlive the first.
        torch._functorch.config.donated_buffer = False
        candidates["torch.compile"] = torch.compile(row.torch)
        by_name["torch.compile"] = _runs(candidates["torch.compile"], inputs, 1)
    x = inputs[0].detach()
    target = torch.empty_like(x)
    floors = {"forward": row.forward_bytes, "backward": row.backward_bytes}
    lines = []
    for phase in ORDERS[: row.orders + 1]:
        runs = {name: phases[phase] for name, phases in by_name.items() if phase in phases}
        if phase in floors:
            runs["copy"] = lambda: target.copy_(x)
        times = interleaved(runs, repeats, device)
        copy = times.device.pop("copy", None)
        times.wall.pop("copy", None)
        kept = {}
        if phase == "forward":
            kept = {n: kept_mib(f, inputs) for n, f in candidates.items() if "compile" not in n}
        floor = None if copy is None else copy * floors[phase] / 2
        lines.append(_timed(line, phase, times, floor) | {"kept_mib": kept})
    return lines


def _without_numbers(line: dict[str, str], fault: str) -> Line:
    return {**line, "phase": "all", "gate": fault, "milliseconds": {}, "floor_ms": None}


def _timed(line: dict[str, str], phase: str, times: Times, floor: float | None) -> Line:
    measured = {"milliseconds": times.device, "wall_milliseconds": times.wall, "floor_ms": floor}
    return {**line, "phase": phase, "gate": PASSED, **measured}


def measure_step(step: Step, repeats: int, device: str) -> Line:
    """A step that has no derivatives: a clipping, or a power iteration."""
    line = {"operator": step.operator, "shape": step.label}
    runs = {name: make(device, torch.float32) for name, make in step.candidates.items()}
    truth = step.candidates["torch"](device, torch.float64)
    ours = next(run for name, run in runs.items() if name.startswith("ours:"))
    for _ in range(step.calls_before_gate):
        ours(), truth()
    fault = compare(ours(), truth(), torch.float32)
    if fault != PASSED:
        return _without_numbers(line, fault)
    return _timed(line, "step", interleaved(runs, repeats, device), None)
