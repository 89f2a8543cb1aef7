"""What holds exactly, in float64 and without data: bn8 and Algorithm 2.

Shapes: u (examples, features) or (examples, channels, height, width), y likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import torch
from torch import nn
from torch.nn.functional import conv2d, linear

from papers.batchnorm.method import Method, inference_affine
from shared.norms import BatchNorm1d, BatchNorm2d
from shared.records.metrics import Row
from shared.training.run_context import Run

BATCH_SIZE, NUM_IN, NUM_OUT, SIDE = 32, 12, 16, 6
SCALES = (0.01, 3.0, 100.0)
Kind = Literal["dense", "conv"]
Affine = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def invariance(run: Run, kind: Kind, method: Method) -> Iterator[Row]:
    """BN(W u) against BN((aW) u) and BN(W u + b), forward and backward, with eps = 0.

        BN((aW) u) = BN(W u),  d/du the same,  d/d(aW) = (1/a) d/dW,  BN(W u + b) = BN(W u)

    Errors are the largest over a = 0.01, 3 and 100, those of gradients relative to the largest
    entry. With `method` none the same is measured without BN, where none of it holds.

    Source: section 3.3; section 3.2 for the bias.
    """
    affine, u, weight = _layer(kind, run.device)
    zero, bias = torch.zeros(NUM_OUT).to(u), torch.randn(NUM_OUT).to(u)
    norm = _norm(kind, method, eps=0.0).to(u)
    cotangent = torch.randn_like(affine(u, weight, zero))

    def run_once(scale: float, bias: torch.Tensor) -> list[torch.Tensor]:
        inputs = [u.clone(), scale * weight, bias.clone()]
        y = norm(affine(*(tensor.requires_grad_() for tensor in inputs)))
        return [y.detach(), *torch.autograd.grad(y, inputs, cotangent)]

    y, du, dw, _ = run_once(1.0, zero)
    scaled = {scale: run_once(scale, zero) for scale in SCALES}
    shifted, _, _, dbias = run_once(1.0, bias)
    errors = {
        "output_error": max(_largest(other[0] - y) for other in scaled.values()),
        "input_gradient_error": max(_largest(other[1] - du) for other in scaled.values())
        / _largest(du),
        "weight_gradient_error": max(_largest(a * other[2] - dw) for a, other in scaled.items())
        / _largest(dw),
        "bias_effect": _largest(shifted - y),
        "bias_gradient": _largest(dbias) / _largest(cotangent),
    }
    for metric, error in errors.items():
        yield Row(metric, error, "1")


def inference(run: Run, kind: Kind, num_batches: int) -> Iterator[Row]:
    """Algorithm 2: statistics averaged over training batches, then one affine map.

    population_error: the layer's running statistics against E[x] = E[mean], Var[x] =
    m / (m - 1) E[var] over the batches, with m counting the places of a feature map, relative to
    the largest variance.
    fused_affine_error: the layer in eval mode against W folded with `inference_affine`.

    Source: Algorithm 2.
    """
    affine, _, weight = _layer(kind, run.device)
    norm = _norm(kind, "batchnorm", eps=1e-3).to(weight)
    assert isinstance(norm, BatchNorm1d | BatchNorm2d)
    norm.momentum = None  # the plain mean over all batches, as in the paper
    nn.init.uniform_(norm.weight, 0.5, 2.0)
    nn.init.normal_(norm.bias)
    bias = torch.randn(NUM_OUT).to(weight)
    means, variances = [], []
    with torch.no_grad():
        for _ in range(num_batches):
            x = affine(_input(kind, run.device), weight, bias)
            norm(x)
            x_CM = x.transpose(0, 1).flatten(1)
            m = x_CM.shape[1]
            means.append(x_CM.mean(1))
            variances.append(x_CM.var(1, correction=0) * m / (m - 1))
        mean, var = torch.stack(means).mean(0), torch.stack(variances).mean(0)
        running = norm.running()
        scale, shift = inference_affine(norm)
        u = _input(kind, run.device)
        folded = scale.view(-1, *[1] * (weight.dim() - 1)) * weight
        error = norm.eval()(affine(u, weight, bias)) - affine(u, folded, scale * bias + shift)
    population = _largest(running.mean - mean, running.var - var) / _largest(var)
    yield Row("population_error", population, "1")
    yield Row("fused_affine_error", _largest(error), "1")


def _layer(kind: Kind, device: torch.device) -> tuple[Affine, torch.Tensor, torch.Tensor]:
    """A dense or convolutional layer: its function of (u, weight, bias), an input, weights."""
    shape = (NUM_OUT, NUM_IN) if kind == "dense" else (NUM_OUT, NUM_IN, 3, 3)
    weight = torch.randn(*shape, device=device, dtype=torch.float64)
    return linear if kind == "dense" else conv2d, _input(kind, device), weight


def _input(kind: Kind, device: torch.device) -> torch.Tensor:
    shape = (BATCH_SIZE, NUM_IN) if kind == "dense" else (BATCH_SIZE, NUM_IN, SIDE, SIDE)
    return torch.randn(*shape, device=device, dtype=torch.float64)


def _norm(kind: Kind, method: Method, eps: float) -> nn.Module:
    if method == "none":
        return nn.Identity()
    return (BatchNorm1d if kind == "dense" else BatchNorm2d)(NUM_OUT, eps=eps)


def _largest(*differences: torch.Tensor) -> float:
    return max(difference.abs().max().item() for difference in differences)
