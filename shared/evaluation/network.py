"""Networks that give features: a small classifier of ours, and Inception at full scale.

Shapes: images_NCHW in [-1, 1], features_NF, logits_NK.
"""

from __future__ import annotations

import hashlib
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import relu

from shared.records.base import RecordError


class Network(Protocol):
    """What the measures need of a network."""

    name: str

    def __call__(self, images_NCHW: Tensor) -> tuple[Tensor, Tensor]:
        """Features and logits of images in [-1, 1]."""
        ...


class ImageClassifier(nn.Module):
    """Three strided convolutions and a hidden layer, whose activations are the features.

    Args:
        in_channels: of the images, which are 32x32.
        width: channels of the first convolution, doubled by each of the next two.
        num_features: F.
        num_classes: K.

    Shape: images (N, C, 32, 32) in [-1, 1] -> features (N, F), not negative, and logits (N, K).
    """

    name = "classifier"

    def __init__(
        self, in_channels: int = 1, width: int = 16, num_features: int = 64, num_classes: int = 10
    ) -> None:
        super().__init__()
        sizes = (in_channels, width, 2 * width, 4 * width)
        self.convs = nn.ModuleList(
            nn.Conv2d(c_in, c_out, 4, stride=2, padding=1) for c_in, c_out in pairwise(sizes)
        )
        self.hidden = nn.Linear(4 * width * 4 * 4, num_features)
        self.classify = nn.Linear(num_features, num_classes)

    def forward(self, images_NCHW: Tensor) -> tuple[Tensor, Tensor]:
        x_NCHW = images_NCHW
        for conv in self.convs:
            x_NCHW = relu(conv(x_NCHW))
        features_NF = relu(self.hidden(x_NCHW.flatten(1)))
        return features_NF, self.classify(features_NF)

    @classmethod
    def load(cls, file: Path) -> ImageClassifier:
        """The classifier whose weights a training left in a safetensors file, in eval mode."""
        weights = {
            name.removeprefix("net.network."): tensor for name, tensor in load_file(file).items()
        }
        width, in_channels = weights["convs.0.weight"].shape[:2]
        num_classes, num_features = weights["classify.weight"].shape
        network = cls(in_channels, width, num_features, num_classes)
        network.load_state_dict(weights)
        return network.eval().requires_grad_(False)


class Inception:
    """Inception-v3 of torch-fidelity, the network of published FIDs: 2,048 features.

    Grey images are shown with three equal channels; the network resizes to 299x299 itself, as
    TensorFlow 1 does. torch-fidelity fetches its weights from its release page at first use.

    Raises: RecordError where torch-fidelity is not installed.
    Source: Szegedy, Vanhoucke, Ioffe, Shlens, Wojna (2016), arXiv 1512.00567, with the weights of
        2015-12-05; Obukhov et al. (2020), torch-fidelity.
    """

    name = "Inception"

    def __init__(self, device: torch.device) -> None:
        try:
            from torch_fidelity.feature_extractor_inceptionv3 import FeatureExtractorInceptionV3
        except ImportError:
            raise RecordError(
                "the network `inception` needs the package torch-fidelity, which is not installed. "
                "Install it: pip install torch-fidelity==0.3.0"
            ) from None
        wanted = ["2048", "logits_unbiased"]
        self.network = FeatureExtractorInceptionV3("inception", wanted).to(device).eval()

    def __call__(self, images_NCHW: Tensor) -> tuple[Tensor, Tensor]:
        pixels_NCHW = to_pixels(images_NCHW)
        if pixels_NCHW.shape[1] == 1:
            pixels_NCHW = pixels_NCHW.expand(-1, 3, -1, -1)
        features_NF, logits_NK = self.network(pixels_NCHW)
        return features_NF, logits_NK


def to_pixels(images_NCHW: Tensor) -> Tensor:
    """uint8 pixels 0..255 of images in [-1, 1]; numbers outside are clipped.

    Example:
        >>> to_pixels(torch.tensor([-1.0, 0.0, 1.0, 7.0])).tolist()
        [0, 128, 255, 255]
    """
    return ((images_NCHW + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)


def weights_sha256(network: nn.Module) -> str:
    """The digest of all parameters and buffers, by name."""
    digest = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
