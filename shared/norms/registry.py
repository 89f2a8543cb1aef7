"""Every layer of this package: what it computes and where it comes from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from shared.norms import (
    batch,
    clip,
    gradient,
    group,
    layer,
    modulation,
    pointwise,
    spectral,
    weight,
)


class Entry(NamedTuple):
    """A layer or function, its equation in one line and its source."""

    make: Callable[..., Any]
    equation: str
    source: str


_BATCH = "y = (x - mean) / sqrt(var + eps) * weight + bias, over batch and positions"
_INSTANCE = "y = (x - mean) / sqrt(var + eps) * weight + bias, over the positions of a channel"
_IOFFE = "Ioffe, Szegedy (2015), arXiv 1502.03167"
_ULYANOV = "Ulyanov, Vedaldi, Lempitsky (2016), arXiv 1607.08022"
_BROCK = "Brock, De, Smith (2021), arXiv 2101.08692"

REGISTRY: dict[str, Entry] = {
    "LayerNorm": Entry(
        layer.LayerNorm,
        "y = (x - mean) / sqrt(var + eps) * weight + bias, over a row",
        "Ba, Kiros, Hinton (2016), arXiv 1607.06450",
    ),
    "RMSNorm": Entry(
        layer.RMSNorm,
        "y = x / sqrt(mean(x[:k]^2) + eps) * weight, over a row or its first part",
        "Zhang, Sennrich (2019), arXiv 1910.07467",
    ),
    "BatchNorm1d": Entry(batch.BatchNorm1d, _BATCH, _IOFFE),
    "BatchNorm2d": Entry(batch.BatchNorm2d, _BATCH, _IOFFE),
    "BatchNorm3d": Entry(batch.BatchNorm3d, _BATCH, _IOFFE),
    "SyncBatchNorm": Entry(batch.SyncBatchNorm, f"{_BATCH} of all processes", _IOFFE),
    "GroupNorm": Entry(
        group.GroupNorm,
        "y = (x - mean) / sqrt(var + eps) * weight + bias, over a group's channels and positions",
        "Wu, He (2018), arXiv 1803.08494",
    ),
    "InstanceNorm1d": Entry(group.InstanceNorm1d, _INSTANCE, _ULYANOV),
    "InstanceNorm2d": Entry(group.InstanceNorm2d, _INSTANCE, _ULYANOV),
    "InstanceNorm3d": Entry(group.InstanceNorm3d, _INSTANCE, _ULYANOV),
    "adain": Entry(
        modulation.adain,
        "y = std(style) * instance_norm(content) + mean(style)",
        "Huang, Belongie (2017), arXiv 1703.06868",
    ),
    "ConditionalNorm": Entry(
        modulation.ConditionalNorm,
        "y = norm(x) * weight[class] + bias[class]",
        "Dumoulin, Shlens, Kudlur (2017), arXiv 1610.07629; de Vries et al. (2017), "
        "arXiv 1707.00683",
    ),
    "SPADE": Entry(
        modulation.SPADE,
        "y = norm(x) * (1 + gamma(m)) + beta(m)",
        "Park, Liu, Wang, Zhu (2019), arXiv 1903.07291",
    ),
    "DyT": Entry(
        pointwise.DyT,
        "y = tanh(alpha x) * weight + bias",
        "Zhu, Chen, He, LeCun, Liu (2025), arXiv 2503.10622",
    ),
    "Derf": Entry(
        pointwise.Derf,
        "y = erf(alpha x + s) * weight + bias",
        "Chen, Lu, Zhu, Sun, Liu (2025), arXiv 2512.10938",
    ),
    "ScalarTail": Entry(
        pointwise.ScalarTail,
        "y = relu(x * scale + bias + residual)",
        "Zhang, Dauphin, Ma (2019), arXiv 1901.09321",
    ),
    "standardise_weight": Entry(
        weight.standardise_weight,
        "W' = gain (W - mean) / sqrt(var + eps), over the fan-in",
        "Qiao, Wang, Liu, Shen, Yuille (2019), arXiv 1903.10520",
    ),
    "scaled_standardise_weight": Entry(
        weight.scaled_standardise_weight,
        "W' = gain gamma (W - mean) / sqrt(max(var F, floor)), over the fan-in F",
        _BROCK,
    ),
    "normalise_weight": Entry(
        weight.normalise_weight,
        "W = length * direction / |direction|",
        "Salimans, Kingma (2016), arXiv 1602.07868",
    ),
    "SpectralNorm": Entry(
        spectral.SpectralNorm,
        "W' = W / (u^T W v)",
        "Miyato, Kataoka, Koyama, Yoshida (2018), arXiv 1802.05957",
    ),
    "clip_adaptively_": Entry(
        clip.clip_adaptively_,
        "G_i <- min(1, limit max(|W_i|, eps) / |G_i|) G_i",
        "Brock, De, Smith, Simonyan (2021), arXiv 2102.06171",
    ),
    "gran": Entry(
        gradient.gran,
        "g(x) = K f(x) |grad f| / (|grad f|^2 + eps)",
        "Bhaskara, Aumentado-Armstrong, Jepson, Levinshtein (2022), arXiv 2111.03162",
    ),
    "gradient_norm": Entry(
        gradient.gradient_norm,
        "g(x) = f(x) / (|grad f| + |f|)",
        "Wu, Shuai, Tam, Chiu (2021), arXiv 2109.02235",
    ),
}
