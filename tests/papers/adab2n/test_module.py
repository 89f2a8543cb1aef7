"""The training over a small stream: rows, pairing of the arms, and a kill at any step."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch

from papers.adab2n.module import SplitStream
from shared.records.base import sha256_of, write_json
from shared.records.dataset import Array, Manifest
from shared.records.experiment import DataSettings, RunKey, RunSettings, TrainerSettings
from shared.training.callbacks import Resume
from shared.training.console import Console
from shared.training.fit import fit
from shared.training.run import _seed_everything
from shared.training.run_context import Run

SETTINGS = {
    "learner": "er_ace",
    "norm": "adab2n",
    "joint": True,
    "network": "small_cnn",
    "width": 4,
    "in_channels": 1,
    "num_classes": 6,
    "classes_per_task": 2,
    "buffer_size": 12,
    "replay_size": 5,
    "lr": 0.1,
    "momentum": 0.1,
    "num_groups": 2,
    "probe_every_steps": 4,
    "kappa": 0.4,
    "task_weights": "bayes",
    "penalty_weight": 0.1,
}
SEPARATE = {"norm": "batch", "joint": False, "penalty_weight": 0.0}
DERPP = {"learner": "derpp", "alpha": 0.2, "beta": 0.5}
PER_CLASS = 9
STEPS = 3 * 4  # 18 images a task in batches of 5: 5, 5, 5, 3


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Six classes that differ in the brightness of one row."""
    monkeypatch.chdir(tmp_path)
    prepared = tmp_path / "results/prepared/rows"
    prepared.mkdir(parents=True)
    generator = np.random.default_rng(0)
    arrays = {}
    for split in ("train", "test"):
        labels = np.arange(6 * PER_CLASS) % 6
        images = generator.integers(0, 80, (len(labels), 1, 8, 8), dtype=np.uint8)
        images[np.arange(len(labels)), 0, labels] += 150
        for name, array in [("images", images), ("labels", labels)]:
            file = prepared / f"{split}_{name}.npy"
            np.save(file, array)
            arrays[f"{split}_{name}"] = Array(
                file=file.name, shape=array.shape, dtype=str(array.dtype), sha256=sha256_of(file)
            )
    manifest = {"num_classes": 6, "mean": (0.2,), "std": (0.2,), "raw_sha256": {}}
    write_json(prepared / "manifest.json", Manifest(dataset="rows", arrays=arrays, **manifest))
    return tmp_path


def train(folder, seed=0, augment=(), **changed):
    """Trains one arm; returns the module and its rows."""
    directory = folder / "run"
    directory.mkdir(exist_ok=True)
    settings = RunSettings(
        key=RunKey(scale="laptop", paper="adab2n", experiment="er_ace", arm="a", seed=seed),
        kind="training",
        entry="module:SplitStream",
        data=DataSettings(dataset="rows", batch_size=5, augment=augment),
        dataset="rows",
        trainer=TrainerSettings(max_epochs=1, log_every_steps=3),
        settings={},
        needs={},
        threads=1,
    )
    run = Run(settings, directory, torch.device("cpu"))
    _seed_everything(seed)
    module = SplitStream(**{**SETTINGS, **changed})
    with (folder / "log").open("w") as log:
        fit(run, module, folder / "last.ckpt", Console(settings.key, log))
    (folder / "last.ckpt").unlink()
    return module, pl.DataFrame([row._asdict() for row in run.recorder.rows()])


def values(rows, metric):
    return rows.filter(pl.col("metric") == metric).sort("step")["value"].to_list()


def test_rows_of_a_run(folder):
    module, rows = train(folder)
    final = values(rows, "final_average_accuracy_percent")
    matrix = module.accuracy
    assert final == pytest.approx([matrix[2].mean().item()])
    lost = ((matrix[:2].max(0).values - matrix[2])[:2]).mean().item()
    assert values(rows, "forgetting_percent") == pytest.approx([lost])
    averages = rows.filter(pl.col("metric") == "average_accuracy_percent").sort("step")
    assert averages["step"].to_list() == [4, 8, STEPS]
    assert len(values(rows, "task_1_accuracy_percent")) == 3
    assert len(values(rows, "task_3_accuracy_percent")) == 1
    assert len(values(rows, "running_mean_distance_to_seen_tasks")) == STEPS // 4
    assert min(values(rows, "sum_of_weights")) < 1


