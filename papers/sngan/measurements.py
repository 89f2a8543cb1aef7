"""What can be measured without training a GAN: identities, operator norms, the measures, cost.

Legend: O outputs, F fan-in of a weight as a matrix; images_NCHW in [-1, 1].
"""

from __future__ import annotations

import copy
import math
import statistics
from collections.abc import Callable, Iterator
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, conv_transpose2d
from torch.nn.utils import parametrizations

from papers.sngan.method import Method, layers
from papers.sngan.model import CNNCritic, CNNGenerator
from shared.evaluation import ImageClassifier, frechet_distance
from shared.norms import SpectralNorm
from shared.norms.spectral import as_matrix
from shared.records.metrics import Row
from shared.training.images import padded
from shared.training.losses import LOSSES, gradient_penalty
from shared.training.run_context import Run
from shared.training.timing import in_turns, median_ratio

LayerName = Literal["linear", "conv", "deconv"]
LAYERS: dict[LayerName, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(48, 20), (5, 48)),
    "conv": (lambda: nn.Conv2d(6, 24, 4, stride=2, padding=1), (5, 6, 8, 8)),
    "deconv": (lambda: nn.ConvTranspose2d(24, 6, 4, stride=2, padding=1), (5, 24, 4, 4)),
}


def identities(run: Run, layer: LayerName, iterations: int) -> Iterator[Row]:
    """The layer against its closed forms, in float64, after `iterations` of the power iteration.

    sigma_error: |u^T W v - s_1| / s_1, s_1 by SVD.
    gradient_error: autograd against dL/dW = (G - <G, W> / sigma u v^T) / sigma, G = dL/d(W/sigma),
        relative to its largest entry: u and v are constants, so d sigma / dW = u v^T.
    scale_error: how much the output changes when W becomes 7 W, relative to its largest entry.
    eval_change: how far u and v move in 10 forwards in eval mode.
    torch_error: W / sigma against torch.nn.utils.parametrizations.spectral_norm, relative.

    Source: equations 6-12 and algorithm 1 of the paper.
    """
    make, shape = LAYERS[layer]
    plain: Any = make().double()  # a layer with a weight and a bias
    x = torch.randn(shape, dtype=torch.float64)
    net = copy.deepcopy(plain)
    SpectralNorm(net, iterations, warm_up=0)
    net(x)
    net.eval()
    weight: Any = net.parametrizations["weight"]
    w_OF = as_matrix(weight.original.detach(), weight[0].transposed)
    u, v = weight[0].u.clone(), weight[0].v.clone()
    sigma, exact = u @ w_OF @ v, torch.linalg.svdvals(w_OF)[0]
    yield Row("sigma_error", _relative(sigma, exact), "1")

    for _ in range(10):
        output = net(x)
    moved = torch.cat([weight[0].u - u, weight[0].v - v]).abs().max()
    yield Row("eval_change", moved.item(), "1")

    gradient = torch.randn_like(plain.weight)
    net.weight.backward(gradient)
    g_OF = as_matrix(gradient, weight[0].transposed)
    closed_OF = (g_OF - (g_OF * w_OF).sum() / sigma * torch.outer(u, v)) / sigma
    by_autograd_OF = as_matrix(weight.original.grad, weight[0].transposed)
    yield Row("gradient_error", _relative(by_autograd_OF, closed_OF), "1")

    theirs = parametrizations.spectral_norm(
        copy.deepcopy(plain), n_power_iterations=iterations, dim=1 if layer == "deconv" else 0
    )
    yield Row("torch_error", _relative(theirs.weight, net.weight), "1")

    with torch.no_grad():
        weight.original.mul_(7)
    yield Row("scale_error", _relative(net(x), output), "1")


def _relative(x: Any, reference: Any) -> float:
    """The largest difference over the largest entry of the reference."""
    return float((x - reference).detach().abs().max() / reference.detach().abs().max())


FILTERS: dict[str, Callable[..., Tensor]] = {"constant": torch.ones, "random": torch.randn}


def operator_norms(run: Run, filters: Literal["constant", "random"], size: int) -> Iterator[Row]:
    """Norm of a convolution as an operator on padded maps, over that of its reshaped weight.

    What is divided by is sigma, the norm of the weight as a matrix; what bounds the Lipschitz
    constant is the norm of the operator. A pixel is part of up to ceil(k / s)^2 windows, so the
    operator's norm is at most ceil(k / s) sigma. Rows, for 3x3 of stride 1 and 4x4 of stride 2:
    operator_over_sigma_K, and bound_violation, how far any of them lies above its bound (0 if not).

    Source: our own; the paper concedes a constant factor.
    """
    violation = 0.0
    for kernel, stride in ((3, 1), (4, 2)):
        shape = (8, 8, kernel, kernel)
        weight = FILTERS[filters](shape, dtype=torch.float64)
        sigma = float(torch.linalg.svdvals(weight.flatten(1))[0])
        ratio = operator_norm(weight, stride, size) / sigma
        violation = max(violation, ratio - math.ceil(kernel / stride))
        yield Row(f"operator_over_sigma_{kernel}x{kernel}", ratio, "times")
    yield Row("bound_violation", violation, "times")


