"""Steps without derivatives that are measured: clipping and spectral norm of whole nets."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from shared.norms.clip import clip_adaptively_, unit_norm
from shared.norms.spectral import SpectralNorm

Make = Callable[[str, torch.dtype], Callable[[], list[Tensor]]]


@dataclass(frozen=True)
class Step:
    """Candidates that build their state for a device and type, and return what does one step."""

    operator: str
    label: str
    candidates: Mapping[str, Make]
    calls_before_gate: int = 0


def bottleneck_shapes(blocks: tuple[int, ...]) -> list[tuple[int, int, int, int]]:
    """Weights of the convolutions of a bottleneck ResNet: (2, 2, 2, 2) is ResNet-26."""
    shapes = [(64, 3, 7, 7)]
    channels = 64
    for stage, count in enumerate(blocks):
        width = 64 * 2**stage
        for block in range(count):
            shapes += [(width, channels, 1, 1), (width, width, 3, 3), (4 * width, width, 1, 1)]
            if block == 0:
                shapes.append((4 * width, channels, 1, 1))
            channels = 4 * width
    return shapes


NETS = {"NF-ResNet-26": (2, 2, 2, 2), "NF-ResNet-50": (3, 4, 6, 3)}


def _parameters(blocks: tuple[int, ...], device: str, dtype: torch.dtype) -> list[nn.Parameter]:
    torch.manual_seed(0)
    made = []
    for shape in bottleneck_shapes(blocks):
        p = nn.Parameter(torch.randn(shape).to(device, dtype))
        p.grad = torch.randn(shape).to(device, dtype)
        made.append(p)
    return made


def _grads(parameters: list[nn.Parameter]) -> list[Tensor]:
    return [p.grad for p in parameters if p.grad is not None]


@torch.no_grad()
def _clip_by_layer(parameters: list[nn.Parameter], limit: float, eps: float) -> None:
    """The source's loop: every layer on its own."""
    for p in parameters:
        assert p.grad is not None
        most = unit_norm(p).clamp_min(eps) * limit
        norm = unit_norm(p.grad)
        clipped = p.grad * (most / norm.clamp_min(1e-6))
        p.grad.copy_(torch.where(norm > most, clipped, p.grad))


def _clipping(blocks: tuple[int, ...], clip: Callable[..., None]) -> Make:
    def make(device: str, dtype: torch.dtype) -> Callable[[], list[Tensor]]:
        parameters = _parameters(blocks, device, dtype)

        def run() -> list[Tensor]:
            clip(parameters, 0.01, 1e-3)
            return _grads(parameters)

        return run

    return make


def _critic() -> nn.Module:
    """The critic of SN-GAN for 32x32 images: seven convolutions and a linear layer."""
    torch.manual_seed(0)
    sizes = [(3, 64, 3), (64, 64, 4), (64, 128, 3), (128, 128, 4), (128, 256, 3), (256, 256, 4)]
    layers: list[nn.Module] = [nn.Conv2d(i, o, k) for i, o, k in [*sizes, (256, 512, 3)]]
    net = nn.Sequential(*layers, nn.Linear(512 * 4 * 4, 1))
    with torch.no_grad():
        for weight in _weights(net):
            weight.add_(0.1)  # a large singular value, so that all iterations agree soon
    return net


def _weights(net: nn.Module) -> list[Tensor]:
    return [layer.weight for layer in net.children()]  # type: ignore[misc]


def _spectral(device: str, dtype: torch.dtype) -> Callable[[], list[Tensor]]:
    net = _critic().to(device, dtype)
    norm = SpectralNorm(net)

    def run() -> list[Tensor]:
        norm.iterate(net)
        return _weights(net)

    return run


def _spectral_torch(device: str, dtype: torch.dtype) -> Callable[[], list[Tensor]]:
    net = copy.deepcopy(_critic()).to(device, dtype)
    for layer in net.children():
        parametrizations.spectral_norm(layer)
    return lambda: _weights(net)


def steps(device: str) -> list[Step]:
    """The table for a kind of device: the small net on a CPU, both on a GPU."""
    names = list(NETS) if device == "cuda" else ["NF-ResNet-26"]
    clips = [
        Step(
            "agc",
            f"all layers of {name} float32",
            {
                "ours:auto": _clipping(NETS[name], clip_adaptively_),
                "torch": _clipping(NETS[name], _clip_by_layer),
            },
        )
        for name in names
    ]
    critics = Step(
        "spectral_norm",
        "all layers of the SN-GAN critic float32",
        {"ours:auto": _spectral, "torch": _spectral_torch},
        calls_before_gate=30,  # until both iterations have found the largest singular value
    )
    return [*clips, critics]
