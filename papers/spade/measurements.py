"""What holds of SPADE without a training: identities in float64, each with its control.

Legend: N samples, C channels, K labels; map_NKHW one-hot.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from papers.spade.method import CLADE, Base, base_norm, table_of
from shared.norms import SPADE, ConditionalNorm
from shared.records.metrics import Row
from shared.training.run_context import Run

SIDE, CHANNELS, LABELS, HIDDEN = 16, 12, 11, 8
BORDER = 2  # pixels that feel the padding of two 3x3 convolutions


def single_labels(
    run: Run, norm: Base, padding: Literal["zeros", "reflect"], spade: bool = False
) -> Iterator[Row]:
    """A norm after a convolution without bias of maps with one label each, all labels in a batch.

    output_rms: root mean square of what comes out; 0 where the label was washed out, else about 1,
        the norm's own scale.
    label_difference: root mean square of the differences between outputs of different labels.

    Args:
        norm: `instance` or `batch`.
        padding: of the convolution.
        spade: the norm is SPADE's, with the same maps.

    Source: section 3 of the paper.
    """
    map_NKHW = single_label_maps(torch.arange(LABELS))
    conv = nn.Conv2d(LABELS, CHANNELS, 3, padding=1, padding_mode=padding, bias=False).double()
    base = base_norm(norm, CHANNELS)
    features = conv(map_NKHW)
    if spade:
        y = SPADE(base, CHANNELS, LABELS, HIDDEN).double()(features, map_NKHW)
    else:
        y = base(features)
    yield Row("output_rms", _rms(y), "1")
    pairs = torch.combinations(torch.arange(LABELS))
    yield Row("label_difference", _rms(y[pairs[:, 0]] - y[pairs[:, 1]]), "1")


def constant_map(run: Run, padding: Literal["zeros", "replicate"]) -> Iterator[Row]:
    """SPADE on maps with one label each against conditional batch norm with the weights that
    `table_of` gives its labels: the largest difference.

    inside_error: of pixels that are 2 or more from the border; border_error: of the others.

    Source: section 3.1 of the paper, which passes over the border.
    """
    spade = SPADE(base_norm("batch", CHANNELS), CHANNELS, LABELS, HIDDEN).double()
    for conv in (spade.shared, spade.gamma, spade.beta):
        conv.padding_mode = padding
    conditional = ConditionalNorm(base_norm("batch", CHANNELS), LABELS, CHANNELS).double()
    gamma_CK, beta_CK = table_of(spade)
    conditional.weight.data, conditional.bias.data = 1 + gamma_CK.mT, beta_CK.mT
    labels_N = torch.arange(LABELS)
    x = _features()
    error = (spade(x, single_label_maps(labels_N)) - conditional(x, labels_N)).abs().detach()
    inside = error[..., BORDER:-BORDER, BORDER:-BORDER]
    yield Row("inside_error", inside.max().item(), "1")
    error[..., BORDER:-BORDER, BORDER:-BORDER] = 0
    yield Row("border_error", error.max().item(), "1")


def class_table(run: Run, kernel_size: int) -> Iterator[Row]:
    """SPADE against CLADE with the table that `table_of` gives.

    table_error: the largest difference, with random labels at every pixel, which only 1x1 kernels
        do not mix.

    Source: Tan et al. (2021), arXiv 2012.04644.
    """
    base = base_norm("instance", CHANNELS)
    spade = SPADE(base, CHANNELS, LABELS, HIDDEN, kernel_size).double()
    clade = CLADE(base, CHANNELS, LABELS).double()
    clade.gamma.data, clade.beta.data = table_of(spade)
    x = _features()
    labels_NHW = torch.randint(LABELS, (len(x), SIDE, SIDE))
    map_NKHW = one_hot(labels_NHW, LABELS).movedim(3, 1).double()
    error = (spade(x, map_NKHW) - clade(x, map_NKHW)).abs().max()
    yield Row("table_error", error.item(), "1")


def single_label_maps(labels_N: Tensor) -> Tensor:
    """One-hot maps (N, K, H, W), each of one label everywhere."""
    rows_NK = one_hot(labels_N, LABELS).double()
    return rows_NK[..., None, None].expand(-1, -1, SIDE, SIDE)


def _features() -> Tensor:
    return torch.randn(LABELS, CHANNELS, SIDE, SIDE, dtype=torch.float64)


def _rms(x: Any) -> float:
    return float(x.detach().square().mean().sqrt())
