"""Training of a generator against a critic: the base of every adversarial paper.

Shapes: images_NCHW in [-1, 1], noise_NZ standard normal, scores_N without a sigmoid.

A paper's module builds `self.generator` and `self.critic`, and overrides what its method changes:

    noise, generate        what the generator gets and makes; a conditional one reads the batch
    real                   the images of a batch
    score, scores          how the critic is called, once alone and once in a critic step
    critic_loss, generator_loss, after_critic_step     losses, penalties, clipping
    rate                   a schedule of both learning rates, where it is not `decay_from`
    grid, real_grid, evaluate     the pictures and the numbers that are made during training
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from shared.data.loader import ArrayLoader
from shared.evaluation import ImageClassifier, ImageQuality, Inception
from shared.evaluation.network import Network, weights_sha256
from shared.records.base import RecordError, sha256_of
from shared.records.metrics import first_48_bits
from shared.training.images import image_loader, padded, tiled
from shared.training.losses import LOSSES, LossName, gradient_penalty
from shared.training.module import PaperModule

GRID = (4, 6)  # rows and columns of a picture
GRID_SEED, EVALUATION_SEED = 2**31 - 1, 2**31 - 2
"""Of the noise of the grids and of the evaluations: the same for all arms and seeds."""


class Adversarial(PaperModule):
    """n_dis steps of the critic, then one of the generator, each with its own Adam.

    The budget is counted in generator steps: `trainer.max_steps: 1000` makes 1,000 of them and
    1,000 n_dis steps of the critic, and `self.global_step` and the `step` of every row count them
    too. (Lightning counts the steps of the optimisers that it wraps; the critic's is not wrapped.)
    One batch of the loader serves one critic step, and the last of them also the generator step.

    Rows, all with the number of generator steps: critic_loss and generator_loss (split train, mean
    over `log_every_steps` generator steps and the critic step before each; unit `nats` for the
    non-saturating loss, else `score`); at `eval_steps` what `ImageQuality` measures (split test),
    and feature_network_sha256_start, the first 48 bits of the digest of the network's weights.
    Pictures: real.png, and samples-STEP.png at each of `grid_steps`.

    Args:
        loss: `hinge`, `non_saturating` or `wasserstein`.
        lr: alpha of both Adams.
        beta1, beta2: of both Adams.
        critic_lr: alpha of the critic's Adam, where it differs.
        decay_from: share of the training after which both learning rates fall linearly to 0 at its
            end, by epochs where the budget is in epochs; 1 is never.
        n_dis: critic steps for each generator step.
        penalty: weight of the gradient penalty; 0 is none.
        ema_decay: of an average of the generator's weights, which the grids and evaluations then
            use; 0 is none.
        noise_size: Z.
        image_size: side of the images in pixels; smaller images get a black border.
        grid_steps, eval_steps: generator steps after which the grid is saved and `evaluate` called;
            0 is before the first one.
        features: `classifier`, the run that is named `features` under `needs`, or `inception`.
        num_fake, num_real: images that are compared in an evaluation; the first test images.
        score_splits: parts of the classifier score.

    Raises: ValueError for numbers that cannot be.
    """

    automatic_optimization = False
    generator: nn.Module
    critic: nn.Module
    critic_steps: Tensor

    def __init__(
        self,
        *,
        loss: LossName = "hinge",
        lr: float = 2e-4,
        beta1: float = 0.5,
        beta2: float = 0.999,
        critic_lr: float | None = None,
        decay_from: float = 1.0,
        n_dis: int = 1,
        penalty: float = 0.0,
        ema_decay: float = 0.0,
        noise_size: int = 128,
        image_size: int = 32,
        grid_steps: Sequence[int] = (),
        eval_steps: Sequence[int] = (),
        features: Literal["classifier", "inception"] = "classifier",
        num_fake: int = 2000,
        num_real: int = 5000,
        score_splits: int = 1,
    ) -> None:
        super().__init__()
        if n_dis < 1 or not 0 <= ema_decay < 1 or penalty < 0:
            raise ValueError(
                f"got n_dis {n_dis}, ema_decay {ema_decay}, penalty {penalty}; expected n_dis of 1 "
                "or more, ema_decay from 0 to below 1, and a penalty of 0 or more"
            )
        rates = lr, lr if critic_lr is None else critic_lr
        if min(rates) < 0 or not 0 <= beta1 < 1 or not 0 <= beta2 < 1:
            raise ValueError(
                f"got lr {lr}, critic_lr {critic_lr}, beta1 {beta1}, beta2 {beta2}; expected rates "
                "of 0 or more, and betas from 0 to below 1"
            )
        if not 0 <= decay_from <= 1:
            raise ValueError(f"decay_from: got {decay_from}, expected a share from 0 to 1 (never)")
        self.loss, self.loss_unit = LOSSES[loss], "nats" if loss == "non_saturating" else "score"
        self.generator_lr, self.critic_lr = rates
        self.betas, self.decay_from = (beta1, beta2), decay_from
        self.n_dis, self.penalty, self.ema_decay = n_dis, penalty, ema_decay
        self.noise_size, self.image_size = noise_size, image_size
        self.grid_steps, self.eval_steps = frozenset(grid_steps), frozenset(eval_steps)
        self.features, self.num_fake, self.num_real = features, num_fake, num_real
        self.score_splits = score_splits
        self.register_buffer("critic_steps", torch.zeros((), dtype=torch.int64))
        self.average: nn.Module | None = None
        self._quality: ImageQuality | None = None
        self._pictures: dict[str, Tensor] = {}

    # What a paper overrides.

    def real(self, batch: Any) -> Tensor:
        """The real images of a batch."""
        return padded(batch[0], self.image_size)

    def noise(self, num: int, generator: torch.Generator | None = None) -> Tensor:
        """Drawn on the CPU where a random stream is given, so that every device gets the same."""
        if generator is not None:
            return torch.randn(num, self.noise_size, generator=generator).to(self.device)
        return torch.randn(num, self.noise_size, device=self.device)

    def fixed_noise(self, num: int, seed: int = EVALUATION_SEED) -> Tensor:
        """The same for all arms, seeds and steps; `GRID_SEED` is that of the grids."""
        return self.noise(num, torch.Generator().manual_seed(seed))

    def generate(self, noise_NZ: Tensor, batch: Any) -> Tensor:
        """Fakes of a batch in training; a conditional generator reads its condition there."""
        return self.generator(noise_NZ)

    def score(self, images_NCHW: Tensor, batch: Any) -> Tensor:
        """The critic's scores (N,) of images that belong to a batch, once or several times over."""
        return self.critic(images_NCHW).flatten()

    def scores(self, real_NCHW: Tensor, fake_NCHW: Tensor, batch: Any) -> tuple[Tensor, Tensor]:
        """Scores of real images and fakes in a critic step: one forward for both."""
        both_N = self.score(torch.cat([real_NCHW, fake_NCHW]), batch)
        return both_N[: len(real_NCHW)], both_N[len(real_NCHW) :]

    def critic_loss(self, real_NCHW: Tensor, fake_NCHW: Tensor, batch: Any) -> Tensor:
        """The critic's loss, the gradient penalty included."""
        loss = self.loss.critic(*self.scores(real_NCHW, fake_NCHW, batch))
        if self.penalty > 0:
            score = partial(self.score, batch=batch)
            loss = loss + self.penalty * gradient_penalty(score, real_NCHW, fake_NCHW)
        return loss

    def generator_loss(self, fake_NCHW: Tensor, batch: Any) -> Tensor:
        """The generator's loss; the critic's parameters are constants in it."""
        return self.loss.generator(self.score(fake_NCHW, batch))

    def after_critic_step(self) -> None:
        """Called after each critic step, e.g. to clip weights."""

    def rate(self, step: int) -> float:
        """The factor of both learning rates in the generator step `step` (from 0)."""
        if self.decay_from == 1:
            return 1.0
        trainer = self.run.settings.trainer
        assert trainer is not None
        if trainer.max_steps:
            progress = step / trainer.max_steps
        else:
            assert trainer.max_epochs
            progress = self.current_epoch / trainer.max_epochs
        return min(1.0, (1 - progress) / (1 - self.decay_from))

    @torch.no_grad()
    def grid(self) -> Tensor:
        """Fakes (N, C, H, W) of a fixed noise: the same for all arms, seeds and steps."""
        with self.sampler() as sample:
            return sample(self.fixed_noise(GRID[0] * GRID[1], GRID_SEED))

    def real_grid(self) -> Tensor:
        """As many real images, to be shown beside."""
        batch = next(iter(image_loader(self.run, train=False)))
        return self.real(batch)[: GRID[0] * GRID[1]]

    @torch.no_grad()
    def evaluate(self) -> None:
        """Records what `ImageQuality` says of `num_fake` fakes of a fixed noise."""
        quality = self._quality = self._quality or self._make_quality()
        with self.sampler() as sample:
            fakes = torch.cat([sample(n) for n in self.fixed_noise(self.num_fake).split(250)])
        for measured in quality.measure(fakes):
            self.record(*measured, split="test")
        self.record("feature_network_sha256_start", self._digest, "first 48 bits", split="test")

    # How it is trained.

    def configure_model(self) -> None:
        # Before a checkpoint is loaded, which holds the average, too.
        if self.ema_decay and self.average is None:
            self.average = copy.deepcopy(self.generator).requires_grad_(False)

    def configure_optimizers(self) -> Any:
        return tuple(
            torch.optim.Adam(net.parameters(), lr=lr, betas=self.betas)
            for net, lr in [(self.generator, self.generator_lr), (self.critic, self.critic_lr)]
        )

    def train_dataloader(self) -> ArrayLoader:
        return image_loader(self.run, train=True)

    def on_train_start(self) -> None:
        if self.trainer.precision not in ("32-true", "64-true"):
            # The scaler of 16-mixed sees wrapped optimisers only; a penalty or a FID of bfloat16
            # images is another number than the one that the page names.
            raise RecordError(
                f"trainer.precision: got {self.trainer.precision}, expected 32-true or 64-true: "
                "adversarial trainings are defined in one precision."
            )
        if self.critic_steps == 0:
            if self.grid_steps:
                self._save_picture("real", self.real_grid())
            self._show_and_evaluate(0)

    def training_step(self, batch: Any, _: int) -> dict[str, Tensor]:
        self._set_rates()
        loss = self._critic_step(batch)
        self.critic_steps += 1
        if self.critic_steps % self.n_dis == 0:
            generator_loss = self._generator_step(batch)
            step = self.global_step
            self.record_mean("critic_loss", loss, self.loss_unit, step=step)
            self.record_mean("generator_loss", generator_loss, self.loss_unit, step=step)
            # Whichever of the two is not finite ends the run.
            loss = loss + generator_loss
            if step in self.grid_steps | self.eval_steps and loss.isfinite():
                self._show_and_evaluate(step)
        return {"loss": loss}

    def _critic_step(self, batch: Any) -> Tensor:
        optimisers: Any = self.optimizers(use_pl_optimizer=False)
        _, optimiser = optimisers
        real_NCHW = self.real(batch)
        with torch.no_grad():
            fake_NCHW = self.generate(self.noise(len(real_NCHW)), batch)
        loss = self.critic_loss(real_NCHW, fake_NCHW, batch)
        optimiser.zero_grad()
        self.manual_backward(loss)
        optimiser.step()
        self.after_critic_step()
        return loss.detach()

    def _generator_step(self, batch: Any) -> Tensor:
        optimisers: Any = self.optimizers()
        optimiser, _ = optimisers
        with frozen(self.critic):
            fake_NCHW = self.generate(self.noise(len(batch[0])), batch)
            loss = self.generator_loss(fake_NCHW, batch)
            optimiser.zero_grad()
            self.manual_backward(loss)
        optimiser.step()
        self._update_average()
        return loss.detach()

    def _set_rates(self) -> None:
        factor = self.rate(self.global_step)
        optimisers: Any = self.optimizers(use_pl_optimizer=False)
        rates = (self.generator_lr, self.critic_lr)
        for optimiser, lr in zip(optimisers, rates, strict=True):
            for group in optimiser.param_groups:
                group["lr"] = lr * factor

    @torch.no_grad()
    def _update_average(self) -> None:
        if self.average is None:
            return
        for mean, new in zip(self.average.parameters(), self.generator.parameters(), strict=True):
            mean.lerp_(new, 1 - self.ema_decay)
        buffers = zip(self.average.buffers(), self.generator.buffers(), strict=True)
        for buffer, new_buffer in buffers:
            buffer.copy_(new_buffer)

    @contextmanager
    def sampler(self) -> Iterator[nn.Module]:
        """The generator that is shown and measured, in eval mode."""
        sampler = self.generator if self.average is None else self.average
        was_training = sampler.training
        sampler.eval()
        try:
            yield sampler
        finally:
            sampler.train(was_training)

    def _show_and_evaluate(self, step: int) -> None:
        if step in self.grid_steps:
            self._save_picture(f"samples-{step:06d}", self.grid())
        if step in self.eval_steps:
            # A network draws weights when it is made; the training has to go on as if it did not.
            with torch.random.fork_rng(devices=[]):
                self.evaluate()

    def _save_picture(self, name: str, images_NCHW: Tensor) -> None:
        if not images_NCHW.isfinite().all():
            return
        self._pictures[name] = tiled(images_NCHW, columns=GRID[1]).cpu()
        self.run.save_image(name, self._pictures[name].numpy())

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["pictures"] = self._pictures

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        # A resumed run starts with an empty folder.
        self._pictures = checkpoint["pictures"]
        for name, picture in self._pictures.items():
            self.run.save_image(name, picture.numpy())

    def _make_quality(self) -> ImageQuality:
        network: Network
        if self.features == "inception":
            network = Inception(self.device)
            digest = weights_sha256(network.network)
        else:
            file = self.run.artifact("features")
            network = ImageClassifier.load(file).to(self.device)
            digest = sha256_of(file)
        self._digest = first_48_bits(digest)
        real_NCHW = torch.cat([self.real(batch) for batch in image_loader(self.run, train=False)])
        return ImageQuality(network, real_NCHW[: self.num_real], splits=self.score_splits)


@contextmanager
def frozen(net: nn.Module) -> Iterator[None]:
    """A network whose parameters are constants inside, and after it what they were before."""
    trained = [parameter for parameter in net.parameters() if parameter.requires_grad]
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)
