"""Tables 1 and 2: NF-ResNets on ImageNet, from a folder of the user's (full scale only)."""

from __future__ import annotations

from collections.abc import Sequence

from papers.nf_resnet.method import Method
from papers.nf_resnet.module import NFClassifier
from shared.data.imagenet import ImageNet
from shared.training.imagenet import OnImageNet


class ImageNetClassifier(OnImageNet, NFClassifier):
    """A ResNet of the paper's widths, any scheme, with the recipe of the paper's public code.

    Args:
        method, stochastic_depth, lr, agc_limit: see `NFClassifier`.
        depths, widths: see `ResNet`.
        batch_size, image_size, num_workers: see `ImageNet`.

    Raises:
        RecordError: the folder of images is not there.
    """

    def __init__(
        self,
        method: Method,
        depths: Sequence[int],
        widths: Sequence[int],
        stochastic_depth: float,
        batch_size: int = 1024,
        image_size: int = 224,
        num_workers: int = 8,
        lr: float = 0.1,
        agc_limit: float | None = None,
    ) -> None:
        images = ImageNet(batch_size, image_size, num_workers, eval_batch_size=256)
        super().__init__(
            method,
            depths,
            widths,
            in_channels=3,
            num_classes=images.num_classes,
            stem="imagenet",
            stochastic_depth=stochastic_depth,
            lr=lr,
            agc_limit=agc_limit,
        )
        self.images = images

    @property
    def batch_size(self) -> int:
        return self.images.batch_size
