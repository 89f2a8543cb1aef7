"""What can be measured at initialisation, in float64 and without data: fx1, fx2 and fx3.

Shapes: x_NF (examples, features), logits_NK (examples, classes).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from papers.fixup.method import Method, parameter_groups
from papers.fixup.model import ConvResNet, ResidualMLP
from shared.records.metrics import Row
from shared.training.run_context import Run

NUM_CLASSES = 10


def signal_growth(
    run: Run, method: Method, num_blocks: int, width: int, batch_size: int
) -> Iterator[Row]:
    """Growth of the signal and of its gradient through the blocks of a residual MLP.

    An unnormalised block with He's initialisation adds a branch whose variance is that of its
    input, so in a wide net Var[x_l] = 2^l Var[x_0], and likewise for the gradient going back:
    log2 grows by 1 in each block. Fixup's branches are zero (growth 0); with BatchNorm each branch
    adds variance 1 (growth log2(L + 1) / L).

    Source: section 2 of the paper.
    """
    x_NF = torch.randn(batch_size, width, device=run.device, dtype=torch.float64)
    net = ResidualMLP(method, num_blocks, width).to(x_NF)
    signals = [x_NF.requires_grad_()]
    for block in net.blocks:
        signals.append(block(signals[-1]))
        signals[-1].retain_grad()
    signals[-1].backward(torch.randn_like(signals[-1]))

    log2_variance = [signal.var(correction=0).log2().item() for signal in signals]
    gradients = [signal.grad for signal in signals]
    log2_gradient = [g.square().mean().log2().item() for g in gradients if g is not None]
    for block_index in range(num_blocks + 1):
        yield Row("log2_variance", log2_variance[block_index], "bit", step=block_index)
        yield Row("log2_square_gradient", log2_gradient[block_index], "bit", step=block_index)
    forward = (log2_variance[-1] - log2_variance[0]) / num_blocks
    backward = (log2_gradient[0] - log2_gradient[-1]) / num_blocks
    yield Row("variance_growth", forward, "bit per block")
    yield Row("gradient_growth", backward, "bit per block")


def step0(
    run: Run, network: Literal["residual_mlp", "conv_resnet"], num_blocks: int, width: int
) -> Iterator[Row]:
    """Identities of a Fixup net before its first step, all of them exact.

    The logits are 0, so the loss is ln C; the classifier's weights are 0, so that no gradient
    reaches a parameter below them, and only the classifier learns in the first step.
    """
    images_NCHW = torch.randn(16, 1, 28, 28, device=run.device, dtype=torch.float64)
    labels_N = torch.randint(NUM_CLASSES, (16,), device=run.device)
    net: ResidualMLP | ConvResNet
    match network:
        case "residual_mlp":
            net = ResidualMLP("fixup", num_blocks, width)
        case "conv_resnet":
            net = ConvResNet("fixup", 2 * num_blocks + 2, width, in_channels=1)
        case _:
            raise ValueError(f"network: got {network!r}, expected 'residual_mlp' or 'conv_resnet'")
    net.to(images_NCHW)
    logits_NK = net(images_NCHW)
    loss = cross_entropy(logits_NK, labels_N)
    loss.backward()

    own = {id(parameter) for parameter in net.classifier.parameters()}
    below = [p.grad for p in net.parameters() if id(p) not in own]
    reached = max(0.0 if g is None else g.abs().max().item() for g in below)
    assert net.classifier.weight.grad is not None
    yield Row("largest_logit", logits_NK.abs().max().item(), "logit")
    yield Row("loss_error", abs(loss.item() - math.log(NUM_CLASSES)), "nats")
    yield Row("largest_gradient_below_classifier", reached, "nats per unit")
    yield Row("classifier_gradient_norm", net.classifier.weight.grad.norm().item(), "nats per unit")


def update_size(
    run: Run,
    method: Method,
    num_blocks: int,
    width: int,
    batch_size: int,
    lr: float,
    num_steps: int,
) -> Iterator[Row]:
    """How far each of the first steps of plain SGD moves the logits, on random data.

    logit_change at step t is the mean over the examples of ||f_t(x) - f_(t-1)(x)||. A step after
    which the logits are not finite has no such row; the row `overflowed` (0 or 1) tells of it.
    The first step moves only the classifier of a net that starts at zero, the second the last
    layers of the branches as well: second_logit_change, where depth first shows.

    Source: section 3 of the paper, which asks for a change of order lr, whatever the depth.
    """
    x_NF = torch.randn(batch_size, width, device=run.device, dtype=torch.float64)
    labels_N = torch.randint(NUM_CLASSES, (batch_size,), device=run.device)
    net = ResidualMLP(method, num_blocks, width, in_features=width).to(x_NF)
    optimiser = torch.optim.SGD(parameter_groups(net, lr), lr=lr, fused=True)
    overflowed = False
    for step, change in enumerate(_logit_changes(net, optimiser, x_NF, labels_N, num_steps), 1):
        if not math.isfinite(change):
            overflowed = True
            break
        yield Row("logit_change", change, "logit", step=step)
        if step == 2:
            yield Row("second_logit_change", change, "logit", step=step)
    yield Row("overflowed", float(overflowed), "flag")


def _logit_changes(
    net: nn.Module,
    optimiser: torch.optim.Optimizer,
    x_NF: torch.Tensor,
    labels_N: torch.Tensor,
    num_steps: int,
) -> Iterator[float]:
    logits_NK = net(x_NF)
    for _ in range(num_steps):
        before_NK = logits_NK.detach()
        optimiser.zero_grad()
        cross_entropy(logits_NK, labels_N).backward()
        optimiser.step()
        logits_NK = net(x_NF)
        yield (logits_NK.detach() - before_NK).norm(dim=1).mean().item()
