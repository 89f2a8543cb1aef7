"""Scores of samples: how sure and how varied a classifier finds them, how well they cover data.

Legend: N fakes, M real samples, F features, K classes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from shared.evaluation.distance import check_finite


def classifier_score(logits_NK: Tensor, splits: int = 1) -> float:
    """The inception score of any classifier: exp of the mean of KL(p(y | x) || p(y)).

    Sure about each sample (sharp p(y | x)) and varied over them (broad p(y)) gives up to K, the
    number of classes; equal samples give 1. It never looks at real samples.

    Args:
        logits_NK: of the samples.
        splits: parts of equal size; the score is the mean of theirs, and falls with their size.

    Raises: ValueError where `splits` does not divide the samples.
    Source: Salimans, Goodfellow, Zaremba, Cheung, Radford, Chen (2016), arXiv 1606.03498,
        section 4; the paper's classifier is Inception on ImageNet, with 10 splits.

    Example:
        >>> round(classifier_score(1000 * torch.eye(4)), 6)
        4.0
    """
    if splits < 1 or len(logits_NK) % splits or not len(logits_NK):
        raise ValueError(f"got {len(logits_NK)} samples, expected a multiple of {splits} splits")
    scores = []
    for part_NK in logits_NK.double().chunk(splits):
        log_p_NK = part_NK.log_softmax(1)
        log_marginal_K = log_p_NK.logsumexp(0) - torch.tensor(len(part_NK)).log()
        divergence_N = (log_p_NK.exp() * (log_p_NK - log_marginal_K)).sum(1)
        scores.append(divergence_N.mean().exp())
    return float(torch.stack(scores).mean())


def precision_recall(
    real_MF: Tensor, fake_NF: Tensor, neighbours: int = 3, block: int = 1024
) -> tuple[float, float]:
    """Shares of fakes that look real (precision) and of real samples that are covered (recall).

    A set's manifold is the union of balls around its samples, each out to the sample's k-th nearest
    neighbour in the set. precision = share of fakes in the real manifold, recall = share of real
    samples in the manifold of the fakes.

    Args:
        real_MF, fake_NF: features, more than `neighbours` of each.
        neighbours: k, 3 in the source.
        block: rows of the distance matrix that are in memory at once.

    Returns: (precision, recall), 0 to 1. Both depend on the numbers of samples.
    Raises: ValueError for too few samples or neighbours; FloatingPointError for features that are
        not finite.
    Source: Kynkäänniemi, Karras, Laine, Lehtinen, Aila (2019), arXiv 1904.06991, equations 1-3.

    Example:
        >>> real = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
        >>> precision_recall(real, torch.tensor([[0.5], [1.5], [90.0], [91.0]]), neighbours=1)
        (0.5, 0.75)
    """
    if neighbours < 1:
        raise ValueError(f"got {neighbours} neighbours, expected 1 or more")
    if min(len(real_MF), len(fake_NF)) <= neighbours:
        raise ValueError(
            f"got {len(real_MF)} real and {len(fake_NF)} fake samples, expected more than "
            f"{neighbours} of each, so that a {neighbours}-th neighbour exists"
        )
    check_finite(real_MF, fake_NF)
    real_MF, fake_NF = real_MF.double(), fake_NF.double()
    precision = _share_inside(fake_NF, real_MF, neighbours, block)
    return precision, _share_inside(real_MF, fake_NF, neighbours, block)


def _share_inside(x_NF: Tensor, manifold_MF: Tensor, neighbours: int, block: int) -> float:
    # The nearest neighbour of a sample in its own set is itself: one more is asked for.
    radius_M = torch.cat(
        [
            _distances(rows, manifold_MF).topk(neighbours + 1, largest=False).values[:, -1]
            for rows in manifold_MF.split(block)
        ]
    )
    inside = sum(
        int((_distances(rows, manifold_MF) <= radius_M).any(1).sum()) for rows in x_NF.split(block)
    )
    return inside / len(x_NF)


def _distances(x_NF: Tensor, y_MF: Tensor) -> Tensor:
    # By products of matrices, ten times as fast; in float64 that leaves 8 digits.
    return torch.cdist(x_NF, y_MF, compute_mode="use_mm_for_euclid_dist")
