"""What is done to the critic: the paper's spectral norm and the methods that it is compared with.

gamma, the learnt scale, is left out of every norm, as in the paper: with it a critic could undo the
bound on its Lipschitz constant.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from shared.norms import BatchNorm2d, GroupNorm, SpectralNorm, normalise_weight
from shared.norms.spectral import as_matrix

Method = Literal["sn", "none", "wn", "clip", "gan_gp", "wgan_gp", "ln", "bn", "orthonormal"]
METHODS: tuple[Method, ...] = get_args(Method)

Layer = nn.Conv2d | nn.Linear


class UnitRows(nn.Module):
    """Parametrisation of weight norm without gamma: each output's weights have the length 1.

    Source: Salimans, Kingma (2016), arXiv 1602.07868, equation 2, with g = 1.
    """

    def forward(self, weight: Tensor) -> Tensor:
        return normalise_weight(weight, weight.new_ones(weight.shape[0]))


def layer_norm(channels: int) -> nn.Module:
    """Layer norm over channels and positions of each sample, without scale and shift."""
    return GroupNorm(1, channels, affine=False)


def batch_norm(channels: int) -> nn.Module:
    """Batch norm without scale and shift."""
    return BatchNorm2d(channels, affine=False)


def norm_of_maps(method: Method) -> Any:
    """The norm after each convolution: channels -> layer. Nothing for the methods on weights."""
    return {"ln": layer_norm, "bn": batch_norm}.get(method, lambda channels: nn.Identity())


def normalise_weights(critic: nn.Module, method: Method) -> None:
    """Spectral norm or weight norm on all layers of a critic, in place."""
    if method == "sn":
        SpectralNorm(critic, warm_up=0)
    if method == "wn":
        for layer in layers(critic):
            parametrize.register_parametrization(layer, "weight", UnitRows())


def layers(net: nn.Module) -> list[Layer]:
    """Convolutions and linear layers in their order."""
    return [module for module in net.modules() if isinstance(module, (nn.Conv2d, nn.Linear))]


@torch.no_grad()
def clip_weights(critic: nn.Module, limit: float) -> None:
    """Each parameter into [-limit, limit].

    Source: Arjovsky, Chintala, Bottou (2017), arXiv 1701.07875, algorithm 1.
    """
    for parameter in critic.parameters():
        parameter.clamp_(-limit, limit)


def orthonormal_penalty(critic: nn.Module) -> Tensor:
    """Sum over the layers of |W W^T - I|_F^2, W of shape (outputs, inputs).

    Source: Brock, Lim, Ritchie, Weston (2016), arXiv 1609.07093.
    Deviates from the source, which writes W^T W for every layer: of a wide matrix that can never be
    I, so here it is the product of the smaller side.
    """
    total = torch.zeros(())
    for layer in layers(critic):
        matrix = as_matrix(layer.weight)
        matrix = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.mT
        eye = torch.eye(matrix.shape[0], dtype=matrix.dtype, device=matrix.device)
        total = total.to(matrix) + (matrix @ matrix.mT - eye).square().sum()
    return total


@torch.no_grad()
def singular_values(layer: nn.Module) -> Tensor:
    """Of the weight that the layer uses (after its norm), largest first, by SVD in float64."""
    weight = layer.weight
    assert isinstance(weight, Tensor)
    return torch.linalg.svdvals(as_matrix(weight).double())