@pytest.mark.parametrize("changed", [{}, DERPP, {**DERPP, **SEPARATE}], ids=str)
def test_two_runs_of_one_seed_are_equal_and_two_seeds_are_not(folder, changed):
    first, second, other = (train(folder, seed, **changed)[1] for seed in (0, 0, 1))
    assert first.equals(second)
    assert not first.equals(other)


def test_arms_see_and_replay_the_same_images(folder):
    seen = []
    for changed in ({}, SEPARATE):
        module, _ = train(folder, seed=3, **changed)
        seen.append((module.split.order, module.buffer.state_dict()["parts"][0]))
    assert seen[0][0] == seen[1][0]
    assert torch.equal(seen[0][1], seen[1][1])


class CrashError(Exception):
    """The process is gone."""


@pytest.mark.parametrize("changed", [{}, DERPP], ids=["er_ace", "derpp"])
@pytest.mark.parametrize("crash_at", [2, 4, 5, 8, 11])
def test_a_killed_run_ends_with_the_same_bits(folder, monkeypatch, crash_at, changed):
    """The buffer, eta, psi and the accuracies so far survive, also at the end of a task."""
    augment = ("crop", "flip")
    undisturbed, rows = train(folder, augment=augment, **changed)
    original = Resume.on_train_batch_end

    def crash(self, trainer, *arguments):
        self._every_seconds = 0 if trainer.global_step == crash_at else 1000
        original(self, trainer, *arguments)
        if trainer.global_step == crash_at:
            raise CrashError

    monkeypatch.setattr(Resume, "on_train_batch_end", crash)
    with pytest.raises(CrashError):
        train(folder, augment=augment, **changed)
    monkeypatch.setattr(Resume, "on_train_batch_end", original)
    resumed, rows_again = train(folder, augment=augment, **changed)
    for name, value in undisturbed.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name
    for kept, again in zip(
        undisturbed.buffer.state_dict()["parts"],
        resumed.buffer.state_dict()["parts"],
        strict=True,
    ):
        assert torch.equal(kept, again)
    order = ["metric", "split", "step"]
    assert rows.sort(order).equals(rows_again.sort(order))


def test_separate_batches_are_two_updates_of_the_statistics_and_joint_ones_one(folder):
    for changed, updates in (({}, STEPS), (SEPARATE, STEPS + 8), ({**DERPP, **SEPARATE}, 34)):
        module, _ = train(folder, **changed)
        counts = [b for name, b in module.named_buffers() if name.endswith("num_batches_tracked")]
        assert {int(count) for count in counts} == {updates}


def test_psi_is_learnt_from_the_second_task_on(folder):
    module, _ = train(folder)
    psi = module.net.features[1].psi
    assert psi.abs().max() > 0


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"joint": False}, "joint: got false for AdaB2N"),
        ({**SEPARATE, "penalty_weight": 0.1}, "penalty_weight: got 0.1 for the norm batch"),
        ({"classes_per_task": 6}, "classes_per_task: got 6, expected a divisor of num_classes, 6"),
        ({"classes_per_task": 4}, "classes_per_task: got 4"),
        ({"classes_per_task": 0}, "classes_per_task: got 0"),
        ({"momentum": 2}, "momentum: got 2, expected a share from 0 to 1"),
        ({"replay_size": 0}, "got replay_size 0"),
        ({"probe_every_steps": 0}, "probe_every_steps 0"),
    ],
)
def test_settings_that_do_not_fit_are_one_clear_error(changed, said):
    with pytest.raises(ValueError, match=said):
        SplitStream(**{**SETTINGS, **changed})
