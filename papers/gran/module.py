"""The trainings: one generator and one critic, whose normalization is the arm."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from papers.gran.method import Method, score, score_for_generator, slopes
from papers.gran.model import Activation, CNNCritic, CNNGenerator
from shared.norms import SpectralNorm
from shared.training.adversarial import Adversarial
from shared.training.features import FeatureTraining
from shared.training.gan_resnet import ResNetCritic, ResNetGenerator
from shared.training.images import image_loader

__all__ = ["FeatureTraining", "GranGAN"]

PENALTY = 10.0  # lambda of the gradient penalty, of Gulrajani et al. (2017)
TINY = 0.01
"""A derivative of the loss by a score counts as tiny below this; it is at most 1."""
NUM_PROBED = 250


class GranGAN(Adversarial):
    """A GAN whose critic has one of the methods of `papers.gran.method`.

    Rows beside those of `Adversarial`. fid_at_equal_steps: `fid` once more, at the step
    `equal_steps` (split test). And at `eval_steps`, of 250 test images and as many fakes (split
    train):

    network_slope: median of w = |grad f|; far below sqrt(eps) GraN's score is almost 0.
    below_eps_share: share of the images with w^2 < eps.
    score_slope, score_slope_max: median and largest slope of the score over K.
    slope_excess: how far the latter lies above 1, 0 if it does not.
    tiny_gradient_share: share of the scores by which the critic's loss has a derivative below 0.01
        (of a single sample, so that it is at most 1): where it is 1 the critic has nothing left to
        learn from.
    adam_room: log10 of sqrt(v) / eps in the critic's Adam, median over its weights: at 0 and below
        eps is as large as the gradients, and Adam no longer divides by their size.

    Args:
        method: see `papers.gran.method`; `gp` has a penalty of weight 10.
        width: of the critic, see `papers.gran.model`; the ResNet's generator has twice as many.
        channels: of the images.
        eps: of GraN.
        lipschitz: K.
        activation: of the CNN's critic.
        network: `cnn`, or `resnet` at full scale.
        equal_steps: the step at which all arms are compared that were given equal time.
        game: see `Adversarial`.

    Raises: ValueError for numbers that cannot be, or an activation of the ResNet.
    """

    def __init__(
        self,
        method: Method,
        width: int,
        channels: int,
        eps: float = 0.1,
        lipschitz: float = 1.0,
        activation: Activation = "leaky_relu",
        network: Literal["cnn", "resnet"] = "cnn",
        equal_steps: int | None = None,
        **game: Any,
    ) -> None:
        if eps < 0 or lipschitz <= 0:
            raise ValueError(
                f"got eps {eps} and lipschitz {lipschitz}, expected eps of 0 or more and lipschitz "
                "above 0"
            )
        if method == "gp" and lipschitz != 1:
            raise ValueError(f"got lipschitz {lipschitz} for gp, whose penalty is about slope 1")
        super().__init__(penalty=PENALTY if method == "gp" else 0.0, **game)
        self.method, self.eps, self.lipschitz = method, eps, lipschitz
        self.equal_steps = equal_steps
        self.generator: nn.Module
        self.critic: nn.Module
        if network == "cnn":
            self.generator = CNNGenerator(width, channels, self.noise_size)
            self.critic = CNNCritic(width, channels, activation)
        elif activation == "leaky_relu":  # Not asked for: the ResNet has ReLUs.
            self.generator = ResNetGenerator(2 * width, channels, self.noise_size)
            self.critic = ResNetCritic(width, channels)
        else:
            raise ValueError(f"activation: got {activation!r} for the ResNet, expected none")
        if method == "sn":
            SpectralNorm(self.critic, warm_up=0)

    def score(self, images_NCHW: Tensor, batch: Any) -> Tensor:
        constants = {"eps": self.eps, "lipschitz": self.lipschitz}
        return score(self.method, self.critic, images_NCHW, **constants)

    def generator_loss(self, fake_NCHW: Tensor, batch: Any) -> Tensor:
        """The critic is differentiated once, not twice: see `score_for_generator`."""
        constants = {"eps": self.eps, "lipschitz": self.lipschitz}
        scores_N = score_for_generator(self.method, self.critic, fake_NCHW, **constants)
        return self.loss.generator(scores_N)

    def record(self, metric: str, value: float | Tensor, unit: str, **where: Any) -> None:
        super().record(metric, value, unit, **where)
        if metric == "fid" and self.global_step == self.equal_steps:
            super().record("fid_at_equal_steps", value, unit, **where)

    def evaluate(self) -> None:
        super().evaluate()
        was_training = self.critic.training
        self.critic.eval()  # Spectral norm's iteration moves in training only.
        self._record_slopes()
        self.critic.train(was_training)

    def _record_slopes(self) -> None:
        with torch.no_grad(), self.sampler() as sample:
            fake_NCHW = sample(self.fixed_noise(NUM_PROBED, seed=0))
        real_NCHW = self.real(next(iter(image_loader(self.run, train=False))))[:NUM_PROBED]
        images_NCHW = torch.cat([real_NCHW.to(fake_NCHW), fake_NCHW])
        network_N = slopes(self.critic, images_NCHW)
        self.record("network_slope", network_N.median(), "score / pixel range")
        below = (network_N.square() < self.eps).double().mean()
        self.record("below_eps_share", below, "share of images")
        score_N = slopes(lambda x: self.score(x, None), images_NCHW) / self.lipschitz
        self.record("score_slope", score_N.median(), "K")
        self.record("score_slope_max", score_N.max(), "K")
        self.record("slope_excess", (score_N.max() - 1).clamp_min(0), "K")
        tiny = tiny_gradient_share(self, images_NCHW[: len(real_NCHW)], fake_NCHW)
        self.record("tiny_gradient_share", tiny, "share of scores")
        if self.global_step:
            self.record("adam_room", self._adam_room(), "decades")

    def _adam_room(self) -> Tensor:
        optimisers: Any = self.optimizers(use_pl_optimizer=False)
        adam = optimisers[1]
        sizes = [
            (state["exp_avg_sq"] / (1 - self.betas[1] ** float(state["step"]))).sqrt().flatten()
            for state in adam.state.values()
        ]
        return (torch.cat(sizes).median() / adam.defaults["eps"]).clamp_min(1e-30).log10()


def tiny_gradient_share(module: GranGAN, real_NCHW: Tensor, fake_NCHW: Tensor) -> Tensor:
    """Share of the scores with |d loss of the sample / d score| below `TINY`."""
    scores = [s.detach().requires_grad_() for s in module.scores(real_NCHW, fake_NCHW, None)]
    with torch.enable_grad():
        derivatives = torch.autograd.grad(module.loss.critic(*scores), scores)
    # The loss is a mean over the samples of each kind.
    each_N = torch.cat([d * len(d) for d in derivatives]).abs()
    return (each_N < TINY).double().mean()
