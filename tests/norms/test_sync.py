"""Two processes with half a batch each equal one process with the joint batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor

from shared.norms import BatchNorm2d, SyncBatchNorm


def step(layer: Any, x: Tensor, cotangent: Tensor, second: Tensor) -> dict[str, Tensor]:
    """Output, gradients and a second derivative with given cotangents."""
    x = x.requires_grad_()
    y = layer(x)
    (dx,) = torch.autograd.grad(y, x, cotangent, create_graph=True)
    (ddx,) = torch.autograd.grad(dx, x, second, retain_graph=True)
    (y * cotangent).sum().backward()
    weight: Tensor = layer.weight.grad
    return {"y": y.detach(), "dx": dx.detach(), "ddx": ddx, "dw": weight}


def work(rank: int, folder: str, sizes: tuple[int, int], data: tuple[Tensor, ...]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/meet", rank=rank, world_size=2)
    try:
        layer = SyncBatchNorm(3).double()
        own = [t.split(sizes)[rank].clone() for t in data]
        result = step(layer, *own) | {"mean": layer.running_mean, "var": layer.running_var}
        torch.save(result, f"{folder}/{rank}.pt")
    finally:
        dist.destroy_process_group()


def test_two_processes_equal_the_joint_batch(tmp_path: Path) -> None:
    data = tuple(torch.randn(5, 3, 2, 2, dtype=torch.float64) for _ in range(3))
    mp.spawn(work, (str(tmp_path), (2, 3), data), nprocs=2)
    first, second = (torch.load(tmp_path / f"{i}.pt") for i in range(2))
    layer = BatchNorm2d(3).double()
    joint = step(layer, *(t.clone() for t in data))
    for name in ("y", "dx", "ddx"):
        assert torch.allclose(torch.cat([first[name], second[name]]), joint[name], atol=1e-10), name
    assert torch.allclose(first["dw"] + second["dw"], joint["dw"])
    for part in (first, second):
        assert torch.allclose(part["mean"], layer.running_mean)
        assert torch.allclose(part["var"], layer.running_var)


def test_without_a_process_group_it_is_batch_norm() -> None:
    x = torch.randn(4, 3, 2, 2)
    assert torch.equal(SyncBatchNorm(3)(x), BatchNorm2d(3)(x))
