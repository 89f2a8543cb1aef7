"""The training: one pass over a stream of tasks with replay, tested after each task.

Legend: N images, C channels, H height, W width, K classes, T tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from papers.adab2n.accuracy import accuracy_by_task, forgetting
from papers.adab2n.learners import DERPP, ERACE, Step
from papers.adab2n.method import TaskWeights, layers, penalty, sample_weights, set_tasks
from papers.adab2n.model import Network, Norm, NormFactory, build
from papers.adab2n.statistics import distances
from shared.data.load import PreparedData
from shared.data.loader import CROP_PADDING, ArrayLoader, crop, flip_some, seeded
from shared.data.reservoir import Reservoir
from shared.data.stream import TaskSplit, TaskStream
from shared.records.base import RecordError
from shared.training.module import PaperModule

PROBES_PER_CLASS = 30


class SplitStream(PaperModule):
    """Class-incremental learning of one stream: tasks are not known at test time.

    The order of the classes, of the images and of all draws of the buffer follow from the seed, so
    the arms of an experiment see and replay the same images. Rows, besides the training loss:
    `task_K_accuracy_percent` of each task and their mean `average_accuracy_percent` after each
    task, `final_average_accuracy_percent` and `forgetting_percent` at the end, and the distances of
    `statistics.py` every `probe_every_steps`.

    Args:
        learner: `er_ace` or `derpp`.
        norm: see `NormFactory`; with kappa, task_weights, momentum and num_groups.
        joint: new and replayed images go through the net as one batch, else one after another.
        penalty_weight: lambda, of the penalty of AdaB2N in steps with replay; 0: none.
        network, width: `small_cnn` or `resnet18`, and its first number of channels.
        in_channels, num_classes: of the data set.
        classes_per_task: divides num_classes.
        images_per_class: the first training images of each class, else all.
        buffer_size, replay_size: images that are kept, and drawn for each replayed batch.
        alpha, beta: of DER++.
        lr: of SGD without momentum.
        probe_every_steps: steps between two looks at the running statistics.

    Raises:
        ValueError: settings that do not fit each other, or numbers that cannot be.
    """

    def __init__(
        self,
        learner: Literal["er_ace", "derpp"],
        norm: Norm,
        joint: bool,
        *,
        network: Network,
        width: int,
        in_channels: int,
        num_classes: int,
        classes_per_task: int,
        buffer_size: int,
        replay_size: int,
        lr: float,
        momentum: float,
        num_groups: int,
        probe_every_steps: int,
        images_per_class: int | None = None,
        kappa: float = 1.0,
        task_weights: TaskWeights = "plain",
        penalty_weight: float = 0.0,
        alpha: float = 0.0,
        beta: float = 0.0,
    ) -> None:
        super().__init__()
        if norm == "adab2n" and not joint:
            raise RecordError(
                "joint: got false for AdaB2N, expected true: it weights a joint batch"
            )
        if penalty_weight and norm != "adab2n":
            raise RecordError(
                f"penalty_weight: got {penalty_weight} for the norm {norm}, expected 0: only "
                "layers of AdaB2N have a penalty"
            )
        if not 0 < classes_per_task <= num_classes // 2 or num_classes % classes_per_task:
            raise RecordError(
                f"classes_per_task: got {classes_per_task}, expected a divisor of num_classes, "
                f"{num_classes}, that gives 2 tasks or more: with one there is nothing to forget"
            )
        if not 0 <= momentum <= 1:
            raise RecordError(f"momentum: got {momentum}, expected a share from 0 to 1")
        if replay_size < 1 or probe_every_steps < 1:
            raise RecordError(
                f"got replay_size {replay_size} and probe_every_steps {probe_every_steps}, "
                "expected 1 or more of both"
            )
        num_tasks = num_classes // classes_per_task
        factory = NormFactory(
            norm,
            num_tasks=num_tasks,
            kappa=kappa,
            task_weights=task_weights,
            momentum=momentum,
            num_groups=num_groups,
        )
        self.net = build(
            network, factory, in_channels=in_channels, width=width, num_classes=num_classes
        )
        learners: dict[str, Callable[..., Step]] = {"er_ace": ERACE(), "derpp": DERPP(alpha, beta)}
        self.learn = learners[learner]
        self.joint = joint
        self.penalty_weight = penalty_weight
        self.num_classes = num_classes
        self.classes_per_task = classes_per_task
        self.images_per_class = images_per_class
        self.buffer_size = buffer_size
        self.replay_size = replay_size
        self.lr = lr
        self.probe_every_steps = probe_every_steps
        self.register_buffer("accuracy", torch.zeros(num_tasks, num_tasks))
        self.register_buffer("latest", torch.tensor(-1))
        self._outputs: list[tuple[Tensor, Tensor]] = []

    latest: Tensor  # the highest class seen so far, by its place in the stream
    accuracy: Tensor  # (T, T), percent: row: after this task, column: of this task

    def setup(self, stage: str) -> None:
        if stage != "fit":
            return
        seed = self.run.key.seed
        self.split = TaskSplit.draw(self.num_classes, self.classes_per_task, seed)
        self.buffer = Reservoir(self.buffer_size, seed)
        data, settings = self.run.dataset(), self.run.settings.data
        assert settings is not None
        self.augment = settings.augment
        constants = torch.tensor([data.manifest.mean, data.manifest.std], device=self.run.device)
        self.mean, self.std = 255 * constants.view(2, 1, -1, 1, 1)
        self.stream = TaskStream(
            data.array("train_images"),
            data.array("train_labels"),
            self.split,
            batch_size=settings.batch_size,
            seed=seed,
            images_per_class=self.images_per_class,
        )
        self.tests = ArrayLoader(
            data.array("test_images")[: settings.test_size],
            self.split.relabel(data.array("test_labels")[: settings.test_size]),
            mean=data.manifest.mean,
            std=data.manifest.std,
            batch_size=settings.eval_batch_size,
            shuffle=False,
            seed=seed,
            device=self.run.device,
        )
        self.probes = self._probe_images(data)

    def train_dataloader(self) -> TaskStream:
        return self.stream

    def test_dataloader(self) -> ArrayLoader:
        return self.tests

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["buffer"] = self.buffer.state_dict()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.buffer.load_state_dict(checkpoint["buffer"])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.net.parameters(), lr=self.lr)

    def on_train_batch_start(self, batch: tuple[Tensor, Tensor], _: int) -> None:
        # Before the next batch, not after the last one: a checkpoint of that step is then made
        # without these rows, and a run that goes on from it records them.
        step, task = self.global_step, self._task(batch[1])
        if step and self.stream.ends_task(step - 1):
            task -= 1
            self._test_after(task)
        if step and step % self.probe_every_steps == 0:
            self._record_distances(task)

    def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
        pixels_NCHW, places_N = batch
        self._num_forwards = 0
        self.latest = torch.maximum(self.latest, places_N.max())
        step: Step = self.learn(
            self._forward,
            batch,
            self.buffer,
            self.replay_size,
            self._task(places_N),
            int(self.latest),
        )
        loss = step.loss
        if step.replayed and self.penalty_weight:
            loss = loss + self.penalty_weight * penalty(self.net)
        self.buffer.add(pixels_NCHW, places_N, step.logits)
        self.record_mean("train_loss", loss, "nats")
        return loss

    def _task(self, places_N: Tensor) -> int:
        return int(places_N[0]) // self.classes_per_task

    def _forward(self, *batches: tuple[Tensor, Tensor]) -> list[Tensor]:
        """The logits of each batch; the first one holds the new images."""
        images = [self._images(pixels_NCHW) for pixels_NCHW, _ in batches]
        if not self.joint:
            return [self.net(x_NCHW) for x_NCHW in images]
        places_N = torch.cat([places_N for _, places_N in batches])
        task_N, num_seen = self.split.task_of(places_N), self._task(batches[0][1]) + 1
        set_tasks(self.net, task_N, num_seen)
        self._record_weights(task_N, num_seen)
        logits_NK: Tensor = self.net(torch.cat(images))
        return list(logits_NK.split([len(x_NCHW) for x_NCHW in images]))

    @torch.no_grad()
    def _record_weights(self, task_N: Tensor, num_seen: int) -> None:
        """The sum of the weights of AdaB2N's first layer: below 1 where a task is missing."""
        first = next(iter(layers(self.net)), None)
        if first is None or first.psi is None or num_seen == 1:
            return
        renormalise = first.task_weights == "renormalised"
        weight_N = sample_weights(first.psi[:num_seen], task_N, renormalise=renormalise)
        self.record_mean("sum_of_weights", weight_N.sum(), "1")

    def _images(self, pixels_NCHW: Tensor) -> Tensor:
        """Standardised images, augmented where the settings say so."""
        x_NCHW = (pixels_NCHW - self.mean) / self.std
        if not self.augment:
            return x_NCHW
        generator = seeded("augment", self.run.key.seed, self.global_step, self._num_forwards)
        self._num_forwards += 1
        corner_2N = torch.randint(0, 2 * CROP_PADDING + 1, (2, len(x_NCHW)), generator=generator)
        flip_N = torch.randint(0, 2, (len(x_NCHW),), generator=generator)
        if "flip" in self.augment:
            x_NCHW = flip_some(x_NCHW, flip_N.to(x_NCHW.device))
        if "crop" in self.augment:
            x_NCHW = crop(x_NCHW, *corner_2N.to(x_NCHW.device))
        return x_NCHW

    @torch.no_grad()
    def _test_after(self, task: int) -> None:
        """The accuracy of every task seen so far, at the end of one that is not the last."""
        self.net.eval()
        batches = [(self.net(x_NCHW), places_N) for x_NCHW, places_N in self.tests]
        self.net.train()
        self._record_accuracy(batches, task)

    def test_step(self, batch: tuple[Tensor, Tensor], _: int) -> None:
        x_NCHW, places_N = batch
        self._outputs.append((self.net(x_NCHW), places_N))

    def on_test_epoch_end(self) -> None:
        last = self.split.num_tasks - 1
        self._record_accuracy(self._outputs, last)
        self._outputs = []
        final = self.accuracy[last].mean()
        self.record("final_average_accuracy_percent", final, "percent", split="test")
        lost = forgetting(self.accuracy)
        self.record("forgetting_percent", lost, "percent", split="test")
        self._record_distances(last)

    def _record_accuracy(self, batches: list[tuple[Tensor, Tensor]], after_task: int) -> None:
        logits, places = zip(*batches, strict=True)
        accuracy_T = accuracy_by_task(torch.cat(logits), torch.cat(places), self.split)
        self.accuracy[after_task] = accuracy_T
        for task in range(after_task + 1):
            name = f"task_{task + 1}_accuracy_percent"
            self.record(name, accuracy_T[task], "percent", split="test")
        average = accuracy_T[: after_task + 1].mean()
        self.record("average_accuracy_percent", average, "percent", split="test")

    @torch.no_grad()
    def _record_distances(self, task: int) -> None:
        """The running statistics against images of the tasks up to this one."""
        x_NCHW, task_N = self.probes
        seen_N = task_N <= task
        training = self.net.training
        self.net.eval()
        for metric, value, unit in distances(self.net, x_NCHW[seen_N], task_N[seen_N]):
            self.record(metric, value, unit, split="test")
        self.net.train(training)

    def _probe_images(self, data: PreparedData) -> tuple[Tensor, Tensor]:
        """The first test images of each class, standardised, and their tasks."""
        places_N = torch.from_numpy(self.split.relabel(data.array("test_labels")[:]))
        chosen = torch.cat(
            [
                torch.nonzero(places_N == place)[:PROBES_PER_CLASS, 0]
                for place in range(self.num_classes)
            ]
        )
        pixels_NCHW = torch.from_numpy(data.array("test_images")[chosen.numpy()])
        x_NCHW = (pixels_NCHW.to(self.run.device) - self.mean) / self.std
        return x_NCHW, self.split.task_of(places_N[chosen]).to(self.run.device)
