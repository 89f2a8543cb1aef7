"""The trainings of the paper, with all arms treated alike.

Shapes: images_NCHW, z_NU (test images, units of a layer), percentiles_3U (15th, 50th and 85th).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from papers.batchnorm.inception import small_inception
from papers.batchnorm.method import Method
from papers.batchnorm.model import SigmoidMLP
from shared.training.classifier import Classifier

PERCENTILES = (15, 50, 85)
TYPICAL_UNIT = 0  # any: the units of a layer are drawn alike


class SGDClassifier(Classifier):
    """A network trained with SGD and momentum, the optimiser of section 4.2.

    Args:
        net: images to logits.
        lr: learning rate at the start.
        lr_decay: the learning rate falls exponentially, by this factor over the training; 1: not.
        weight_decay: of all parameters.
        target_error_percent: see `Classifier`.
    """

    def __init__(
        self,
        net: nn.Module,
        *,
        lr: float,
        momentum: float,
        weight_decay: float = 0.0,
        lr_decay: float = 1.0,
        target_error_percent: float | None = None,
    ) -> None:
        super().__init__(target_error_percent=target_error_percent)
        if not 0 < lr_decay <= 1:
            raise ValueError(f"lr_decay: got {lr_decay}, expected a factor in (0, 1], 1 = constant")
        self.net = net
        self.lr = lr
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.lr_decay = lr_decay

    def configure_optimizers(self) -> Any:
        optimiser = torch.optim.SGD(
            self.net.parameters(),
            lr=self.lr,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            fused=True,  # one call for all parameters: a step of these networks is short
        )
        if self.lr_decay == 1:
            return optimiser
        gamma = self.lr_decay ** (1 / self.trainer.estimated_stepping_batches)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimiser, gamma)
        return {
            "optimizer": optimiser,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }


class BinaryMLP(SGDClassifier):
    """Section 4.1: fully connected sigmoid layers on binary images.

    At each evaluation it follows the inputs of the last hidden layer's sigmoids over the first
    batch of test images, the same ones each time. Rows (split test): preactivation_p15, _p50 and
    _p85 of one unit as in Figure 1b,c, and at the end preactivation_instability, see `drift`.

    Args:
        num_hidden, width, init_std: see `SigmoidMLP`.
        in_features: pixels of an image.
    """

    net: SigmoidMLP
    percentiles: torch.Tensor
    travelled: torch.Tensor
    num_intervals: torch.Tensor

    def __init__(
        self,
        method: Method,
        lr: float,
        init_std: float | None,
        num_hidden: int = 3,
        width: int = 100,
        in_features: int = 784,
        momentum: float = 0.9,
        target_error_percent: float | None = None,
    ) -> None:
        super().__init__(
            SigmoidMLP(method, num_hidden, width, in_features, init_std),
            lr=lr,
            momentum=momentum,
            target_error_percent=target_error_percent,
        )
        # Buffers, so that a checkpoint holds them.
        self.register_buffer("percentiles", torch.full((3, width), torch.nan))
        self.register_buffer("travelled", torch.zeros(3, width))
        self.register_buffer("num_intervals", torch.zeros((), dtype=torch.int64))
        self._observed_step = -1

    def setup(self, stage: str) -> None:
        (mean,), (std,) = (self.run.dataset().manifest.mean, self.run.dataset().manifest.std)
        self.net.binarise.see_data(mean, std)

    def validation_step(self, batch: tuple[torch.Tensor, torch.Tensor], batch_index: int) -> None:
        images_NCHW, labels_N = batch
        z_NU = self.net.last_inputs(images_NCHW)
        self._outputs.append((self.net.head(z_NU).float(), labels_N))
        # The end of the training is evaluated twice, as validation and as test.
        if batch_index == 0 and self.global_step > self._observed_step:
            self._observed_step = self.global_step
            self._observe(z_NU)

    def _observe(self, z_NU: torch.Tensor) -> None:
        shares = torch.tensor(PERCENTILES, device=z_NU.device, dtype=z_NU.dtype) / 100
        now_3U = z_NU.quantile(shares, dim=0)
        for name, value in zip(PERCENTILES, now_3U[:, TYPICAL_UNIT], strict=True):
            self.record(f"preactivation_p{name}", value, "1", split="test")
        if not self.percentiles.isnan().all():
            self.travelled += (now_3U - self.percentiles).abs()
            self.num_intervals += 1
        self.percentiles.copy_(now_3U)

    def on_test_epoch_end(self) -> None:
        super().on_test_epoch_end()
        if self.num_intervals > 0:
            drift_U = drift(self.travelled, self.percentiles, int(self.num_intervals))
            self.record("preactivation_instability", drift_U.median(), "1", split="test")


def drift(travelled_3U: torch.Tensor, final_3U: torch.Tensor, num_intervals: int) -> torch.Tensor:
    """How far each unit's distribution moves from one evaluation to the next, in its own widths.

        drift = mean over {15, 50, 85} of sum_t |p(t) - p(t-1)| / num_intervals / width
        width = p85 - p15 at the end of the training

    0 is a distribution that stands still. Moving and spreading both count. The width is that at
    the end, since it is the distribution that the next layer has to cope with in the end, and
    since a layer whose inputs are merely larger is not called less stable for it.

    Args:
        travelled_3U: sum of the absolute changes of each percentile.
        final_3U: the percentiles at the end.
    """
    return travelled_3U.mean(dim=0) / num_intervals / (final_3U[2] - final_3U[0])


class SmallInception(SGDClassifier):
    """Section 4.2 in small: an Inception network at multiples of one learning rate.

    Args:
        lr: the baseline's.
        lr_times: this run's learning rate, in units of `lr`.
        width: see `small_inception`.
    """

    def __init__(
        self,
        method: Method,
        lr: float,
        lr_times: float = 1.0,
        width: int = 8,
        momentum: float = 0.9,
        lr_decay: float = 1.0,
        target_error_percent: float | None = None,
    ) -> None:
        super().__init__(
            small_inception(method, width),
            lr=lr * lr_times,
            momentum=momentum,
            lr_decay=lr_decay,
            target_error_percent=target_error_percent,
        )
