"""Section 4.2: Inception on ImageNet, from a folder of the user's (full scale only)."""

from __future__ import annotations

from papers.batchnorm.inception import Activation, paper_inception
from papers.batchnorm.method import Method
from papers.batchnorm.module import SGDClassifier
from shared.data.imagenet import ImageNet
from shared.training.imagenet import OnImageNet


class ImageNetInception(OnImageNet, SGDClassifier):
    """Inception, BN-Baseline, BN-x5, BN-x30 and the sigmoid networks, as their settings say.

    Args:
        activation, dropout, lrn: see `paper_inception`.
        batch_size, image_size, num_workers: see `ImageNet`.

    Raises:
        RecordError: the folder of images is not there.
    """

    def __init__(
        self,
        method: Method,
        lr: float,
        activation: Activation = "relu",
        dropout: float = 0.4,
        lrn: bool = True,
        weight_decay: float = 2e-4,
        lr_decay: float = 0.01,
        momentum: float = 0.9,
        batch_size: int = 32,
        image_size: int = 224,
        num_workers: int = 8,
        target_error_percent: float | None = None,
    ) -> None:
        images = ImageNet(batch_size, image_size, num_workers, eval_batch_size=256)
        super().__init__(
            paper_inception(method, images.num_classes, activation, dropout, lrn),
            lr=lr,
            momentum=momentum,
            weight_decay=weight_decay,
            lr_decay=lr_decay,
            target_error_percent=target_error_percent,
        )
        self.images = images
