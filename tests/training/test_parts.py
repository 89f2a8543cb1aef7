"""Recorder, console, device lease, provenance and the quick import of Lightning."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from filelock import FileLock

from shared.kernels import forget_ran, norm
from shared.training import device, provenance
from shared.training.recorder import Recorder


def test_a_row_is_recorded_once():
    recorder = Recorder()
    recorder.add("loss", 1.0, "nats", split="train", step=1)
    recorder.add("loss", 1.0, "nats", split="test", step=1)
    with pytest.raises(ValueError, match="recorded twice at step 1"):
        recorder.add("loss", 2.0, "nats", split="train", step=1)


def test_running_means_become_rows():
    recorder = Recorder()
    for step in range(1, 6):
        value = torch.tensor(float(step))
        recorder.add_mean("loss", value, "nats", split="train", step=step, every=2)
    recorder.close_means(step=5)
    assert [(row.step, row.value) for row in recorder.rows()] == [(2, 1.5), (4, 3.5), (5, 5.0)]


def test_numbers_that_are_not_finite_are_no_rows_but_are_told():
    recorder = Recorder()
    recorder.add("loss", float("inf"), "nats", split="train", step=9)
    recorder.add("loss", torch.tensor(float("nan")), "nats", split="train", step=4)
    recorder.add("loss", 1.0, "nats", split="train", step=1)
    assert [row.step for row in recorder.rows()] == [1]
    assert recorder.first_non_finite().step == 4


def test_a_recorder_can_be_saved_in_the_middle_of_a_mean():
    def feed(recorder, steps):
        for step in steps:
            value = torch.tensor(0.1) * step
            recorder.add_mean("loss", value, "nats", split="train", step=step, every=4)

    whole, first, second = Recorder(), Recorder(), Recorder()
    feed(whole, range(1, 9))
    feed(first, range(1, 7))
    second.load_state_dict(first.state_dict())
    feed(second, range(7, 9))
    assert second.rows() == whole.rows()


def test_without_a_gpu_the_cpu_is_used(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with device.leased_device() as leased:
        assert leased.type == "cpu"


@pytest.mark.parametrize(("chosen", "leased"), [("", ["0", "1"]), ("2,5", ["2", "5"])])
def test_runs_lease_different_gpus_and_wait_for_one(monkeypatch, tmp_path, capsys, chosen, leased):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(device.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)

    class WaitedError(Exception):
        pass

    def wait(_):
        raise WaitedError

    monkeypatch.setattr(device.time, "sleep", wait)
    visible = []
    with device.leased_device():
        visible.append(device.os.environ["CUDA_VISIBLE_DEVICES"])
        # Every process starts with the choice of the user.
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
        with device.leased_device():
            visible.append(device.os.environ["CUDA_VISIBLE_DEVICES"])
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
            with pytest.raises(WaitedError), device.leased_device():
                pass
    assert visible == leased
    assert "all 2 GPUs are held by other runs; waiting" in capsys.readouterr().err
    for file in tmp_path.iterdir():
        FileLock(file).acquire(timeout=0)


def test_slurm_has_already_chosen(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    with device.leased_device() as leased:
        assert leased == torch.device("cuda", 0)
        assert device.os.environ["CUDA_VISIBLE_DEVICES"] == "3"


def test_git_state_tells_clean_from_dirty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert provenance.git_state() == (None, None)
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    (tmp_path / "shared").mkdir()
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "m"]):
        (tmp_path / "shared/a").write_text("1")
        subprocess.run(["git", *identity, *command], check=True)
    commit, changes = provenance.git_state()
    assert len(commit) == 40
    assert changes is None
    (tmp_path / "README.md").write_text("2")
    assert provenance.git_state()[1] is None
    (tmp_path / "shared/a").write_text("2")
    _, edited = provenance.git_state()
    (tmp_path / "shared/a").write_text("3")
    assert edited != provenance.git_state()[1] is not None


def test_energy_that_cannot_be_read_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "RAPL", tmp_path / "energy_uj")
    energy = provenance.EnergyMeter().read()
    assert energy.joules is None
    assert "no counter" in energy.source
    (tmp_path / "energy_uj").write_text("1000000")
    meter = provenance.EnergyMeter()
    (tmp_path / "energy_uj").write_text("3500000")
    assert meter.read().joules == 2.5


def test_lightning_comes_without_the_packages_that_only_metrics_want():
    code = (
        "import sys; import shared.training.fit;"
        "from shared.training.lightning import NOT_NEEDED;"
        "print(sorted(NOT_NEEDED & sys.modules.keys()));"
        "import scipy.stats, torchvision; print(scipy.stats.norm.cdf(0))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.split("\n")[:2] == ["[]", "0.5"], result.stderr


def test_provenance_tells_which_norm_kernels_ran() -> None:
    forget_ran()
    x = torch.ones(2, 4, requires_grad=True)
    norm(x, groups=1, impl="native").sum().backward()
    assert provenance.kernels() == {
        "norm backward native float32 cpu": 1,
        "norm forward native float32 cpu": 1,
    }
