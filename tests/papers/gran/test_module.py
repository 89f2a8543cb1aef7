"""The training module: what each arm changes, and what it records."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from papers.gran import module as of_paper
from papers.gran.method import METHODS, slopes
from papers.gran.module import GranGAN, tiny_gradient_share
from shared.training.recorder import Recorder


def gan(method="gran", **settings):
    return GranGAN(**{"method": method, "width": 2, "channels": 1, "eps": 1e-3, **settings})


def images(num=4):
    return torch.rand(num, 1, 32, 32) * 2 - 1


def recorded(module):
    """The rows that an evaluation of the slopes makes, without a trainer."""
    module.run = SimpleNamespace(recorder=Recorder())
    module._record_slopes()
    return {row.metric: row.value for row in module.run.recorder.rows()}


@pytest.fixture(autouse=True)
def _few_images(monkeypatch):
    monkeypatch.setattr(of_paper, "NUM_PROBED", 8)
    monkeypatch.setattr(of_paper, "image_loader", lambda run, train: [(images(16), None)])


@pytest.mark.parametrize("network", ["cnn", "resnet"])
@pytest.mark.parametrize("loss", ["non_saturating", "hinge", "wasserstein"])
@pytest.mark.parametrize("method", METHODS)
def test_both_losses_reach_their_player(method, loss, network):
    module = gan(method, loss=loss, network=network)
    real, fake = images(), module.generate(module.noise(4), None)
    assert fake.shape == real.shape
    module.critic_loss(real, fake.detach(), None).backward()
    # With a Wasserstein loss a bias that shifts all scores alike gets no gradient.
    assert all(p.grad is not None for n, p in module.critic.named_parameters() if "bias" not in n)
    module.critic.requires_grad_(False)
    module.generator_loss(fake, None).backward()
    grads = [p.grad for p in module.generator.parameters()]
    assert all(grad is not None and grad.isfinite().all() for grad in grads)


@pytest.mark.parametrize("method", METHODS)
def test_the_generators_loss_is_that_of_the_scores_of_the_critics_step(method):
    module = gan(method).double().eval()
    fake = images().double().requires_grad_()
    short = module.generator_loss(fake, None)
    full = module.loss.generator(module.score(fake, None))
    torch.testing.assert_close(short, full)
    grads = [torch.autograd.grad(loss, fake)[0] for loss in (short, full)]
    torch.testing.assert_close(*grads, rtol=1e-9, atol=1e-12)


def test_only_spectral_norm_has_buffers_and_only_the_penalty_a_penalty():
    for method in METHODS:
        module = gan(method)
        assert bool(list(module.critic.buffers())) == (method == "sn")
        assert module.penalty == (10 if method == "gp" else 0)


def test_k_multiplies_the_score():
    torch.manual_seed(0)
    x = images().double()
    for method in ("none", "sn", "gn", "gran"):
        module = gan(method).double().eval()
        once = module.score(x, None)
        module.lipschitz = 5.0
        torch.testing.assert_close(module.score(x, None), 5 * once)


def test_slopes_are_recorded_as_parts_of_k():
    module = gan(lipschitz=4.0, eps=1e-9)
    rows = recorded(module)
    assert set(rows) == {
        "network_slope", "below_eps_share", "score_slope", "score_slope_max", "slope_excess",
        "tiny_gradient_share",
    }  # fmt: skip
    assert rows["score_slope_max"] == pytest.approx(1, abs=1e-3)
    assert rows["slope_excess"] < 1e-5
    free = gan("none")
    with torch.no_grad():
        free.critic[-1].weight.mul_(1e3)
    assert recorded(free)["slope_excess"] > 1


def test_mistake_a_slope_far_below_eps_leaves_no_score_and_is_logged():
    module = gan(eps=1e3)
    rows = recorded(module)
    assert rows["below_eps_share"] == 1
    assert rows["network_slope"] < 1
    assert rows["score_slope_max"] < 1e-2
    assert recorded(gan(eps=1e-12))["below_eps_share"] == 0
    # It is w squared that eps is compared with.
    module.eps = 9 * rows["network_slope"] ** 2
    assert rows["network_slope"] < 0.1
    assert recorded(module)["below_eps_share"] > 0.9


def test_tiny_gradients_are_counted_for_each_sample():
    module = gan("none", loss="hinge")
    with torch.no_grad():
        for parameter in module.critic.parameters():
            parameter.zero_()
    x = images()
    assert tiny_gradient_share(module, x, x).item() == 0
    module.critic[-1].bias.data.fill_(2.0)  # real ones are right and done, fakes are wrong
    assert tiny_gradient_share(module, x, x).item() == 0.5
    module.loss = of_paper.Adversarial(loss="non_saturating").loss
    module.critic[-1].bias.data.fill_(-5.0)  # sigmoid(-5) = 0.0067
    assert tiny_gradient_share(module, x, x).item() == 0.5
    module.critic[-1].bias.data.fill_(-4.0)  # sigmoid(-4) = 0.018, but a fourth of it in the mean
    assert tiny_gradient_share(module, x, x).item() == 0


def test_evaluating_does_not_move_the_power_iteration(monkeypatch):
    monkeypatch.setattr(of_paper.Adversarial, "evaluate", lambda self: None)
    module = gan("sn")
    before = [b.clone() for b in module.critic.buffers()]
    module.run = SimpleNamespace(recorder=Recorder())
    module.evaluate()
    assert module.run.recorder.has("score_slope", split="train", step=0)
    assert all(torch.equal(a, b) for a, b in zip(before, module.critic.buffers(), strict=True))
    assert module.critic.training


def test_the_decades_between_the_gradients_and_adams_eps(monkeypatch):
    module = gan()
    adam = torch.optim.Adam(module.critic.parameters(), betas=module.betas)
    monkeypatch.setattr(module, "optimizers", lambda **_: (None, adam))
    for parameter in module.critic.parameters():
        parameter.grad = torch.full_like(parameter, -1e-6)
    module.critic[0].weight.grad.fill_(1e-10)  # the smaller half
    for _ in range(2):
        adam.step()
    assert module._adam_room().item() == pytest.approx(2, abs=1e-3)


def test_the_distance_at_equal_steps_is_recorded_once_more():
    module = gan(equal_steps=0)
    module.run = SimpleNamespace(recorder=Recorder())
    module.record("fid", 3.0, "FID", split="test")
    module.record("kid", 3.0, "KID", split="test")
    names = [row.metric for row in module.run.recorder.rows()]
    assert names == ["fid", "fid_at_equal_steps", "kid"]
    module = gan(equal_steps=7)
    module.run = SimpleNamespace(recorder=Recorder())
    module.record("fid", 3.0, "FID", split="test")
    assert len(module.run.recorder.rows()) == 1


@pytest.mark.parametrize(
    "bad",
    [
        {"eps": -1.0},
        {"lipschitz": 0.0},
        {"method": "gp", "lipschitz": 2},
        {"network": "resnet", "activation": "tanh"},
    ],
)
def test_bad_settings_are_refused(bad):
    with pytest.raises(ValueError, match="got"):
        gan(**bad)


def test_the_bound_holds_after_steps_of_both_players():
    from papers.gran.measurements import play

    module = gan(loss="hinge", eps=1e-4)
    play(module, images(32), steps=5, batch_size=8)
    slope_N = slopes(lambda x: module.score(x, None), images(16))
    assert slope_N.max() <= 1 + 1e-5
