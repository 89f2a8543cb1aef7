"""Our training step against a bare PyTorch loop: `python -m tests.performance.step_overhead`.

Same model, batch and data; both in one process, in turns, so that a change in the speed of the
machine hits both. Printed is the mean time of a step without the slowest tenth, and the ratio.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, relu

from shared.data.loader import ArrayLoader
from shared.records.experiment import DataSettings, RunKey, RunSettings, TrainerSettings
from shared.training import fit
from shared.training.classifier import Classifier
from shared.training.console import console
from shared.training.grouped import Grouped
from shared.training.lightning import Callback
from shared.training.module import PaperModule
from shared.training.run_context import Run


class Block(nn.Module):
    def __init__(self, width_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.shortcut = nn.Conv2d(width_in, width, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        branch = self.norm2(self.conv2(relu(self.norm1(self.conv1(x)))))
        return relu(branch + self.shortcut(x))


def resnet20(width: int = 8) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(1, width, 3, 1, 1), nn.BatchNorm2d(width), nn.ReLU()]
    for stage, blocks in enumerate([3, 3, 3]):
        for index in range(blocks):
            width_out = width * 2**stage
            stride = 2 if stage and not index else 1
            layers.append(Block(width_out // stride, width_out, stride))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width * 4, 10))


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, 256),
        nn.ReLU(),
        nn.Linear(256, 256),
        nn.ReLU(),
        nn.Linear(256, 10),
    )


class Net(PaperModule):
    """The classifier's training step, without its tests."""

    mixup_alpha = 0.0
    takes_groups = True
    training_step = Classifier.training_step
    _loss = Classifier._loss
    batch_loss = Classifier.batch_loss

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.9)


class Stopwatch(Callback):
    """The time between the ends of consecutive steps."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_train_batch_end(self, *_: object) -> None:
        self.times.append(time.perf_counter())


def bare_steps(net: nn.Module, loader: ArrayLoader, steps: int) -> list[float]:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    times = []
    batches = iter(loader)
    for _ in range(steps):
        images, labels = next(batches)
        optimizer.zero_grad()
        loss = cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter())
    return list(np.diff(times))


def our_steps(
    net: nn.Module, steps: int, channels_last: bool, at_once: int, folder: Path
) -> list[float]:
    """The whole envelope of a training, loader and callbacks included."""
    settings = RunSettings(
        key=RunKey(scale="laptop", paper="speed", experiment="e", arm="a", seed=0),
        kind="training",
        entry="module:Net",
        data=DataSettings(dataset="random"),
        dataset="random",
        trainer=TrainerSettings(
            max_steps=steps, channels_last=channels_last, steps_at_once=at_once
        ),
        settings={},
        needs={},
        threads=torch.get_num_threads(),
    )
    watch = Stopwatch()
    module = Net(net)
    module.configure_callbacks = lambda: [watch]  # type: ignore[method-assign]
    with console(settings.key, folder / "run.log") as out:
        fit.fit(Run(settings, folder, torch.device("cpu")), module, folder / "last.ckpt", out)
    (folder / "last.ckpt").unlink()
    return list(np.diff(watch.times) / at_once)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    generator = np.random.default_rng(0)
    images = generator.integers(0, 255, (20_000, 1, 28, 28), dtype=np.uint8)
    labels = generator.integers(0, 10, 20_000)
    cases: list[tuple[str, Callable[[], nn.Module], int, bool, int]] = [
        ("ResNet-20 width 8, channels-last", resnet20, 30, True, 1),
        ("MLP 784-256-256-10", mlp, 150, False, 1),
        ("the same, 25 steps at once", mlp, 150, False, 25),
    ]
    print(f"batch 128, {options.threads} threads, {options.rounds} rounds in turns")
    print("| net | bare loop | ours | ratio |\n|---|---|---|---|")
    for name, make, steps, channels_last, at_once in cases:
        net = make()
        if channels_last:
            net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        loader = ArrayLoader(
            images,
            labels,
            mean=[0.5],
            std=[0.25],
            batch_size=128,
            shuffle=True,
            seed=0,
            channels_last=channels_last,
        )
        train = loader if at_once == 1 else Grouped(loader, at_once)
        fit._loaders = lambda run, module, train=train: (train, None)  # type: ignore[assignment]
        bare: list[float] = []
        ours: list[float] = []
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(options.rounds):
                bare += bare_steps(net, loader, steps)[3:]
                ours += our_steps(net, steps, channels_last, at_once, Path(folder))[1:]
        # The mean of what is not the slowest tenth: a group of steps has one time for all.
        a, b = (1e3 * np.sort(times)[: -len(times) // 10].mean() for times in (bare, ours))
        print(f"| {name} | {a:.2f} ms | {b:.2f} ms | {b / a:.3f} |")


if __name__ == "__main__":
    main()
