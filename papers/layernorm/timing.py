"""The time to a fixed error of a plain and a normalised GRU that step in turns (ln4, ln6).

Legend: N examples, C channels, H and W image.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from papers.layernorm.model import RowGRU
from shared.data.loader import ArrayLoader
from shared.records.base import RecordError
from shared.records.metrics import Row
from shared.training.run_context import Run
from shared.training.timing import clock, median_ratio

Batch = tuple[Tensor, Tensor]


@dataclass
class Contestant:
    """A network in training, with the seconds of each of its steps so far."""

    net: nn.Module
    lr: float
    step_seconds: list[float] = field(default_factory=list)
    arrived: bool = False

    def __post_init__(self) -> None:
        self.optimiser = torch.optim.Adam(self.net.parameters(), lr=self.lr, fused=True)

    def step(self, batch: Batch) -> None:
        images_NCHW, labels_N = batch
        start = clock(images_NCHW.device)
        self.optimiser.zero_grad()
        cross_entropy(self.net(images_NCHW), labels_N).backward()
        self.optimiser.step()
        self.step_seconds.append(clock(images_NCHW.device) - start)

    @torch.no_grad()
    def test_error_percent(self, batches: list[Batch]) -> float:
        wrong = [(self.net(x).argmax(dim=1) != labels_N).double() for x, labels_N in batches]
        return 100 * torch.cat(wrong).mean().item()

    @property
    def seconds(self) -> float:
        """Steps taken times the median of a step: a pause of the machine does not count."""
        return len(self.step_seconds) * statistics.median(self.step_seconds)


def time_to_target(
    run: Run,
    layer: Literal["renorm", "torch"],
    width: int,
    lr: float,
    target_error_percent: float,
    max_steps: int,
    eval_every_steps: int,
    batch_size: int,
    test_size: int,
) -> Iterator[Row]:
    """Trains a plain and a normalised GRU in turns on the same batches until both reach an error.

    Both take a step on each batch until their own test error is at the target, or for `max_steps`
    steps. Rows: steps, seconds and milliseconds a step of each, and the ratios of the normalised to
    the plain one. Testing is not timed. Of a network that does not reach the target the steps and
    seconds are lower bounds, and `reached` is 0.

    Args:
        layer: the layer norm: this repository's, which guards its accuracy, or torch's.
        lr: of both.

    Source: Figure 1 and section 6.4 of the paper, whose networks are not these.
    """
    if max_steps < 1 or eval_every_steps < 1:
        raise RecordError(
            f"got max_steps {max_steps} and eval_every_steps {eval_every_steps}, expected 1 or "
            "more of both: without a step there is no time to compare"
        )
    contestants = {}
    for norm in ("none", "layernorm"):
        torch.manual_seed(run.key.seed)
        net = RowGRU(norm, width)
        LAYERS[layer](net)
        contestants[norm] = Contestant(net.to(run.device), lr)
    train, test = _loaders(run, batch_size, test_size)
    step = 0
    while step < max_steps and not all(c.arrived for c in contestants.values()):
        for batch in train:
            step += 1
            running = [c for c in contestants.values() if not c.arrived]
            for contestant in running:
                contestant.step(batch)
            if step % eval_every_steps == 0:
                for contestant in running:
                    error = contestant.test_error_percent(test)
                    contestant.arrived = error <= target_error_percent
            if step == max_steps or all(c.arrived for c in contestants.values()):
                break
    yield from _rows(contestants["none"], contestants["layernorm"])


def _rows(plain: Contestant, normalised: Contestant) -> Iterator[Row]:
    for name, contestant in (("plain", plain), ("layernorm", normalised)):
        yield Row(f"{name}_steps_to_target", len(contestant.step_seconds), "step")
        yield Row(f"{name}_seconds_to_target", contestant.seconds, "s")
        milliseconds = 1e3 * statistics.median(contestant.step_seconds)
        yield Row(f"{name}_step_time_ms", milliseconds, "ms")
    # The same steps of both, one after the other: what else the machine does falls on both.
    ratio = median_ratio(normalised.step_seconds, plain.step_seconds)
    yield Row("step_time_ratio", ratio, "1")
    yield Row("time_ratio", normalised.seconds / plain.seconds, "1")
    yield Row("reached", float(normalised.arrived), "flag")


def _loaders(run: Run, batch_size: int, test_size: int) -> tuple[ArrayLoader, list[Batch]]:
    data = run.dataset()
    common = {"mean": data.manifest.mean, "std": data.manifest.std, "device": run.device}
    train, test = (
        ArrayLoader(
            data.array(f"{split}_images")[:size],
            data.array(f"{split}_labels")[:size],
            batch_size=batch,
            shuffle=split == "train",
            seed=run.key.seed,
            **common,  # type: ignore[arg-type]
        )
        for split, size, batch in (("train", None, batch_size), ("test", test_size, 1000))
    )
    return train, list(test)


def _use_torchs_layer_norm(net: nn.Module) -> None:
    """Swaps every layer norm for torch's, in place."""
    for parent in list(net.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.LayerNorm):
                setattr(parent, name, nn.LayerNorm(child.normalized_shape))


# What becomes of the networks' layer norms, by the name of the layer.
LAYERS: dict[str, Callable[[nn.Module], None]] = {
    "renorm": lambda net: None,
    "torch": _use_torchs_layer_norm,
}
