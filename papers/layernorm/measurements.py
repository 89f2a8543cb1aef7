"""What holds without training, in float64: Table 1 (ln1), ln3 and ln8.

Legend: N training cases, D inputs, H units, K classes, P parameters; weight_HD, x_ND, x_NCHW.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import torch
from torch import Tensor, nn

from papers.layernorm.method import (
    TABLE_1,
    Normalization,
    fisher,
    normalised_layer,
    relative_change,
)
from papers.layernorm.model import MLP, Norm, RowGRU
from shared.records.metrics import Row
from shared.training.run_context import Run


def invariance(
    run: Run, norm: Normalization, num_cases: int, num_inputs: int, num_units: int, eps: float
) -> Iterator[Row]:
    """One row of Table 1: how far each change moves the outputs of a layer, before its ReLU.

    Row `TRANSFORMATION_change` is `relative_change`: rounding (1e-15) where the norm is invariant,
    about 1 where it is not. Gains and biases are random, so that they cannot hide anything.

    Source: Table 1 of the paper.
    """
    weight_HD = _normal(run, num_units, num_inputs)
    x_ND = _normal(run, num_cases, num_inputs)
    gain_H, bias_H = _normal(run, 2, num_units)
    before_NH = normalised_layer(norm, weight_HD, x_ND, gain_H, bias_H, eps)
    for name, change in TABLE_1.items():
        after_NH = normalised_layer(norm, *change(weight_HD, x_ND), gain_H, bias_H, eps)
        yield Row(f"{name}_change", relative_change(before_NH, after_NH), "1")


def same_computation(
    run: Run, network: Literal["mlp", "row_gru"], norm: Norm, width: int, num_cases: int
) -> Iterator[Row]:
    """Whether a network computes the same in training as at test, and for a case as in a batch.

    train_test_difference: between the logits of one batch in `train()` and in `eval()`.
    other_cases_difference: between the logits of the first case in that batch and in one whose
    other cases are new; other_cases_gradient: the gradient of its logits at the other cases.

    Source: the paper's abstract and section 3.
    """
    net: nn.Module
    match network, norm:
        case "mlp", _:
            net = MLP(norm, [width, width])
        case "row_gru", "none" | "layernorm":
            net = RowGRU(norm, width)
        case _:
            raise ValueError(
                f"got network {network!r} with norm {norm!r}, expected 'mlp', or 'row_gru' with "
                "'layernorm' or 'none'"
            )
    net.to(run.device, torch.float64)
    first_NCHW = _normal(run, 1, 1, 28, 28)
    x_NCHW, other_NCHW = (
        torch.cat([first_NCHW, _normal(run, num_cases - 1, 1, 28, 28)]) for _ in range(2)
    )
    x_NCHW.requires_grad_()
    in_training_NK = net(x_NCHW)
    among_others_K = net(other_NCHW)[0]
    cotangent_K = torch.randn_like(in_training_NK[0])
    (gradient_NCHW,) = torch.autograd.grad(in_training_NK[0] @ cotangent_K, x_NCHW)
    at_test_NK = net.eval()(x_NCHW)
    yield Row("train_test_difference", _largest(in_training_NK - at_test_NK), "logit")
    yield Row("other_cases_difference", _largest(in_training_NK[0] - among_others_K), "logit")
    yield Row("other_cases_gradient", _largest(gradient_NCHW[1:]), "logit per unit")


def effective_learning_rate(
    run: Run, norm: Normalization, num_cases: int, num_inputs: int, num_units: int
) -> Iterator[Row]:
    """What becomes of the geometry of a normalised softmax layer when its weights are doubled.

    The outputs stay. With F Fisher's information of (weights, gains and biases), and d any fixed
    direction in the space of the weights:

    - weight_block_error: |F_ww(2w) / F_ww(w) - 1/2|, the curvature d^T F d for a fixed d;
    - mixed_block_error: |F_wg(2w) / F_wg(w) - 1/2|, of the weights with gains and biases;
    - length_error: |ds(2w) / ds(w) - 1/2|, with ds = sqrt(d^T F d) the length of a fixed step;
    - gradient_error: |G(2w) / G(w) - 1/2|, with G the norm of a loss' gradient;
    - turn_error: |T(2w) / T(w) - 1/4|, with T = G / |w| the angle of a small step of gradient
      descent at the learning rate 1, which is therefore lower in effect.

    Each F_ab is compared by its Frobenius norm, and the largest change of an output is
    output_change. All ratios are of float64 numbers, and `weight_block_ratio` is the first one.

    Source: section 5.2.2 of the paper.
    """
    x_ND = _normal(run, num_cases, num_inputs)
    labels_N = torch.randint(num_units, (num_cases,), device=run.device)
    num_weights = num_units * num_inputs
    direction_P = _normal(run, num_weights)
    weights_P = _normal(run, num_weights)
    gain_bias_P = _normal(run, 2 * num_units)

    def logits(parameters_P: Tensor) -> Tensor:
        weight_P, gain_H, bias_H = parameters_P.split([num_weights, num_units, num_units])
        weight_HD = weight_P.view(num_units, num_inputs)
        return normalised_layer(norm, weight_HD, x_ND, gain_H, bias_H)

    once, twice = (
        _Geometry(logits, torch.cat([scale * weights_P, gain_bias_P]), labels_N, direction_P)
        for scale in (1, 2)
    )
    half, weight_block = 0.5, twice.weight_block / once.weight_block
    yield Row("output_change", relative_change(once.logits_NK, twice.logits_NK), "1")
    yield Row("weight_block_ratio", weight_block, "1")
    yield Row("weight_block_error", abs(weight_block - half), "1")
    yield Row("mixed_block_error", abs(twice.mixed_block / once.mixed_block - half), "1")
    yield Row("length_error", abs(twice.length / once.length - half), "1")
    yield Row("gradient_error", abs(twice.gradient / once.gradient - half), "1")
    yield Row("turn_error", abs(twice.turn / once.turn - half**2), "1")


class _Geometry:
    """Fisher's information and the gradient at one point; see `effective_learning_rate`."""

    def __init__(
        self,
        logits: Callable[[Tensor], Tensor],
        parameters_P: Tensor,
        labels_N: Tensor,
        direction_P: Tensor,
    ) -> None:
        num_weights = len(direction_P)
        point_P = parameters_P.clone().requires_grad_()
        self.logits_NK = logits(point_P)
        loss = nn.functional.cross_entropy(self.logits_NK, labels_N)
        (gradient_P,) = torch.autograd.grad(loss, point_P)
        fisher_PP = fisher(logits, parameters_P)
        weights_PP = fisher_PP[:num_weights, :num_weights]
        self.weight_block = weights_PP.norm().item()
        self.mixed_block = fisher_PP[:num_weights, num_weights:].norm().item()
        self.length = (direction_P @ weights_PP @ direction_P).sqrt().item()
        self.gradient = gradient_P[:num_weights].norm().item()
        self.turn = self.gradient / parameters_P[:num_weights].norm().item()


def _normal(run: Run, *shape: int) -> Tensor:
    return torch.randn(shape, device=run.device, dtype=torch.float64)


def _largest(x: Tensor) -> float:
    return x.abs().max().item()
