"""What needs no training: signal propagation plots, and identities in float64.

Shapes: x_NCHW (examples, channels, height, width).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from papers.nf_resnet.method import ALPHA, SCHEMES, Method, Signal, signal
from papers.nf_resnet.model import Block, ResNet
from papers.nf_resnet.module import clipped_parameters
from shared.norms import activation_gain, clip_adaptively_
from shared.records.metrics import Row
from shared.training.run_context import Run

RELU_VARIANCE = 1 - 1 / math.pi
"""Of sqrt(2) relu(z), z standard normal: what He's initialisation leaves of a unit variance."""


class Prediction(NamedTuple):
    """The analytic curves at the end of a block."""

    squared_mean: float
    variance: float
    residual_variance: float


def predict(method: Method, index: int, image_size: int) -> Prediction:
    """The signal after block `index` (0-based) of a stage, in a wide net.

    BatchNorm: each branch adds r, and so does the shortcut of a stage's first block, so that
    variance = r (index + 2), with r = 1 - 1/pi and squared mean (index + 2) / pi for norm before
    ReLU, r = 1 and no mean for ReLU before norm. A planned net: variance 1 + alpha^2 s (index + 1)
    and no mean, where s = ((3n - 2) / 3n)^2 is the share of a 3x3 window that lies inside an image
    of n x n: the padding around it is zero, which nothing in the branch makes up for.

    Source: section 3 of the paper, which has no s.

    Example:
        >>> predict("nf", index=49, image_size=56).variance  # 1 + 0.04 * 50 without the padding
        2.95...
    """
    if SCHEMES[method].planned:
        inside = (1 - 2 / (3 * image_size)) ** 2
        return Prediction(0.0, 1 + ALPHA**2 * inside * (index + 1), inside)
    if method == "batchnorm":
        return Prediction((index + 2) / math.pi, RELU_VARIANCE * (index + 2), RELU_VARIANCE)
    return Prediction(0.0, index + 2.0, 1.0)


def signal_propagation(
    run: Run,
    method: Method,
    depths: Sequence[int],
    widths: Sequence[int],
    stem: Literal["imagenet", "small"],
    image_size: int,
    batch_size: int,
) -> Iterator[Row]:
    """A signal propagation plot: standard normal images through a net at its start.

    The skip gains are 1: at their usual start of 0 a branch adds nothing. Rows per block (step =
    block) and over all blocks: mean_residual_variance; variance_error, the largest relative
    distance from the analytic curve; mean_to_variance, squared mean over variance, the mean of the
    stages' ends; variance_left_by_reset, variance after over before a stage's first block.

    Source: figures 1 and 2 of the paper.
    """
    net = ResNet(method, depths, widths, 3, stem=stem, skip_gain=1.0).to(run.device)
    signals: list[tuple[Signal, float]] = []
    predictions: list[Prediction] = []
    with torch.no_grad():
        x_NCHW = net.stem(torch.randn(batch_size, 3, image_size, image_size, device=run.device))
        for depth in depths:
            for index in range(depth):
                block = net.blocks[len(signals)]
                assert isinstance(block, Block)
                x_NCHW, residual = _with_residual(block, x_NCHW)
                signals.append((signal(x_NCHW), residual.variance))
                predictions.append(predict(method, index, x_NCHW.shape[-1]))
    for step, ((found, residual_variance), predicted) in enumerate(
        zip(signals, predictions, strict=True), 1
    ):
        yield Row("squared_mean", found.squared_mean, "1", step=step)
        yield Row("variance", found.variance, "1", step=step)
        yield Row("residual_variance", residual_variance, "1", step=step)
        yield Row("predicted_squared_mean", predicted.squared_mean, "1", step=step)
        yield Row("predicted_variance", predicted.variance, "1", step=step)
        yield Row("predicted_residual_variance", predicted.residual_variance, "1", step=step)
    variances = [found.variance for found, _ in signals]
    ends = np.cumsum(depths)
    errors = [abs(v / p.variance - 1) for v, p in zip(variances, predictions, strict=True)]
    ratios = [signals[end - 1][0].squared_mean / variances[end - 1] for end in ends]
    resets = [variances[end] / variances[end - 1] for end in ends[:-1]]
    yield Row("mean_residual_variance", float(np.mean([r for _, r in signals])), "1")
    yield Row("variance_error", max(errors), "1")
    yield Row("mean_to_variance", float(np.mean(ratios)), "1")
    if resets:
        yield Row("variance_left_by_reset", float(np.mean(resets)), "1")


