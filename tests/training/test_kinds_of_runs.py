"""One tiny paper of each kind that is to come runs in the same envelope."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import polars as pl
import pytest
from filelock import FileLock
from safetensors.numpy import load_file

from shared.records.base import read_record
from shared.records.experiment import RunKey, RunSettings
from shared.records.metrics import Row, read_metrics
from shared.records.run import Provenance
from shared.training.measure import measure
from shared.training.recorder import Recorder
from shared.training.run import main


def run(paper, experiment, arm, *more, seed=0):
    code = main([paper, experiment, arm, "--seed", str(seed), *more])
    key = RunKey(scale="laptop", paper=paper, experiment=experiment, arm=arm, seed=seed)
    return code, key.directory()


def values(directory, metric):
    metrics = read_metrics(directory / "metrics.parquet")
    return metrics.filter(pl.col("metric") == metric)["value"].to_list()


def test_classifier_writes_every_file_and_learns(repository):
    code, directory = run("fake_classifier", "train", "plain")
    assert code == 0
    provenance = read_record(directory / "provenance.json", Provenance)
    assert provenance.outcome.status == "finished"
    assert provenance.outcome.step == 4 * 6
    assert set(provenance.files) == {
        "metrics.parquet",
        "settings.json",
        "weights.safetensors",
        "predictions.safetensors",
    }
    settings = read_record(directory / "settings.json", RunSettings)
    assert settings.settings == {
        "lr": 0.1,
    }
    errors = values(directory, "test_error_percent")
    assert len(errors) == 4
    assert errors[-1] < 20
    predictions = load_file(directory / "predictions.safetensors")
    wrong = predictions["probabilities"].argmax(1) != predictions["labels"]
    assert 100 * wrong.mean() == errors[-1]
    assert values(directory, "diverged") == [0.0]
    assert not list((repository / "results/scratch").rglob("*.ckpt"))
    assert "test_error_percent" in (directory / "run.log").read_text()


def test_a_target_is_reached_at_the_first_test_below_it(repository):
    every = ("--set", "trainer.eval_every_steps=2", "--set", "settings.lr=0.002")
    target = ("--set", "settings.target_error_percent=30")
    code, directory = run("fake_classifier", "train", "plain", *every, *target)
    assert code == 0
    metrics = read_metrics(directory / "metrics.parquet")
    tests = metrics.filter(pl.col("metric") == "test_error_percent").sort("step")
    assert tests["step"].to_list() == list(range(2, 26, 2))
    first = tests.filter(pl.col("value") <= 30)["step"][0]
    assert 2 < first < 24
    assert values(directory, "steps_to_target") == [first]
    assert values(directory, "target_reached") == [1.0]


def test_a_target_that_is_never_reached_gives_all_steps_as_a_lower_bound(repository):
    never = ("--set", "settings.target_error_percent=0", "--set", "settings.lr=0")
    _, directory = run("fake_classifier", "train", "plain", *never)
    assert values(directory, "steps_to_target") == [24.0]
    assert values(directory, "target_reached") == [0.0]


@pytest.mark.parametrize("end", ["max_steps", "max_epochs"])
def test_without_a_step_there_is_no_step_at_which_a_target_was_reached(repository, end):
    target = ("--set", "settings.target_error_percent=99")
    code, directory = run("fake_classifier", "train", "plain", "--set", f"trainer.{end}=0", *target)
    assert code == 0
    assert len(values(directory, "test_error_percent")) == 1
    assert values(directory, "steps_to_target") == values(directory, "target_reached") == []


def test_steps_at_once_change_nothing_but_the_time(repository):
    rows = []
    for size in (1, 4):  # epochs of 6 steps: a group of 4 and one of 2
        at_once = ("--set", f"trainer.steps_at_once={size}", "--set", "trainer.log_every_steps=2")
        code, directory = run("fake_classifier", "train", "constant", *at_once)
        assert code == 0
        rows.append(read_metrics(directory / "metrics.parquet"))
    assert rows[0].equals(rows[1])


@pytest.mark.parametrize(
    ("paper", "arm", "settings", "message"),
    [
        ("fake_classifier", "plain", ("steps_at_once=4",), "no schedule"),
        ("fake_gan", "hinge", ("steps_at_once=4",), "takes one batch at a time"),
        ("fake_classifier", "constant", ("precision=16-mixed",), "a CPU does not have"),
        ("fake_classifier", "constant", ("steps_at_once=4", "max_steps=6"), "multiple of"),
        ("fake_classifier", "constant", ("steps_at_once=4", "max_steps=8"), "has 6 batches"),
        ("fake_classifier", "constant", ("steps_at_once=4", "eval_every_steps=4"), "has 6 batches"),
        (
            *("fake_classifier", "constant", ("steps_at_once=4", "gradient_clip_norm=1")),
            "without gradient_clip_norm",
        ),
    ],
)
def test_settings_of_the_trainer_that_cannot_be(repository, capsys, paper, arm, settings, message):
    more = [word for setting in settings for word in ("--set", f"trainer.{setting}")]
    code, _ = run(paper, "gan" if paper == "fake_gan" else "train", arm, *more)
    assert code == 1
    assert message in capsys.readouterr().err


def test_any_norm_from_the_command_line(repository, capsys):
    errors = {}
    for norm in ("group", "none"):
        code, directory = run("fake_norms", "train", "batchnorm", "--set", f"norm={norm}")
        assert code == 0
        log = (directory / "run.log").read_text()
        assert "net.1: BatchNorm2d(4) -> " in log
        assert read_record(directory / "settings.json", RunSettings).norm == norm
        errors[norm] = values(directory, "test_loss")
    assert errors["group"] != errors["none"]


def test_a_norm_that_is_unknown_is_refused(repository, capsys):
    code, directory = run("fake_norms", "train", "batchnorm", "--set", "norm=rmsnorm")
    assert code == 1
    said = capsys.readouterr().err
    assert "norm: Input should be 'layer', 'rms'" in said
    assert "'rmsnorm'" in said
    assert not (directory / "metrics.parquet").exists()


def test_an_arm_without_a_norm_says_that_nothing_was_swapped(repository):
    code, directory = run("fake_classifier", "train", "plain", "--set", "norm=rms")
    assert code == 0
    assert "norm rms: nothing was swapped: " in (directory / "run.log").read_text()


def test_same_seed_same_bits_and_other_seed_other_bits(repository):
    weights = []
    for seed in (0, 0, 1):
        _, directory = run("fake_classifier", "train", "mixup", seed=seed)
        weights.append((directory / "weights.safetensors").read_bytes())
    assert weights[0] == weights[1]
    assert weights[0] != weights[2]


def test_divergence_is_an_outcome(repository):
    code, directory = run("fake_classifier", "train", "exploding")
    assert code == 0
    outcome = read_record(directory / "provenance.json", Provenance).outcome
    assert outcome.status == "diverged"
    assert outcome.step <= 24
    metrics = read_metrics(directory / "metrics.parquet")
    assert values(directory, "diverged") == [1.0]
    assert metrics["value"].is_finite().all()
    assert "test_error_percent" not in metrics["metric"]
    assert not (directory / "predictions.safetensors").exists()


def test_two_optimisers_and_image_grids(repository):
    code, directory = run("fake_gan", "gan", "hinge")
    assert code == 0
    assert len(values(directory, "critic_loss")) == 6
    assert (directory / "images/samples.png").read_bytes().startswith(b"\x89PNG")
    assert "images/samples.png" in read_record(directory / "provenance.json", Provenance).files


def test_adaptation_on_a_test_stream_from_an_artefact(repository, capsys):
    code, _ = run("fake_adaptation", "adapt", "0.1")
    assert code == 1
    assert "source" in capsys.readouterr().err
    _, source = run("fake_adaptation", "source", "bn")
    code, directory = run("fake_adaptation", "adapt", "0.1")
    assert code == 0
    assert len(values(directory, "entropy")) == 4
    provenance = read_record(directory / "provenance.json", Provenance)
    own = read_record(source / "provenance.json", Provenance)
    assert provenance.needs_sha256 == {"source": own.files["weights.safetensors"]}


def test_stream_of_tasks_with_a_replay_buffer(repository):
    code, directory = run("fake_stream", "stream", "replay")
    assert code == 0
    assert len(values(directory, "train_loss")) == 12


def test_recurrent_net(repository):
    code, directory = run("fake_recurrent", "rows", "gru")
    assert code == 0
    assert len(values(directory, "test_error_percent")) == 1


def test_measurement_without_training(repository):
    code, directory = run("fake_measurement", "identity", "ok")
    assert code == 0
    assert values(directory, "error") == [0.0]
    assert not (directory / "weights.safetensors").exists()


def test_a_number_that_is_not_finite_is_a_divergence(repository):
    _, directory = run("fake_measurement", "identity", "broken")
    outcome = read_record(directory / "provenance.json", Provenance).outcome
    assert outcome.status == "diverged"
    assert "broken is nan" in outcome.detail
    assert values(directory, "broken") == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("fake_measurement", "identity", "misspelt"), "settings.sise: got a setting that"),
        (
            ("fake_measurement", "identity", "ok", "--set", "settings.size=0"),
            "identity/ok/seed-0: measurements:identity: size: got 0, expected 1 or more",
        ),
        (("fake_measurement", "identity", "nobody"), "expected one of ok, broken, misspelt"),
        (("fake_measurement", "nothing", "ok"), "expected one of identity"),
        (("no_paper", "identity", "ok"), "expected one of fake_adaptation"),
        (("fake_measurement", "identity", "ok", "--scale", "full"), "only at laptop"),
        (("fake_measurement", "identity", "ok", "--set", "trainer.max_steps=1"), "measurement"),
        (("fake_classifier", "train", "plain", "--set", "lr=1"), "expected norm, data.NAME"),
        (("fake_classifier", "train", "plain", "--set", "trainer.max_epoch=1"), "max_epoch"),
        (("fake_classifier", "train", "plain", "--set", "data.dataset=none"), "shared.data fetch"),
        (("fake_classifier", "train", "plain", "--set", "data.train_size=97"), "has 96 train"),
    ],
)
def test_bad_input_is_one_clear_message(repository, capsys, arguments, said):
    code, directory = run(*arguments)
    assert code == 1
    assert said in capsys.readouterr().err
    assert not (directory / "metrics.parquet").exists()


def test_a_name_that_cannot_be_is_one_clear_message(repository, capsys):
    assert main(["No Paper", "identity", "ok", "--seed", "-1"]) == 1
    assert "No Paper" in capsys.readouterr().err


def test_a_complete_run_survives_a_failing_repetition(repository, monkeypatch):
    _, directory = run("fake_measurement", "identity", "ok")
    before = (directory / "metrics.parquet").read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("shared.training.run.write_metrics", fail)
    with pytest.raises(OSError, match="disk full"):
        run("fake_measurement", "identity", "ok")
    assert (directory / "metrics.parquet").read_bytes() == before
    assert "disk full" in (directory / "run.log").read_text()


def test_overrides_reach_the_run(repository):
    _, directory = run("fake_classifier", "train", "plain", "--set", "trainer.max_epochs=1")
    assert len(values(directory, "test_error_percent")) == 1


def test_two_processes_of_one_run_wait_for_each_other(repository, capsys):
    key = RunKey(scale="laptop", paper="fake_measurement", experiment="identity", arm="ok", seed=0)
    file = repository / "results/scratch/laptop" / f"{key}.lock"
    file.parent.mkdir(parents=True)
    held = threading.Event()

    def other_process():
        with FileLock(file):
            held.set()
            time.sleep(1)

    threading.Thread(target=other_process).start()
    held.wait()
    start = time.monotonic()
    code, _ = run("fake_measurement", "identity", "ok")
    assert code == 0
    assert time.monotonic() - start > 0.9
    assert "waiting" in capsys.readouterr().err


def test_a_measurement_of_numbers_that_are_not_finite_has_diverged():
    def rows():
        yield Row("first", 1.0, "1")
        raise FloatingPointError("a loss of nan")

    recorder = Recorder()
    outcome = measure(SimpleNamespace(recorder=recorder, settings=None), rows()).outcome
    assert (outcome.status, outcome.detail) == ("diverged", "a loss of nan")
    assert [row.metric for row in recorder.rows()] == ["first"]
