"""What is measured beside the trainings: identities, jumps, trajectories, and the time of a step.

All but the time in float64. Shapes: images_NCHW in [-1, 1], noise_NZ, one number a sample _N.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from papers.gran.method import (
    METHODS,
    Method,
    score,
    score_for_generator,
    slope_in_piece,
    slopes,
)
from papers.gran.model import ACTIVATIONS, Activation
from papers.gran.module import GranGAN
from shared.records.metrics import Row
from shared.training.adversarial import frozen
from shared.training.images import padded
from shared.training.losses import LossName
from shared.training.run_context import Run
from shared.training.timing import in_turns, median_ratio

Weights = Literal["random", "trained"]
Adams = tuple[torch.optim.Adam, torch.optim.Adam]


def identities(
    run: Run, weights: Weights, width: int, steps: int, num_images: int
) -> Iterator[Row]:
    """The slope of the score by autograd, against its closed form in a linear piece.

    The critic has random weights, or those after `steps` steps of a GAN with GraN. Half of the
    images are real, half are its fakes. eps is 0.01, 1 and 100 times the median of w^2, which
    covers both ends of GraN; K is 3. For each activation the largest relative error over all images
    and all eps:

    gran_error_ACTIVATION, gn_error_ACTIVATION: of the slope, through the gradient of the gradient.
    generator_error_ACTIVATION: of the gradient by the images that a generator's step uses.
    """
    for activation in ACTIVATIONS:
        module, images_NCHW = _critic(run, weights, activation, width, steps, num_images)
        critic = module.critic
        f_N, w_N = critic(images_NCHW).flatten(), slopes(critic, images_NCHW)
        scale = float(w_N.square().median())
        cases: list[tuple[Method, float]] = [("gran", c * scale) for c in (0.01, 1, 100)]
        errors: dict[str, list[float]] = {"gran": [], "gn": [], "generator": []}
        for method, eps in [*cases, ("gn", 0.0)]:
            closed_N = slope_in_piece(method, f_N, w_N, eps=eps, lipschitz=3.0)
            scored = partial(score, method, critic, eps=eps, lipschitz=3.0)
            short = partial(score_for_generator, method, critic, eps=eps, lipschitz=3.0)
            errors[method].append(_largest(slopes(scored, images_NCHW), closed_N))
            gradients = [_gradient(module, images_NCHW, each) for each in (short, scored)]
            errors["generator"].append(_largest(*gradients))
        for name, values in errors.items():
            yield Row(f"{name}_error_{activation}", max(values), "1")


def _gradient(module: GranGAN, images_NCHW: Tensor, scored: Callable[[Tensor], Tensor]) -> Tensor:
    """Of a loss that weighs the samples differently: a shortcut for plain means would not pass."""
    x = images_NCHW.clone().requires_grad_()
    score_N = scored(x)
    weights_N = torch.linspace(-1, 2, len(x), dtype=x.dtype)
    loss = (weights_N * score_N).sum() + module.loss.generator(score_N)
    (grad,) = torch.autograd.grad(loss, x)
    return grad


def _largest(x: Tensor, reference: Tensor) -> float:
    """The largest relative error of any sample; where both are 0 there is none."""
    x, reference = x.reshape(len(x), -1), reference.reshape(len(x), -1)
    size_N = reference.norm(dim=1)
    error_N = (x - reference).norm(dim=1)
    return float(torch.where(error_N > 0, error_N / size_N, 0.0).max())


def jumps(
    run: Run, weights: Weights, width: int, steps: int, num_images: int, eps: Sequence[float]
) -> Iterator[Row]:
    """How steep GraN's score is between two points: the bound holds in a piece, not over its edge.

    From each real image a line goes to a fake; on it lie pairs of points at a distance h, over all
    pixels, and random places. |g(y) - g(x)| / h, K = 1, LeakyReLU, per h = 10^-step and
    for each eps over the median of w^2:

    pair_slope_max_EPS: the largest; a K-Lipschitz score has at most 1.
    pairs_above_percent_EPS: how many pairs are above 1.
    inverse_slope: 1 over the largest slope; below 1 a pair contradicts the bound on the whole.
    """
    module, images_NCHW = _critic(run, weights, "leaky_relu", width, steps, num_images)
    real_NCHW, fake_NCHW = images_NCHW.chunk(2)
    scale = float(slopes(module.critic, images_NCHW).square().median())
    direction = fake_NCHW - real_NCHW
    lengths = direction.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    steepest = 0.0
    places = torch.rand(20, len(real_NCHW), 1, 1, 1, dtype=torch.float64)
    for index, relative in enumerate(eps):
        scored = partial(score, "gran", module.critic, eps=relative * scale)
        for power in range(5):
            h = 10.0**-power
            found = []
            for place in places:
                x = real_NCHW + place * direction
                y = x + h * direction / lengths
                found.append(((scored(y) - scored(x)).abs() / h).detach())
            slope_N = torch.cat(found)
            above = 100 * (slope_N > 1).double().mean()
            yield Row(f"pair_slope_max_{index}", float(slope_N.max()), "K", step=power)
            yield Row(f"pairs_above_percent_{index}", float(above), "percent", step=power)
            steepest = max(steepest, float(slope_N.max()))
    yield Row("inverse_slope", 1 / steepest, "1 / K")


def _critic(
    run: Run, weights: Weights, activation: Activation, width: int, steps: int, num_images: int
) -> tuple[GranGAN, Tensor]:
    """A GAN in float64 and images, half of them real and half its own fakes."""
    module = GranGAN("gran", width, 1, activation=activation, loss="non_saturating")
    data_NCHW = _real_images(run)
    if weights == "trained":
        play(module, data_NCHW, steps)
    module.double().requires_grad_(False)
    with torch.no_grad():
        fake_NCHW = module.generator(_noise(module, num_images // 2))
    return module, torch.cat([data_NCHW[: num_images // 2].double(), fake_NCHW])


def trajectories(
    run: Run, loss: LossName, width: int, steps: int, batch_size: int
) -> Iterator[Row]:
    """What K and Adam's eps do to a training of GraN: its end, compared with that at K = 1.

    Both networks start from the same weights and see the same images and noises, in float64. At
    K = 0.01, 0.25, 8 and 1000, with Adam's eps at 1e-30, which divides every gradient by its size
    whatever that is; and at 1e-8, the usual one, where K = 1e-6 is one more:

    difference: |theta_K - theta_1| / |theta_1 - theta_0| of all weights of both, with eps 1e-30,
        the largest over the four K.
    eps_difference: the same with eps 1e-8, at K = 10^step.
    """
    images_NCHW = _real_images(run)[: batch_size * steps].double()

    def end(lipschitz: float, adam_eps: float, num_steps: int = steps) -> Tensor:
        torch.manual_seed(run.key.seed)
        module = GranGAN("gran", width, 1, eps=EPS_OF_TRAJECTORIES, lipschitz=lipschitz, loss=loss)
        play(module.double(), images_NCHW, num_steps, batch_size, adam_eps)
        return torch.cat([p.detach().flatten() for p in module.parameters()])

    def differences(factors: Sequence[float], adam_eps: float) -> list[float]:
        reference = end(1.0, adam_eps)
        moved = float((reference - end(1.0, adam_eps, 0)).norm())
        return [float((end(k, adam_eps) - reference).norm()) / moved for k in factors]

    yield Row("difference", max(differences((0.01, 0.25, 8.0, 1000.0), 1e-30)), "of the way")
    powers = (-6, -4, -2, 2)
    for power, value in zip(powers, differences([10.0**p for p in powers], 1e-8), strict=True):
        yield Row("eps_difference", value, "of the way", step=power)


EPS_OF_TRAJECTORIES = 1e-4


def play(
    module: GranGAN,
    images_NCHW: Tensor,
    steps: int,
    batch_size: int = 32,
    adam_eps: float = 1e-8,
) -> None:
    """`steps` steps of both players, as the training makes them; the images in their order."""
    adams = make_adams(module, adam_eps)
    for step in range(steps):
        start = step * batch_size % (len(images_NCHW) - batch_size + 1)
        update(module, adams, images_NCHW[start : start + batch_size])


def make_adams(module: GranGAN, eps: float = 1e-8) -> Adams:
    def adam(net: torch.nn.Module) -> torch.optim.Adam:
        return torch.optim.Adam(net.parameters(), lr=2e-4, betas=module.betas, eps=eps)

    return adam(module.generator), adam(module.critic)


def update(module: GranGAN, adams: Adams, real_NCHW: Tensor) -> None:
    """One step of the critic, then one of the generator."""
    of_generator, of_critic = adams
    with torch.no_grad():
        fake_NCHW = module.generator(_noise(module, len(real_NCHW)))
    _descend(of_critic, module.critic_loss(real_NCHW, fake_NCHW, None))
    with frozen(module.critic):
        fake_NCHW = module.generator(_noise(module, len(real_NCHW)))
        _descend(of_generator, module.generator_loss(fake_NCHW, None))


def _descend(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()


def _noise(module: GranGAN, num: int) -> Tensor:
    """Of the module's type and device; the numbers do not depend on the type."""
    weight = next(module.generator.parameters())
    return torch.randn(num, module.noise_size, dtype=torch.float64).to(weight)


