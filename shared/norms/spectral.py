"""Spectral norm of all layers of a net, by one batched power iteration.

Legend: L layers of one shape, O outputs, F fan-in.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def as_matrix(weight: Tensor, transposed: bool = False) -> Tensor:
    """(O, F); outputs of a transposed convolution are its weight's second dimension."""
    return (weight.transpose(0, 1) if transposed else weight).flatten(1)


class _Divided(nn.Module):
    """Parametrisation W -> W / sigma, sigma = u^T W v with constant u and v."""

    u: Tensor
    v: Tensor

    def __init__(self, weight: Tensor, transposed: bool) -> None:
        super().__init__()
        self.transposed = transposed
        matrix = as_matrix(weight.detach(), transposed)
        for name, size in (("u", matrix.shape[0]), ("v", matrix.shape[1])):
            start = torch.randn(size, dtype=weight.dtype, device=weight.device)
            self.register_buffer(name, nn.functional.normalize(start, dim=0))

    def sigma(self, weight: Tensor) -> Tensor:
        """The estimate of the largest singular value; gradients flow to the weight."""
        # Copies: the next iteration writes the buffers, which a later backward may still need.
        u, v = self.u.clone(), self.v.clone()
        return u @ (as_matrix(weight, self.transposed) @ v)

    def forward(self, weight: Tensor) -> Tensor:
        return weight / self.sigma(weight)


class SpectralNorm:
    """Divides the weights of a net's layers by their largest singular value.

    W' = W / sigma, sigma = u^T W v; before each forward of the net in training,
    v <- normalise(W^T u), u <- normalise(W v), for all layers of one shape at once.

    Args:
        net: The layers with a weight of 2 or more dimensions in it are normalised, in place.
        iterations: Steps of the power iteration before each forward in training.
        eps: Least length that a vector is divided by.
        warm_up: Steps at once, so that an evaluation before the first training forward divides by
            nearly the largest singular value, too. The paper's algorithm has none.

    Raises: ValueError where there is no such layer, or for other numbers of steps.
    Source: Miyato, Kataoka, Koyama, Yoshida (2018), arXiv 1802.05957, algorithm 1. The norm is
        that of the reshaped weight, as there, not of the convolution as an operator.

    Example:
        >>> net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
        >>> norms = SpectralNorm(net, iterations=50)
        >>> _ = net(torch.ones(1, 4))
        >>> round(torch.linalg.matrix_norm(net[0].weight, 2).item(), 3)
        1.0
    """

    def __init__(
        self, net: nn.Module, iterations: int = 1, eps: float = 1e-12, warm_up: int = 15
    ) -> None:
        if iterations < 1 or warm_up < 0:
            raise ValueError(
                f"SpectralNorm: got {iterations} iterations and {warm_up} steps of warm-up, "
                "expected 1 or more, and 0 or more"
            )
        self.iterations = iterations
        self.eps = eps
        layers = [m for m in net.modules() if _has_matrix(m)]
        if not layers:
            raise ValueError("SpectralNorm: got a net without a weight of 2 or more dimensions")
        for layer in layers:
            weight = layer.weight
            assert isinstance(weight, Tensor)
            parametrisation = _Divided(weight, isinstance(layer, TRANSPOSED))
            parametrize.register_parametrization(layer, "weight", parametrisation)
        if warm_up:
            self.iterate(net, warm_up)
        net.register_forward_pre_hook(self._before_forward)

    def _before_forward(self, net: nn.Module, inputs: Any) -> None:
        if net.training:
            self.iterate(net)

    @torch.no_grad()
    def iterate(self, net: nn.Module, steps: int | None = None) -> None:
        """Steps of the power iteration for all layers, batched by shape; None: `iterations`."""
        steps = self.iterations if steps is None else steps
        by_shape: dict[tuple[Any, ...], list[tuple[Tensor, _Divided]]] = {}
        for layer in net.modules():
            for weight, p in _divided(layer):
                matrix = as_matrix(weight, p.transposed)
                key = (*matrix.shape, matrix.dtype, matrix.device)
                by_shape.setdefault(key, []).append((matrix, p))
        for group in by_shape.values():
            matrices, targets = zip(*group, strict=True)
            u = torch.stack([p.u for p in targets])
            # One batch is one launch on a GPU; on a CPU stacking would only copy the weights.
            if matrices[0].is_cuda:
                u, v = self._steps(torch.stack(matrices), u, steps)
            else:
                pairs = [self._steps(m, row, steps) for m, row in zip(matrices, u, strict=True)]
                u, v = (torch.stack(t) for t in zip(*pairs, strict=True))
            for i, p in enumerate(targets):
                p.u.copy_(u[i])
                p.v.copy_(v[i])

    def _steps(self, w: Tensor, u: Tensor, steps: int) -> tuple[Tensor, Tensor]:
        """u and v after 1 step or more, of one matrix or of a stack of them."""
        normalise = nn.functional.normalize
        for _ in range(steps):
            v = normalise((w.mT @ u.unsqueeze(-1)).squeeze(-1), dim=-1, eps=self.eps)
            u = normalise((w @ v.unsqueeze(-1)).squeeze(-1), dim=-1, eps=self.eps)
        return u, v


def _has_matrix(module: nn.Module) -> bool:
    weight = module._parameters.get("weight")
    return weight is not None and weight.dim() >= 2


def _divided(layer: nn.Module) -> list[tuple[Tensor, _Divided]]:
    if not parametrize.is_parametrized(layer, "weight"):
        return []
    chain: Any = layer.parametrizations["weight"]  # type: ignore[index]
    return [(chain.original, p) for p in chain if isinstance(p, _Divided)]
