"""The adversarial base: what it counts, what it records, and that a crash changes no bit."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image
from safetensors.numpy import load_file

from shared.records.base import read_record
from shared.records.experiment import RunKey
from shared.records.metrics import read_metrics, start_of_digest
from shared.records.run import Provenance
from shared.training.adversarial import GRID_SEED, Adversarial, frozen
from shared.training.callbacks import Resume
from shared.training.images import padded, tiled
from shared.training.losses import LOSSES, gradient_penalty
from shared.training.run import main

pytestmark = pytest.mark.usefixtures("features")


@pytest.fixture
def features(repository):
    assert main(["fake_adversarial", "features", "classifier", "--seed", "0"]) == 0


def run(arm, *more, seed=0):
    assert main(["fake_adversarial", "gan", arm, "--seed", str(seed), *more]) == 0
    key = RunKey(scale="laptop", paper="fake_adversarial", experiment="gan", arm=arm, seed=seed)
    return key.directory()


def column(directory, metric):
    metrics = read_metrics(directory / "metrics.parquet").filter(pl.col("metric") == metric)
    return dict(zip(metrics["step"].to_list(), metrics["value"].to_list(), strict=True))


def test_the_budget_is_counted_in_generator_steps():
    directory = run("hinge")
    provenance = read_record(directory / "provenance.json", Provenance)
    assert provenance.outcome.step == 8
    assert load_file(directory / "weights.safetensors")["critic_steps"] == 16
    assert list(column(directory, "critic_loss")) == [2, 4, 6, 8]
    assert list(column(directory, "fid")) == [0, 4, 8]


def test_every_number_says_what_it_depends_on():
    directory = run("hinge")
    metrics = read_metrics(directory / "metrics.parquet")
    units = dict(metrics.filter(pl.col("split") == "test").select("metric", "unit").iter_rows())
    assert units["fid"] == "FID (classifier, 32 fake : 32 real)"
    assert units["recall"] == "share (classifier, 32 fake : 32 real)"
    assert units["classifier_score"] == "score (classifier, 32 fake)"
    digest = read_record(directory / "provenance.json", Provenance).needs_sha256["features"]
    assert start_of_digest(column(directory, "feature_network_sha256_start")[8]) == digest[:12]


def test_pictures_show_the_same_noise_in_every_arm_and_seed():
    first, second = run("hinge"), run("averaged", seed=1)
    names = {"real.png", "samples-000000.png", "samples-000004.png", "samples-000008.png"}
    assert {path.name for path in (first / "images").iterdir()} == names
    for directory in (first, second):
        picture = np.asarray(Image.open(directory / "images/samples-000008.png"))
        assert picture.shape == (4 * 32, 6 * 32)
    real = [np.asarray(Image.open(d / "images/real.png")) for d in (first, second)]
    assert (real[0] == real[1]).all()
    modules = [FakeNoise(seed) for seed in (0, 1)]
    noise = [module.grid() for module in modules]
    assert torch.equal(*noise)


class FakeNoise(Adversarial):
    """Its images are the noise itself."""

    def __init__(self, seed):
        super().__init__(noise_size=4)
        torch.manual_seed(seed)
        self.generator = torch.nn.Identity()


def test_evaluating_more_often_does_not_change_the_training():
    seldom = load_file(run("hinge") / "weights.safetensors")
    often = run("hinge", "--set", "settings.eval_steps=[1, 2, 3, 5, 8]")
    often = load_file(often / "weights.safetensors")
    assert all((seldom[name] == often[name]).all() for name in seldom)


@pytest.mark.parametrize("arm", ["hinge", "averaged"])
def test_a_crash_at_any_step_changes_no_bit(monkeypatch, arm):
    def files():
        directory = run(arm)
        names = ("weights.safetensors", "metrics.parquet", "images/samples-000004.png")
        return {name: (directory / name).read_bytes() for name in names}

    undisturbed = files()
    on_train_batch_end = Resume.on_train_batch_end

    class CrashError(Exception):
        pass

    for at in (1, 4, 9, 10, 15):

        def crash(self, trainer, module, *arguments, at=at):
            self._every_seconds = 0
            on_train_batch_end(self, trainer, module, *arguments)
            if module.critic_steps == at:
                raise CrashError

        monkeypatch.setattr(Resume, "on_train_batch_end", crash)
        with pytest.raises(CrashError):
            run(arm)
    monkeypatch.setattr(Resume, "on_train_batch_end", on_train_batch_end)
    assert files() == undisturbed


def test_divergence_is_an_outcome():
    directory = run("exploding")
    outcome = read_record(directory / "provenance.json", Provenance).outcome
    assert outcome.status == "diverged"
    assert read_metrics(directory / "metrics.parquet")["value"].is_finite().all()


@pytest.mark.parametrize("arm", ["hinge", "averaged"])
def test_a_step_of_one_player_leaves_the_other_alone(monkeypatch, arm):
    def watched(name, moves, rests):
        step = getattr(Adversarial, name)

        def watch(self, batch):
            before = {net: copy.deepcopy(getattr(self, net).state_dict()) for net in (moves, rests)}
            loss = step(self, batch)
            for net, moved in ((moves, True), (rests, False)):
                after = getattr(self, net).state_dict()
                same = [torch.equal(after[name], value) for name, value in before[net].items()]
                assert not all(same) if moved else all(same)
            assert all(p.requires_grad for p in self.critic.parameters())
            seen.append(moves)
            return loss

        monkeypatch.setattr(Adversarial, name, watch)

    seen = []
    watched("_critic_step", "critic", "generator")
    watched("_generator_step", "generator", "critic")
    run(arm)
    assert seen == ["critic", "critic", "generator"] * 8


def test_a_frozen_critic_gets_back_the_flags_that_it_had_whatever_happens():
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    net[0].requires_grad_(False)
    with pytest.raises(ZeroDivisionError), frozen(net):
        assert not any(parameter.requires_grad for parameter in net.parameters())
        1 / 0  # noqa: B018
    assert [parameter.requires_grad for parameter in net.parameters()] == [False, False, True, True]


def test_showing_leaves_the_generator_as_it_was_whatever_happens():
    module = FakeNoise(0)
    module.generator.eval()
    with module.sampler():
        pass
    assert not module.generator.training
    module.generator.train()
    with pytest.raises(ZeroDivisionError), module.sampler() as sampler:
        assert not sampler.training
        1 / 0  # noqa: B018
    assert module.generator.training


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("trainer.precision=bf16-mixed", "got bf16-mixed, expected 32-true"),
        ("settings.n_dis=0", "gan/hinge/seed-0: module:Gan: got n_dis 0"),
        ("settings.critic_lr=-1.0", "got lr 0.0002, critic_lr -1.0"),
        ("settings.beta1=1.5", "beta1 1.5, beta2 0.999; expected rates of 0 or more"),
        ("settings.decay_from=-1", "decay_from: got -1, expected a share from 0 to 1"),
        ("settings.loss=best", "loss: got 'best', expected 'hinge', 'non_saturating' or 'wass"),
        ("settings.features=vgg", "features: got 'vgg', expected 'classifier' or 'inception'"),
    ],
)
def test_what_cannot_be_trained_is_one_message(setting, said, capfd):
    assert main(["fake_adversarial", "gan", "hinge", "--seed", "0", "--set", setting]) == 1
    assert said in capfd.readouterr().err


def test_losses_are_those_of_the_papers():
    real, fake = torch.tensor([2.0, -1.0]), torch.tensor([-3.0, 0.5])
    assert LOSSES["hinge"].critic(real, fake).item() == (0 + 2) / 2 + (0 + 1.5) / 2
    assert LOSSES["hinge"].generator(fake).item() == 1.25
    log_sigmoid = torch.nn.functional.logsigmoid
    expected = -(log_sigmoid(real).mean() + log_sigmoid(-fake).mean())
    assert LOSSES["non_saturating"].critic(real, fake).item() == pytest.approx(expected.item())
    expected = -log_sigmoid(fake).mean()
    assert LOSSES["non_saturating"].generator(fake).item() == pytest.approx(expected.item())
    assert LOSSES["wasserstein"].critic(real, fake).item() == -1.25 - 0.5


def test_the_gradient_penalty_is_over_all_dimensions_of_a_sample():
    x = torch.zeros(3, 2, 2)
    # |grad| = sqrt(4 * 3^2) = 6 everywhere.
    assert gradient_penalty(lambda x: 3 * x.sum((1, 2)), x, x + 1).item() == pytest.approx(25)
    assert gradient_penalty(lambda x: 0 * x.sum((1, 2)), x, x).isfinite()
    # Two-sided: a slope of 1/2 costs, too.
    assert gradient_penalty(lambda x: x[:, 0, 0] / 2, x, x + 1).item() == pytest.approx(0.25)


def test_the_gradient_penalty_counts_by_its_weight():
    real, fake = torch.randn(2, 4, 1, 8, 8)
    losses = []
    for weight in (0.0, 7.0):
        module = Adversarial(penalty=weight)
        # |grad| = 2 everywhere, so that the penalty is 1.
        module.critic = lambda x: 2 * x[:, 0, 0, 0]
        losses.append(module.critic_loss(real, fake, None).item())
    assert losses[1] - losses[0] == pytest.approx(7)


@pytest.mark.parametrize(
    ("decay_from", "rates"),
    [(1.0, [1, 1, 1, 1]), (0.0, [1, 0.5, 0.25, 0]), (0.5, [1, 1, 0.5, 0])],
)
@pytest.mark.parametrize("in_epochs", [False, True])
def test_rates_fall_to_zero_from_a_share_of_the_training_on(
    monkeypatch, decay_from, rates, in_epochs
):
    module = Adversarial(decay_from=decay_from)
    budget = {"max_steps": None if in_epochs else 8, "max_epochs": 8 if in_epochs else None}
    module.run = SimpleNamespace(settings=SimpleNamespace(trainer=SimpleNamespace(**budget)))
    found = []
    for done in (0, 4, 6, 8):
        monkeypatch.setattr(Adversarial, "current_epoch", done)
        found.append(module.rate(100 if in_epochs else done))
    assert found == rates


def test_a_paper_says_once_how_its_critic_is_called():
    class Squared(FakeNoise):
        def score(self, images, batch):
            return images.flatten(1).square().sum(1)

    real, fake = torch.ones(2, 1, 1, 1), torch.full((3, 1, 1, 1), 2.0)
    real_N, fake_N = Squared(0).scores(real, fake, None)
    assert (real_N.tolist(), fake_N.tolist()) == ([1.0] * 2, [4.0] * 3)


def test_grids_and_evaluations_have_noises_of_their_own():
    module = FakeNoise(0)
    grid, evaluation = module.fixed_noise(3, GRID_SEED), module.fixed_noise(3)
    assert torch.equal(module.fixed_noise(3), evaluation)
    assert not torch.equal(grid, evaluation)


def test_pictures_are_padded_and_tiled():
    images = torch.arange(6.0).view(6, 1, 1, 1).expand(6, 3, 2, 2) / 5 * 2 - 1
    picture = tiled(images, columns=4)
    assert picture.shape == (4, 8, 3)
    assert picture[0, ::2, 0].tolist() == [0, 51, 102, 153]
    assert picture[2, ::2, 0].tolist() == [204, 255, 0, 0]
    assert padded(images, 4)[0, 0, 0].tolist() == [-1.0] * 4
    with pytest.raises(ValueError, match="2x2"):
        padded(images, 5)