def _with_residual(block: Block, x_NCHW: Tensor) -> tuple[Tensor, Signal]:
    """The block's output, and the signal at the end of its branch, before gain and alpha."""
    residuals: list[Signal] = []
    hook = block.branch.register_forward_hook(lambda _, __, out: residuals.append(signal(out)))
    out_NCHW = block(x_NCHW)
    hook.remove()
    return out_NCHW, residuals[0]


def gain(run: Run, function: Literal["relu", "silu"]) -> Iterator[Row]:
    """gamma against its closed form (ReLU), and Var[gamma f(z)] = 1 by another quadrature."""
    gamma = activation_gain(function)
    if function == "relu":
        yield Row("gamma_error", abs(gamma - math.sqrt(2 / (1 - 1 / math.pi))), "1")
    nodes, weights = np.polynomial.legendre.leggauss(200)
    half, weights = 6 * (nodes + 1), 6 * weights  # on 0..12, so that ReLU's kink is at an edge
    z = np.concatenate([-half, half])
    density = np.tile(weights * np.exp(-(half**2) / 2) / math.sqrt(2 * math.pi), 2)
    f = gamma * (np.maximum(z, 0) if function == "relu" else z / (1 + np.exp(-z)))
    variance = np.sum(density * f**2) - np.sum(density * f) ** 2
    yield Row("kept_variance_error", abs(float(variance) - 1), "1")


def identities(run: Run, depths: Sequence[int], widths: Sequence[int]) -> Iterator[Row]:
    """What holds exactly in an NF-ResNet: standardised rows, the plan's beta, clipped gradients."""
    net = ResNet("nf", depths, widths, stem="imagenet").double().to(run.device)
    means, norms = [], []
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d):
            gain_O = layer.get_parameter("parametrizations.weight.0.gain")
            nn.init.uniform_(gain_O, 0.5, 2.0)
            rows = layer.weight.detach().flatten(1)
            means.append(rows.mean(1).abs().max().item())
            norms.append((rows.norm(dim=1) / gain_O.detach() - 1).abs().max().item())
    yield Row("row_mean_error", max(means), "1")
    yield Row("row_norm_error", max(norms), "1")
    yield Row("beta_error", _beta_error(net), "1")
    yield Row("clipped_norm_error", _clipping_error(net, limit=0.01, eps=1e-3), "1")


def _beta_error(net: ResNet) -> float:
    """Largest error of beta against Var_(l+1) = Var_l + alpha^2 over the blocks as they are built.

    A block with a convolution in its shortcut resets the variance.
    """
    variance, largest = 1.0, 0.0
    for block in net.blocks:
        assert isinstance(block, Block)
        largest = max(largest, abs(block.beta - math.sqrt(variance)))
        variance = (1.0 if block.shortcut is not None else variance) + ALPHA**2
    return largest


def _clipping_error(net: ResNet, limit: float, eps: float) -> float:
    """Largest relative error of |G'| = min(|G|, limit max(|W|, eps)) over the units of a net."""
    before = {}
    for parameter in clipped_parameters(net):
        parameter.grad = torch.randn_like(parameter) * 10 ** -float(torch.rand(()) * 5)
        before[parameter] = parameter.grad.clone()
    clip_adaptively_(before, limit, eps)
    errors = []
    for parameter, grad in before.items():
        assert parameter.grad is not None
        rows = (len(parameter), -1) if parameter.dim() > 1 else (1, -1)
        weight, old, new = (t.detach().reshape(rows) for t in (parameter, grad, parameter.grad))
        most = limit * weight.norm(dim=1).clamp_min(eps)
        expected = torch.minimum(old.norm(dim=1), most)
        errors.append((new.norm(dim=1) / expected - 1).abs().max().item())
    return max(errors)
