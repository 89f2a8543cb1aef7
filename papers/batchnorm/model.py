"""The network of section 4.1: fully connected layers with sigmoids, on binary images.

Shapes: images_NCHW (standardised), x_NF (examples, features), logits_NK (examples, classes).
"""

from __future__ import annotations

import torch
from torch import nn

from papers.batchnorm.method import Method, dense

NUM_CLASSES = 10


class Binarise(nn.Module):
    """1 where a pixel is brighter than half, else 0, as a vector for each image.

    The loader standardises the images, so that half of the brightness lies at
    (0.5 - mean) / std, which `see_data` sets before the first batch.
    """

    threshold: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("threshold", torch.zeros(()))

    def see_data(self, mean: float, std: float) -> None:
        """Mean and standard deviation of the pixels, on the scale 0..1."""
        self.threshold.fill_((0.5 - mean) / std)

    def forward(self, images_NCHW: torch.Tensor) -> torch.Tensor:
        return (images_NCHW.flatten(1) > self.threshold).to(images_NCHW.dtype)


class SigmoidMLP(nn.Module):
    """Binary pixels -> [dense -> (BN) -> sigmoid] x num_hidden -> linear.

    `body` ends with the inputs of the last layer of sigmoids, which Figure 1b,c follows; `head`
    is the rest. BN stands before the non-linearity, and the weights are Gaussian with `init_std`.

    Args:
        num_hidden: hidden layers.
        width: units of each.
        in_features: pixels of an image.
        init_std: standard deviation of all weights; None: 1/sqrt(fan-in) of each layer.

    Source: section 4.1, which calls the weights "small random Gaussian values".
    """

    def __init__(
        self,
        method: Method,
        num_hidden: int = 3,
        width: int = 100,
        in_features: int = 784,
        init_std: float | None = 0.1,
    ) -> None:
        super().__init__()
        self.binarise = Binarise()
        layers: list[nn.Module] = []
        for index in range(num_hidden):
            if index > 0:
                layers.append(nn.Sigmoid())
            layers += dense(method, width if index else in_features, width)
        self.body = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Sigmoid(), nn.Linear(width, NUM_CLASSES))
        for module in self.modules():
            if isinstance(module, nn.Linear):
                std = module.in_features**-0.5 if init_std is None else init_std
                nn.init.normal_(module.weight, std=std)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def last_inputs(self, images_NCHW: torch.Tensor) -> torch.Tensor:
        """z_NU: the inputs of the last hidden layer's sigmoids."""
        return self.body(self.binarise(images_NCHW))

    def forward(self, images_NCHW: torch.Tensor) -> torch.Tensor:
        return self.head(self.last_inputs(images_NCHW))
