"""What can be checked without training, in float64: a3, a4 and a5.

Legend: N images, C channels, H height, W width, T tasks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from papers.adab2n.method import AdaB2N, sample_weights
from shared.norms import moments, per_task
from shared.records.metrics import Row
from shared.training.run_context import Run

MOMENTUM = 0.1
FAR = 60.0  # exp(60) = 1e26 samples: nothing else counts in float64


def momentum(run: Run, kappa: float, num_steps: int) -> Iterator[Row]:
    """The share eta of each batch in the running statistics, and how long these remember.

    With q = (1 - m)^kappa the recursion 1/eta_n = 1 + q / eta_(n-1) from eta_1 = m^kappa gives

        1 / eta_n = (1 - q^(n-1)) / (1 - q) + q^(n-1) m^-kappa,  and eta -> 1 - q,

    for kappa = 0 eta_n = 1/n. The weight of step j after n steps is q^(n-j) eta_n, so in the limit
    q^s is left for all that came before the last s steps: exponential forgetting with a horizon of
    1 / (1 - q) steps for every kappa above 0.
    """
    layer = _layer(1, kappa, run.device)
    q = (1 - MOMENTUM) ** kappa
    shown = {round(10 ** (i / 40)) for i in range(int(40 * math.log10(num_steps)) + 1)}
    error = 0.0
    for n in range(1, num_steps + 1):
        eta = layer.tracked_share().item()
        error = max(error, abs(eta / _eta(kappa, n) - 1))
        if n in shown:
            yield Row("eta", eta, "1", step=n)
    yield Row("closed_form_error", error, "1")
    if kappa:
        yield Row("limit_error", abs(eta - (1 - q)), "1")


def task_shares(run: Run, kappa: float, num_tasks: int, steps_per_task: int) -> Iterator[Row]:
    """The weight of each task in the running mean of a layer after a stream of equal tasks.

    Every batch of task t is 1 in channel t and 0 elsewhere, so the running mean is the weights.
    They are 1/T each for kappa = 0; for kappa = 1 the last task has 1 - (1 - m)^n after its n
    steps, and task t that times (1 - m)^(n (T - t)).
    """
    layer = _layer(num_tasks, kappa, run.device)
    images_TCHW = torch.eye(num_tasks, dtype=torch.float64, device=run.device)[:, :, None, None]
    for image_CHW in images_TCHW:
        x_NCHW = image_CHW.expand(2, -1, 1, 1)
        for _ in range(steps_per_task):
            layer(x_NCHW)
    shares = layer.running().mean.tolist()
    total, q = num_tasks * steps_per_task, (1 - MOMENTUM) ** kappa
    expected = [
        _eta(kappa, total)
        * sum(q ** (total - j) for j in range(t * steps_per_task + 1, (t + 1) * steps_per_task + 1))
        for t in range(num_tasks)
    ]
    for task, share in enumerate(shares, 1):
        yield Row("share_of_task", share, "1", step=task)
    errors = [abs(share - other) for share, other in zip(shares, expected, strict=True)]
    yield Row("share_error", max(errors), "1")
    yield Row("earlier_share", sum(shares[:-1]), "1")
    if kappa == 0:
        yield Row("balance_error", max(abs(share * num_tasks - 1) for share in shares), "1")
    if kappa == 1:
        last = 1 - (1 - MOMENTUM) ** steps_per_task
        yield Row("recency_error", abs(shares[-1] - last), "1")


def task_weights(run: Run, num_tasks: int, most_images: int) -> Iterator[Row]:
    """Limits of psi, and what happens where a task is missing from the batch.

    psi -> -inf leaves the plain statistics, equal psi -> +inf those of tasks that count alike. If a
    task that was seen is missing, the weights sum to s < 1: the mean is s times that of normalised
    weights, mu, and the variance s (var + (1 - s)^2 mu^2).
    """
    generator = torch.Generator().manual_seed(run.key.seed)
    counts_T = torch.randint(1, most_images + 1, (num_tasks,), generator=generator)
    task_N = torch.repeat_interleave(torch.arange(num_tasks), counts_T)
    noise_NCHW = torch.randn(len(task_N), 3, 4, 4, generator=generator, dtype=torch.float64)
    x_NCHW = noise_NCHW + task_N.view(-1, 1, 1, 1)

    def weighted(psi: float) -> Tensor:
        psi_T = torch.full((num_tasks,), psi, dtype=torch.float64)
        found = moments(x_NCHW, sample_weights(psi_T, task_N))
        return torch.stack([found.mean, found.var])

    plain = moments(x_NCHW)
    plain_error = (weighted(-math.inf) - torch.stack([plain.mean, plain.var])).abs().max()
    yield Row("plain_limit_error", plain_error.item(), "1")

    mean_TC = torch.stack([part.mean for part in per_task(x_NCHW, task_N).values()])
    var_TC = torch.stack([part.var for part in per_task(x_NCHW, task_N).values()])
    mean_C = mean_TC.mean(0)
    balanced = torch.stack([mean_C, (var_TC + (mean_TC - mean_C).square()).mean(0)])
    yield Row("balanced_limit_error", (weighted(FAR) - balanced).abs().max().item(), "1")

    present_N = task_N != 0
    psi_T = torch.randn(num_tasks, generator=generator, dtype=torch.float64)
    x_NCHW, task_N = x_NCHW[present_N], task_N[present_N]
    weight_N = sample_weights(psi_T, task_N)
    repaired_N = sample_weights(psi_T, task_N, renormalise=True)
    total = weight_N.sum()
    short, repaired = moments(x_NCHW, weight_N), moments(x_NCHW, repaired_N)
    expected_var = total * (repaired.var + ((1 - total) * repaired.mean).square())
    shrink_error = max(
        (short.mean - total * repaired.mean).abs().max().item(),
        (short.var - expected_var).abs().max().item(),
    )
    yield Row("sum_with_a_missing_task", total.item(), "1")
    yield Row("shrink_error", shrink_error, "1")


def batchnorm_limit(run: Run, num_batches: int, channels: int) -> Iterator[Row]:
    """AdaB2N with kappa = 1 and plain weights against torch's BatchNorm2d, batch after batch.

    The running variance alone differs: without Bessel's correction, each batch's variance is
    (n - 1) / n of torch's, with n elements a channel.
    """
    generator = torch.Generator().manual_seed(run.key.seed)
    layer = _layer(channels, 1.0, run.device)
    torchs = nn.BatchNorm2d(channels, momentum=MOMENTUM).to(run.device, torch.float64)
    forward_error = 0.0
    for _ in range(num_batches):
        x_NCHW = torch.randn(4, channels, 3, 3, generator=generator, dtype=torch.float64) * 2 + 1
        x_NCHW = x_NCHW.to(run.device)
        forward_error = max(forward_error, (layer(x_NCHW) - torchs(x_NCHW)).abs().max().item())
    running, count = layer.running(), 4 * 3 * 3
    assert torchs.running_mean is not None and torchs.running_var is not None
    initial = (1 - MOMENTUM) ** num_batches  # what is left of the variance 1 at the start
    corrected = (running.var - initial) * count / (count - 1) + initial
    yield Row("forward_error", forward_error, "1")
    yield Row("running_mean_error", (running.mean - torchs.running_mean).abs().max().item(), "1")
    yield Row("running_var_error", (corrected - torchs.running_var).abs().max().item(), "1")


def _layer(channels: int, kappa: float, device: torch.device) -> AdaB2N:
    return AdaB2N(channels, 1, kappa, "plain", momentum=MOMENTUM).to(device, torch.float64)


def _eta(kappa: float, n: int) -> float:
    """The closed form of the n-th share."""
    if kappa == 0:
        return 1 / n
    left = (1 - MOMENTUM) ** (kappa * (n - 1))
    return 1 / ((1 - left) / (1 - (1 - MOMENTUM) ** kappa) + left * MOMENTUM**-kappa)