def _real_images(run: Run) -> Tensor:
    """The first test images in a random order, with a black border to 32x32."""
    pixels = torch.from_numpy(run.dataset().array("test_images")[:4096])
    return padded(pixels[torch.randperm(len(pixels))].float() / 127.5 - 1, 32)


def cost(
    run: Run, width: int, batch_size: int, rounds: int, budgets: dict[str, int]
) -> Iterator[Row]:
    """Time of one update of both players, by method, and of one step of the generator by GraN.

    All take turns, so that a machine that slows down slows all; a round gives one ratio, and the
    median over the rounds is recorded. update_ms_METHOD and METHOD_over_sn; METHOD_budget, the time
    of `budgets[METHOD]` updates over that of GraN's; and linear_over_full, the time of a step of
    the generator without a second derivative over that of one that carries it along.
    """
    images_NCHW = torch.rand(batch_size, 1, 32, 32, device=run.device) * 2 - 1
    calls: dict[str, Callable[[], None]] = {}
    for method in METHODS:
        module = GranGAN(method, width, 1, loss="non_saturating").to(run.device)
        calls[method] = partial(update, module, make_adams(module), images_NCHW)
    for kind in ("linear", "full"):
        module = GranGAN("gran", width, 1, loss="non_saturating").to(run.device)
        calls[kind] = partial(_generator_step, module, make_adams(module)[0], kind, batch_size)
    seconds = in_turns(calls, rounds, run.device)

    def ratio(above: str, below: str) -> float:
        return median_ratio(seconds[above], seconds[below])

    for method in METHODS:
        yield Row(f"update_ms_{method}", 1e3 * statistics.median(seconds[method]), "ms")
        yield Row(f"{method}_over_sn", ratio(method, "sn"), "times")
        share = budgets[method] / budgets["gran"]
        yield Row(f"{method}_budget", share * ratio(method, "gran"), "times")
    yield Row("gran_over_gp", ratio("gran", "gp"), "times")
    yield Row("linear_over_full", ratio("linear", "full"), "times")


def _generator_step(
    module: GranGAN, optimiser: torch.optim.Adam, kind: str, batch_size: int
) -> None:
    with frozen(module.critic):
        fake_NCHW = module.generator(_noise(module, batch_size))
        if kind == "linear":
            loss = module.generator_loss(fake_NCHW, None)
        else:
            loss = module.loss.generator(module.score(fake_NCHW, None))
        _descend(optimiser, loss)
