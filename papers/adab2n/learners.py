"""ER-ACE and DER++: how a step learns from the stream and from the replay buffer.

Both are written for a function `forward` that takes batches and gives their logits: all in one
forward pass (AdaB2N, and batch norm made equal to it) or each in its own (as the paper's baselines
run). A batch is (pixels_NCHW uint8, places_N), its classes named by their place in the stream.

Legend: N images, K classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss

from shared.data.reservoir import Reservoir

Forward = Callable[..., list[Tensor]]


class Step(NamedTuple):
    """What a step learns from. The logits (N, K) are of the new images alone."""

    loss: Tensor
    logits: Tensor
    replayed: bool


def seen_classes_only(logits_NK: Tensor, places_N: Tensor, latest: int) -> Tensor:
    """ER-ACE's logits of new images: without the classes of earlier batches that are not here.

    Those are never pushed down by new images. Kept are the classes of this batch and, until the
    last class of all was seen, the latest class that was seen and those that are still to come, as
    in the public code.

    Args:
        latest: the highest class of all batches so far, this one included.
    """
    places_K = torch.arange(logits_NK.shape[1], device=logits_NK.device)
    kept_K = (places_K >= latest) & (latest < len(places_K) - 1)
    kept_K[places_N] = True
    return logits_NK.masked_fill(~kept_K, torch.finfo(logits_NK.dtype).min)


class ERACE:
    """Cross-entropy of new images among their own classes, plus that of replayed ones among all.

    As in the public code, replay begins with the second task.

    Source: Caccia et al. (2022), arXiv 2104.05025, as the public code of AdaB2N has it.
    """

    def __call__(
        self,
        forward: Forward,
        batch: tuple[Tensor, Tensor],
        buffer: Reservoir,
        replay_size: int,
        task: int,
        latest: int,
    ) -> Step:
        places_N = batch[1]
        if task == 0 or not len(buffer):
            (logits_NK,) = forward(batch)
            return Step(cross_entropy(logits_NK, places_N), logits_NK, replayed=False)
        old_pixels, old_places_N, _ = buffer.sample(replay_size)
        logits_NK, old_logits_NK = forward(batch, (old_pixels, old_places_N))
        loss = cross_entropy(seen_classes_only(logits_NK, places_N, latest), places_N)
        loss = loss + cross_entropy(old_logits_NK, old_places_N)
        return Step(loss, logits_NK, replayed=True)


class DERPP:
    """Cross-entropy, plus alpha times the distance to stored logits, plus beta times replay.

    Args:
        alpha: of the squared distance of logits now to those when the image was new.
        beta: of the cross-entropy of a second batch of replayed images.

    Source: Buzzega et al. (2020), arXiv 2004.07211.
    """

    def __init__(self, alpha: float, beta: float) -> None:
        self.alpha = alpha
        self.beta = beta

    def __call__(
        self,
        forward: Forward,
        batch: tuple[Tensor, Tensor],
        buffer: Reservoir,
        replay_size: int,
        task: int,
        latest: int,
    ) -> Step:
        places_N = batch[1]
        if not len(buffer):
            (logits_NK,) = forward(batch)
            return Step(cross_entropy(logits_NK, places_N), logits_NK, replayed=False)
        first_pixels, first_places_N, stored_NK = buffer.sample(replay_size)
        second_pixels, second_places_N, _ = buffer.sample(replay_size)
        logits_NK, first_NK, second_NK = forward(
            batch, (first_pixels, first_places_N), (second_pixels, second_places_N)
        )
        loss = cross_entropy(logits_NK, places_N)
        loss = loss + self.alpha * mse_loss(first_NK, stored_NK)
        loss = loss + self.beta * cross_entropy(second_NK, second_places_N)
        return Step(loss, logits_NK, replayed=True)
