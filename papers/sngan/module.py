"""The trainings of the paper: one generator and one critic, whose method is the arm."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from papers.sngan.method import (
    Method,
    clip_weights,
    layers,
    orthonormal_penalty,
    singular_values,
)
from papers.sngan.model import CNNCritic, CNNGenerator, resnet_critic
from shared.training.adversarial import Adversarial
from shared.training.features import FeatureTraining
from shared.training.gan_resnet import ResNetGenerator

__all__ = ["SETTINGS", "SNGAN", "FeatureTraining"]

PENALTY = 10.0  # lambda of the gradient penalty
CLIP_LIMIT = 0.01
ORTHONORMAL_WEIGHT = 1e-4  # not found in the paper; the weight that Brock et al. (2016) recommend


class Setting(NamedTuple):
    """Hyperparameters of Adam and critic steps for each generator step; a row of Table 1."""

    lr: float
    beta1: float
    beta2: float
    n_dis: int


SettingName = Literal["a", "b", "c", "d", "e", "f", "resnet"]
SETTINGS: dict[SettingName, Setting] = {
    "a": Setting(1e-4, 0.5, 0.9, 5),
    "b": Setting(1e-4, 0.5, 0.999, 1),
    "c": Setting(2e-4, 0.5, 0.999, 1),
    "d": Setting(1e-3, 0.5, 0.9, 5),
    "e": Setting(1e-3, 0.5, 0.999, 5),
    "f": Setting(1e-3, 0.9, 0.999, 5),
    "resnet": Setting(2e-4, 0.0, 0.9, 5),
}


class SNGAN(Adversarial):
    """A GAN whose critic has one of the methods of Table 2.

    Rows beside those of `Adversarial`, at `eval_steps`: for each layer of the critic, counted from
    1, spectral_norm_LAYER, the largest singular value of the weight that it uses, and once
    share_near_one, the share of the layers whose spectral norm is within 0.05 of 1 (split train);
    at the last of them relative_singular_value_LAYER with the index as step (split spectrum), and
    spectrum_breadth, the mean over the layers 1 to 5 of
    sum_i s_i^2 / (s_1^2 min(outputs, inputs)), 1 for equal singular values (split train).

    Args:
        method: see `Method`. `clip` bounds the weights by 0.01; `gan_gp` and `wgan_gp` have a
            gradient penalty of weight 10, `wgan_gp` with the Wasserstein loss in place of `loss`;
            `orthonormal` adds a penalty on the weights.
        setting: a key of `SETTINGS`.
        loss: `non_saturating` or `hinge`.
        network: of Table 3 or of Table 4.
        width: of the critic, see there; the generator's follows from it as in the paper.
        channels: of the images.
        game: see `Adversarial`.

    Raises: ValueError for a method that has no ResNet.
    """

    def __init__(
        self,
        method: Method,
        setting: SettingName,
        width: int,
        channels: int,
        loss: Literal["non_saturating", "hinge"] = "non_saturating",
        network: Literal["cnn", "resnet"] = "cnn",
        **game: Any,
    ) -> None:
        super().__init__(
            loss="wasserstein" if method == "wgan_gp" else loss,
            penalty=PENALTY if method in ("gan_gp", "wgan_gp") else 0.0,
            **SETTINGS[setting]._asdict(),
            **game,
        )
        self.method = method
        self.generator: nn.Module
        self.critic: nn.Module
        if network == "cnn":
            self.generator = CNNGenerator(width, channels, self.noise_size)
            self.critic = CNNCritic(method, width, channels)
        else:
            self.generator = ResNetGenerator(2 * width, channels, self.noise_size)
            self.critic = resnet_critic(method, width, channels)

    def scores(self, real_NCHW: Tensor, fake_NCHW: Tensor, batch: Any) -> tuple[Tensor, Tensor]:
        if self.method == "bn":  # A batch of both would show each sample what the other kind is.
            return self.score(real_NCHW, batch), self.score(fake_NCHW, batch)
        return super().scores(real_NCHW, fake_NCHW, batch)

    def critic_loss(self, real_NCHW: Tensor, fake_NCHW: Tensor, batch: Any) -> Tensor:
        loss = super().critic_loss(real_NCHW, fake_NCHW, batch)
        if self.method == "orthonormal":
            loss = loss + ORTHONORMAL_WEIGHT * orthonormal_penalty(self.critic)
        return loss

    def after_critic_step(self) -> None:
        if self.method == "clip":
            clip_weights(self.critic, CLIP_LIMIT)

    @torch.no_grad()
    def evaluate(self) -> None:
        super().evaluate()
        spectra = [singular_values(layer) for layer in layers(self.critic)]
        if not all(spectrum.isfinite().all() for spectrum in spectra):
            return
        norms = torch.stack([spectrum[0] for spectrum in spectra])
        for index, norm in enumerate(norms, 1):
            self.record(f"spectral_norm_{index}", norm, "1")
        self.record(
            "share_near_one", ((norms - 1).abs() <= 0.05).double().mean(), "share of layers"
        )
        if self.global_step == max(self.eval_steps):
            self._record_spectra(spectra)

    def _record_spectra(self, spectra: list[Tensor]) -> None:
        for index, spectrum in enumerate(spectra, 1):
            for place, value in enumerate(spectrum / spectrum[0], 1):
                name = f"relative_singular_value_{index}"
                self.record(name, value, "of the largest", split="spectrum", step=place)
        breadths = [(s.square().sum() / (s[0].square() * len(s))).item() for s in spectra[:5]]
        self.record("spectrum_breadth", sum(breadths) / len(breadths), "share of the rank")
