"""Distances between two sets of features.

Legend: N and M samples, F features. All sums are in float64.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.linalg import qr, svdvals


def frechet_distance(x_NF: Tensor, y_MF: Tensor) -> float:
    """Frechet (inception) distance: of the Gaussians with the means and covariances of the sets.

    FID = |mean_x - mean_y|^2 + tr(S_x) + tr(S_y) - 2 tr((S_x S_y)^(1/2)), S unbiased.

    With S_x = A^T A and S_y = B^T B, where A and B are the centred features over sqrt(N - 1) and
    sqrt(M - 1), the last trace is the nuclear norm of A B^T: no root of a matrix is taken, so
    singular covariances (fewer samples than features) do no harm. A and B are first reduced to
    their triangular factors, which changes no singular value.

    Args:
        x_NF, y_MF: features, 2 samples or more in each set.

    Returns: the distance, in squared units of the features. It falls with the number of samples;
        numbers with other counts or another network cannot be compared.
    Raises: ValueError for other shapes; FloatingPointError for features that are not finite.
    Source: Heusel, Ramsauer, Unterthiner, Nessler, Hochreiter (2017), arXiv 1706.08500, equation 6.
    Deviates from the source in how the trace is computed, not in its value.

    Example:
        >>> import torch
        >>> x = torch.tensor([[0.0], [2.0]])
        >>> round(frechet_distance(x, x + 3), 9)
        9.0
    """
    _check(x_NF, y_MF)
    x_NF, y_MF = x_NF.double(), y_MF.double()
    mean_x, mean_y = x_NF.mean(0), y_MF.mean(0)
    a_NF = (x_NF - mean_x) / (len(x_NF) - 1) ** 0.5
    b_MF = (y_MF - mean_y) / (len(y_MF) - 1) ** 0.5
    cross = svdvals(qr(a_NF, mode="r").R @ qr(b_MF, mode="r").R.mT).sum()
    traces = a_NF.square().sum() + b_MF.square().sum()
    return float((mean_x - mean_y).square().sum() + traces - 2 * cross)


def kernel_distance(x_NF: Tensor, y_MF: Tensor, block: int = 1024) -> float:
    """Kernel (inception) distance: unbiased squared MMD with a cubic kernel.

    KID = mean_{i != j} k(x_i, x_j) + mean_{i != j} k(y_i, y_j) - 2 mean_{i, j} k(x_i, y_j),
    k(a, b) = (a . b / F + 1)^3.

    Args:
        x_NF, y_MF: features, 2 samples or more in each set.
        block: rows of the kernel matrix that are in memory at once.

    Returns: the distance; its expectation does not depend on the number of samples, and it can be
        negative.
    Raises: ValueError for other shapes; FloatingPointError for features that are not finite.
    Source: Binkowski, Sutherland, Arbel, Gretton (2018), arXiv 1801.01401, section 4.
    Deviates from the source, which averages over subsets of 1,000: here all pairs count once.

    Example:
        >>> import torch
        >>> kernel_distance(torch.tensor([[0.0], [0.0]]), torch.tensor([[1.0], [1.0]]))
        7.0
    """
    _check(x_NF, y_MF)
    x_NF, y_MF = x_NF.double(), y_MF.double()
    n, m = len(x_NF), len(y_MF)
    within_x = _kernel_sum(x_NF, x_NF, block) - float(_kernel_of_self(x_NF).sum())
    within_y = _kernel_sum(y_MF, y_MF, block) - float(_kernel_of_self(y_MF).sum())
    between = _kernel_sum(x_NF, y_MF, block)
    return within_x / (n * (n - 1)) + within_y / (m * (m - 1)) - 2 * between / (n * m)


def _kernel_sum(x_NF: Tensor, y_MF: Tensor, block: int) -> float:
    one, share = x_NF.new_ones(1), 1 / x_NF.shape[1]
    return sum(
        float(torch.addmm(one, rows, y_MF.mT, alpha=share).pow_(3).sum())
        for rows in x_NF.split(block)
    )


def _kernel_of_self(x_NF: Tensor) -> Tensor:
    return (x_NF.square().sum(1) / x_NF.shape[1] + 1).pow(3)


def _check(x_NF: Tensor, y_MF: Tensor) -> None:
    if x_NF.dim() != 2 or y_MF.dim() != 2 or x_NF.shape[1] != y_MF.shape[1]:
        raise ValueError(
            f"got features of shapes {tuple(x_NF.shape)} and {tuple(y_MF.shape)}, expected (N, F) "
            "and (M, F) of one network"
        )
    if min(len(x_NF), len(y_MF)) < 2:
        raise ValueError(f"got {len(x_NF)} and {len(y_MF)} samples, expected 2 or more of each")
    check_finite(x_NF, y_MF)


def check_finite(*sets: Tensor) -> None:
    """Raises FloatingPointError where a set of features has one that is not finite."""
    for i, features in enumerate(sets, 1):
        if not features.isfinite().all():
            bad = int((~features.isfinite()).any(1).sum())
            raise FloatingPointError(
                f"got {bad} samples of set {i} with features that are not finite, expected none: "
                "the images or the network's weights are not finite, e.g. of a diverged generator"
            )
