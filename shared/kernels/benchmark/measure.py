"""How it is measured: correctness first, then all candidates in turn in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from shared.kernels.benchmark.rows import Row

Run = Callable[[], object]
FLUSH_BYTES = 2**28  # more than any GPU's second-level cache


class Measured(NamedTuple):
    """Medians in milliseconds by candidate, for one phase of one row."""

    operator: str
    label: str
    phase: str
    milliseconds: dict[str, float]
    floor_ms: float | None  # a copy of the same bytes, where the phase has a known least traffic
    gate: str  # "passed", or what went wrong: then there are no numbers


def _once_cuda(run: Run, flush: Tensor) -> float:
    flush.zero_()
    event: Any = torch.cuda.Event
    start, stop = event(enable_timing=True), event(enable_timing=True)
    start.record()
    run()
    stop.record()
    stop.synchronize()
    return float(start.elapsed_time(stop))


def _once_cpu(run: Run) -> float:
    """Time of this thread, so that other processes on the machine do not count."""
    start = time.thread_time()
    run()
    return (time.thread_time() - start) * 1e3


def interleaved(runs: dict[str, Run], repeats: int, device: str) -> dict[str, float]:
    """Median of each, taken in turn, so that a drift of the machine meets all alike."""
    flush = torch.empty(FLUSH_BYTES if device == "cuda" else 0, dtype=torch.int8, device=device)
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(repeats):
        for name, run in runs.items():
            taken = _once_cuda(run, flush) if device == "cuda" else _once_cpu(run)
            times[name].append(taken)
    return {name: statistics.median(values) for name, values in times.items()}


def _all_orders(function: Callable[..., Tensor], inputs: list[Tensor]) -> list[Tensor]:
    y = function(*inputs)
    torch.manual_seed(1)
    grad = torch.randn(y.shape, dtype=torch.float64).to(y.device, y.dtype).requires_grad_()
    first = torch.autograd.grad(y, inputs, grad, create_graph=True)
    v = torch.randn(first[0].shape, dtype=torch.float64).to(y.device, y.dtype)
    second = torch.autograd.grad(first[0], [grad, inputs[0]], v)
    return [y, *first, *second]


def gate(row: Row, function: Callable[..., Tensor], device: str, orders: int = 2) -> str:
    """Compares all results with float64; `passed`, or which result is how far off."""
    small = row.inputs(device)
    got = _all_orders(function, small)
    exact = [t.detach().double().requires_grad_() for t in small]
    truth = _all_orders(row.native, exact)
    bound = 200 * torch.finfo(small[0].dtype).eps
    for i, (g, t) in enumerate(zip(got, truth, strict=True)):
        scale = t.detach().abs().max().clamp_min(1e-30)
        error = float((g.detach().double() - t.detach()).abs().max() / scale)
        if not error <= bound:
            return f"result {i} is off by {error:.1e} of its maximum, allowed {bound:.1e}"
    return "passed"


def _phase_runs(function: Callable[..., Tensor], inputs: list[Tensor]) -> dict[str, Run]:
    y = function(*inputs)
    grad, v = torch.randn_like(y), torch.randn_like(y)
    leaf = torch.randn_like(y).requires_grad_()
    first = torch.autograd.grad(function(*inputs), inputs[0], leaf, create_graph=True)

    def backward() -> object:
        return torch.autograd.grad(y, inputs, grad, retain_graph=True)

    def double() -> object:
        return torch.autograd.grad(first, [leaf, inputs[0]], v, retain_graph=True)

    return {"forward": lambda: function(*inputs), "backward": backward, "double_backward": double}


def measure(
    row: Row, impls: list[str], compiled: bool, repeats: int, device: str
) -> list[Measured]:
    """All phases of a row; without numbers where ours is wrong."""
    candidates = {f"ours:{i}": row.ours(i) for i in impls} | {"torch": row.native} | row.peers
    verdicts = {i: gate(row, row.ours(i), device) for i in impls}
    failed = [f"{i}: {v}" for i, v in verdicts.items() if v != "passed"]
    if failed:
        return [Measured(row.operator, row.label, "all", {}, None, "; ".join(failed))]
    if compiled:
        candidates["torch.compile"] = torch.compile(row.native)
    inputs = row.inputs(device)
    phases = {name: _phase_runs(f, inputs) for name, f in candidates.items() if "comp" not in name}
    if compiled:  # torch.compile has no double backward
        y = candidates["torch.compile"](*inputs)
        grad = torch.randn_like(y)
        phases["torch.compile"] = {
            "forward": lambda: candidates["torch.compile"](*inputs),
            "backward": lambda: torch.autograd.grad(y, inputs, grad, retain_graph=True),
        }
    x = inputs[0].detach()
    target = torch.empty_like(x)
    results = []
    for phase, traffic in (
        ("forward", row.forward_bytes),
        ("backward", row.backward_bytes),
        ("double_backward", None),
    ):
        runs = {name: p[phase] for name, p in phases.items() if phase in p}
        if traffic is not None:
            runs["copy"] = lambda: target.copy_(x)
        times = interleaved(runs, repeats, device)
        copy = times.pop("copy", None)
        floor = None if copy is None or traffic is None else copy * traffic / 2
        results.append(Measured(row.operator, row.label, phase, times, floor, "passed"))
    return results
