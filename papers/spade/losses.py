"""What the generator lowers beside the adversarial loss: feature matching and perceptual loss.

Shapes: images_NCHW in [-1, 1] with three channels.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import l1_loss

from shared.records.base import RecordError, sha256_of

VGG_VARIABLE = "RENORM_VGG19"
VGG_SHA256 = "dcbb9e9d"  # torchvision names the file by the start of its digest


def feature_matching(fake: list[list[Tensor]], real: list[list[Tensor]]) -> Tensor:
    """Sum over the critic's layers, scores excluded, of mean |f(fake) - f(real)|; mean over scales.

    Args:
        fake, real: what `PatchCritic` gives; the real activations are constants.

    Source: Wang, Liu, Zhu, Tao, Kautz, Catanzaro (2018), arXiv 1711.11585, equation 4.
    """
    distances = [
        l1_loss(x, y.detach())
        for fakes, reals in zip(fake, real, strict=True)
        for x, y in zip(fakes[:-1], reals[:-1], strict=True)
    ]
    return torch.stack(distances).sum() / len(fake)


class PerceptualLoss(nn.Module):
    """sum_i w_i mean |F_i(fake) - F_i(real)|, F_i the activations relu1_1 .. relu5_1 of VGG-19.

    w = 1/32, 1/16, 1/8, 1/4, 1. Images are standardised as torchvision's weights expect.

    Args:
        file: torchvision's weights of VGG-19; None: the file that RENORM_VGG19 names.

    Raises: RecordError where the file is not there, or is another one.
    Source: Johnson, Alahi, Fei-Fei (2016), arXiv 1603.08155; layers and weights as in Wang et al.
        (2018), arXiv 1711.11585.
    """

    WEIGHTS = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1.0)
    ENDS = (2, 7, 12, 21, 30)  # of torchvision's `features`: one past the ReLU of each block

    mean: Tensor
    std: Tensor

    def __init__(self, file: Path | None = None) -> None:
        super().__init__()
        weights = _weights(file)
        from torchvision.models.vgg import cfgs, make_layers

        layers = make_layers(cfgs["E"])
        layers.load_state_dict(weights)
        for layer in layers:
            if isinstance(layer, nn.ReLU):
                layer.inplace = False
        starts = (0, *self.ENDS[:-1])
        self.slices = nn.ModuleList(
            layers[a:b] for a, b in zip(starts, self.ENDS, strict=True)
        ).requires_grad_(False)
        for name, values in (("mean", (0.485, 0.456, 0.406)), ("std", (0.229, 0.224, 0.225))):
            self.register_buffer(name, torch.tensor(values).view(1, 3, 1, 1))

    def forward(self, fake_NCHW: Tensor, real_NCHW: Tensor) -> Tensor:
        x, y = (((image + 1) / 2 - self.mean) / self.std for image in (fake_NCHW, real_NCHW))
        loss = fake_NCHW.new_zeros(())
        for weight, part in zip(self.WEIGHTS, self.slices, strict=True):
            x, y = part(x), part(y).detach()
            loss = loss + weight * l1_loss(x, y)
        return loss


def _weights(file: Path | None) -> dict[str, Tensor]:
    named = os.environ.get(VGG_VARIABLE, "")
    file = file or Path(named)
    if not file.is_file():
        raise RecordError(
            f"the perceptual loss needs VGG-19: got {VGG_VARIABLE}={named!r} and no such file. "
            "Download https://download.pytorch.org/models/vgg19-dcbb9e9d.pth and set "
            f"{VGG_VARIABLE} to its path."
        )
    digest = sha256_of(file)
    if not digest.startswith(VGG_SHA256):
        raise RecordError(
            f"{file}: got sha256 {digest[:8]}…, expected {VGG_SHA256}…: download "
            "https://download.pytorch.org/models/vgg19-dcbb9e9d.pth again"
        )
    # Tensors only: nothing else is unpickled.
    weights: dict[str, Tensor] = torch.load(file, map_location="cpu", weights_only=True)
    start = "features."  # the convolutions; the classifier is not needed
    return {name.removeprefix(start): w for name, w in weights.items() if name.startswith(start)}