def operator_norm(weight: Tensor, stride: int, size: int, iterations: int = 300) -> float:
    """The largest |W * x| / |x| of a convolution with padding 1, by power iteration: from below."""
    x = torch.randn(1, weight.shape[1], size, size, dtype=weight.dtype)
    norm = 0.0
    for _ in range(iterations):
        x = x / x.norm()
        y = conv2d(x, weight, stride=stride, padding=1)
        norm = float(y.norm())
        x = conv_transpose2d(y, weight, stride=stride, padding=1)
    return norm


def measures(run: Run, num_images: int) -> Iterator[Row]:
    """How FID with the features of the classifier behaves on real images.

    fid_halves: of two halves of the test images. fid_noise: of one half against the other with
    noise of a standard deviation of step / 100 added. fid_count: of two disjoint sets of `step`
    images each, which shows the bias by the number of samples.
    """
    network = ImageClassifier.load(run.artifact("features"))
    pixels = torch.from_numpy(run.dataset("fashion_mnist").array("test_images")[:num_images])
    order = torch.randperm(len(pixels))
    images_NCHW = padded(pixels[order].float() / 127.5 - 1, 32)
    half = len(images_NCHW) // 2
    unit = f"FID ({network.name}, {half} real : {half} real)"
    with torch.no_grad():
        real_NF, _ = network(images_NCHW[:half])
        other_NF, _ = network(images_NCHW[half:])
        halves = frechet_distance(real_NF, other_NF)
        yield Row("fid_halves", halves, unit)
        for percent in (0, 5, 10, 20, 40):
            noise = torch.randn_like(images_NCHW[half:]) * percent / 100
            noisy_NF, _ = network((images_NCHW[half:] + noise).clamp(-1, 1))
            distance = frechet_distance(real_NF, noisy_NF)
            yield Row("fid_noise", distance, unit, step=percent)
            yield Row("noise_over_halves", distance / halves, "times", step=percent)
        for count in (100, 250, 500, 1000, 2500, 5000):
            if count <= half:
                distance = frechet_distance(real_NF[:count], other_NF[:count])
                yield Row("fid_count", distance, "FID (classifier, N real : N real)", step=count)


def cost(run: Run, width: int, batch_size: int, rounds: int) -> Iterator[Row]:
    """Time of one update (critic and generator) of each method, over that of weight norm.

    The methods take turns, so that a machine that slows down slows all of them; a round gives one
    ratio, and the median over the rounds is recorded. `torch` is the critic with
    torch.nn.utils.parametrizations.spectral_norm in place of ours.
    """
    images_NCHW = torch.rand(batch_size, 1, 32, 32, device=run.device) * 2 - 1
    kinds: dict[str, tuple[Method, float]] = {
        "wn": ("wn", 0.0),
        "sn": ("sn", 0.0),
        "none": ("none", 0.0),
        "penalty": ("none", 10.0),
        "torch": ("none", 0.0),
    }
    updates = {name: _update(run, name, *kind, width, images_NCHW) for name, kind in kinds.items()}
    seconds = in_turns(updates, rounds, run.device)
    for name, times in seconds.items():
        yield Row(f"update_ms_{name}", 1e3 * statistics.median(times), "ms")
    pairs = ("sn wn", "none wn", "penalty wn", "penalty sn", "sn torch")
    for above, below in (pair.split() for pair in pairs):
        ratio = median_ratio(seconds[above], seconds[below])
        yield Row(f"{above}_over_{below}", ratio, "times")


def _update(
    run: Run, name: str, method: Method, penalty: float, width: int, images_NCHW: Tensor
) -> Callable[[], None]:
    """One critic step and one generator step as the training makes them."""
    critic = CNNCritic(method, width, 1).to(run.device)
    if name == "torch":
        for layer in layers(critic):
            parametrizations.spectral_norm(layer)
    generator = CNNGenerator(width, 1).to(run.device)
    adams = [torch.optim.Adam(net.parameters(), lr=2e-4) for net in (generator, critic)]
    loss = LOSSES["hinge"]

    def update() -> None:
        noise_NZ = torch.randn(len(images_NCHW), 128, device=run.device)
        fake_NCHW = generator(noise_NZ)
        real_N, fake_N = critic(torch.cat([images_NCHW, fake_NCHW.detach()])).flatten().chunk(2)
        critic_loss = loss.critic(real_N, fake_N)
        if penalty:
            term = gradient_penalty(lambda x: critic(x).flatten(), images_NCHW, fake_NCHW)
            critic_loss = critic_loss + penalty * term
        adams[1].zero_grad()
        critic_loss.backward()
        adams[1].step()
        critic.requires_grad_(False)
        generator_loss = loss.generator(critic(fake_NCHW).flatten())
        adams[0].zero_grad()
        generator_loss.backward()
        adams[0].step()
        critic.requires_grad_(True)

    return update
