"""The three normalizations as functions of one layer, and the six changes of the paper's Table 1.

Legend: N training cases, D inputs, H units of the layer; weight_HD, x_ND, h_NH.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from shared.norms import BatchNorm1d, LayerNorm, normalise_weight

Normalization = Literal["batchnorm", "weightnorm", "layernorm"]


def normalised_layer(
    kind: Normalization,
    weight_HD: Tensor,
    x_ND: Tensor,
    gain_H: Tensor,
    bias_H: Tensor,
    eps: float = 0.0,
) -> Tensor:
    """What a normalised layer hands to its non-linearity.

    h_ni = gain_i (a_ni - mean) / std + bias_i with a = x W^T, where mean and std are

    - layernorm: those of the units of case n,
    - batchnorm: those of the cases of unit i,
    - weightnorm: 0 and the length of the row w_i.

    Args:
        weight_HD: one row of incoming weights for each unit.
        x_ND: one row for each training case.
        gain_H: of each unit, applied after the normalization.
        bias_H: likewise.
        eps: added to the variance, inside the root; weight norm has none.

    Shape: (N, H). Dtype: that of x.

    Raises:
        ValueError: weight norm with an eps.

    Source: Ba, Kiros, Hinton (2016), arXiv 1607.06450, equations 2 to 4 and section 5.1.

    Example:
        >>> one = torch.ones(2, dtype=torch.float64)
        >>> x_ND = torch.tensor([[1.0, 0.0], [0.0, 5.0]], dtype=torch.float64)
        >>> normalised_layer("layernorm", torch.eye(2).double(), x_ND, one, 0 * one).tolist()
        [[1.0, -1.0], [-1.0, 1.0]]
    """
    if kind == "weightnorm":
        if eps:
            raise ValueError(f"eps: got {eps} with weightnorm, expected 0: it has no eps")
        return x_ND @ normalise_weight(weight_HD, gain_H).T + bias_H
    num_units = len(weight_HD)
    make: dict[str, Callable[..., nn.Module]] = {
        "layernorm": partial(LayerNorm, elementwise_affine=False),
        "batchnorm": partial(BatchNorm1d, affine=False, track_running_stats=False),
    }
    norm = make[kind](num_units, eps=eps)
    return norm(x_ND @ weight_HD.T) * gain_H + bias_H


Layer = tuple[Tensor, Tensor]

FACTOR = 10.0  # of every re-scaling; one unit of a layer has to weigh in its statistics

TABLE_1: dict[str, Callable[[Tensor, Tensor], Layer]] = {
    "matrix_rescale": lambda weight_HD, x_ND: (FACTOR * weight_HD, x_ND),
    "matrix_recentre": lambda weight_HD, x_ND: (weight_HD + torch.randn_like(x_ND[0]), x_ND),
    "vector_rescale": lambda weight_HD, x_ND: (_with_first_row_scaled(weight_HD), x_ND),
    "data_rescale": lambda weight_HD, x_ND: (weight_HD, FACTOR * x_ND),
    "data_recentre": lambda weight_HD, x_ND: (weight_HD, x_ND + torch.randn_like(x_ND[0])),
    "case_rescale": lambda weight_HD, x_ND: (weight_HD, _with_first_row_scaled(x_ND)),
}
"""The columns of Table 1: a change of a layer's weights or of its data.

Re-centring adds the same vector to every row: of the weights (the incoming weights of every unit)
or of the data. `vector_rescale` scales the weights of one unit, `case_rescale` one training case.
"""


def _with_first_row_scaled(rows: Tensor) -> Tensor:
    return torch.cat([FACTOR * rows[:1], rows[1:]])


def relative_change(before_NH: Tensor, after_NH: Tensor) -> float:
    """The largest change of a case's outputs, relative to their length.

    max_n ||after_n - before_n|| / ||before_n||

    Example:
        >>> relative_change(torch.tensor([[3.0, 4.0]]), torch.tensor([[3.0, 6.5]]))
        0.5
    """
    return ((after_NH - before_NH).norm(dim=1) / before_NH.norm(dim=1)).max().item()


def fisher(logits: Callable[[Tensor], Tensor], parameters_P: Tensor) -> Tensor:
    """Fisher's information matrix of a softmax classifier, over the model's own labels.

    F = mean_n J_n^T (diag(p_n) - p_n p_n^T) J_n, with J_n the Jacobian of the logits of case n.

    Args:
        logits: all parameters as one vector -> logits_NK.
        parameters_P: where the matrix is taken.

    Shape: (P, P). Dtype: that of the parameters.

    Source: Ba, Kiros, Hinton (2016), arXiv 1607.06450, section 5.2.1.

    Example:
        >>> at = torch.zeros(1, dtype=torch.float64)
        >>> fisher(lambda w: torch.stack([w, -w], dim=1), at).item()  # p = 1/2, J = (1, -1)
        1.0
    """
    probabilities_NK = logits(parameters_P).softmax(dim=1)
    jacobian_NKP = torch.autograd.functional.jacobian(logits, parameters_P)
    assert isinstance(jacobian_NKP, Tensor)
    outer_NKK = probabilities_NK[:, :, None] * probabilities_NK[:, None, :]
    covariance_NKK = torch.diag_embed(probabilities_NK) - outer_NKK
    return torch.einsum("nkp,nkl,nlq->pq", jacobian_NKP, covariance_NKK, jacobian_NKP) / len(
        probabilities_NK
    )
