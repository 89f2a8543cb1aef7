"""The training module: what each arm changes."""

from __future__ import annotations

import pytest
import torch

from papers.sngan.module import SETTINGS, SNGAN


def gan(method="sn", **settings):
    return SNGAN(**{"method": method, "setting": "c", "width": 2, "channels": 1, **settings})


def batch():
    return (torch.rand(4, 1, 28, 28) * 2 - 1, torch.zeros(4, dtype=torch.int64))


@pytest.mark.parametrize(
    "method", ["sn", "none", "wn", "clip", "gan_gp", "wgan_gp", "ln", "bn", "orthonormal"]
)
def test_both_losses_reach_their_player(method):
    module = gan(method)
    real = module.real(batch())
    fake = module.generate(module.noise(4), batch())
    assert real.shape == fake.shape == (4, 1, 32, 32)
    module.critic_loss(real, fake.detach(), batch()).backward()
    assert all(p.grad is not None for p in module.critic.parameters())
    module.generator_loss(fake, batch()).backward()
    assert all(
        p.grad is not None and p.grad.isfinite().all() for p in module.generator.parameters()
    )


def test_settings_are_the_rows_of_the_table():
    module = gan(setting="f")
    assert (module.generator_lr, module.critic_lr, module.n_dis) == (1e-3, 1e-3, 5)
    assert module.betas == (0.9, 0.999)
    assert SETTINGS["a"] == (1e-4, 0.5, 0.9, 5)
    assert SETTINGS["d"] == (1e-3, 0.5, 0.9, 5)


def test_wgan_gp_has_the_wasserstein_loss_and_gan_gp_the_loss_of_the_others():
    scores = torch.tensor([3.0, -1.0])
    assert gan("wgan_gp").loss.critic(scores, scores).item() == 0
    assert gan("gan_gp").loss.critic(scores, scores).item() > 0
    assert gan("gan_gp").penalty == gan("wgan_gp").penalty == 10
    assert gan("sn").penalty == 0


def test_batch_norm_sees_real_images_and_fakes_apart():
    module = gan("bn")
    real = module.real(batch())
    alone = module.score(real, None)
    together, _ = module.scores(real, torch.zeros_like(real), None)
    torch.testing.assert_close(together, alone)


def test_clipping_follows_each_critic_step():
    module = gan("clip")
    module.after_critic_step()
    assert max(p.abs().max().item() for p in module.critic.parameters()) <= 0.01


def test_a_resnet_of_a_method_that_has_none_is_refused():
    assert gan("sn", network="resnet").critic(torch.zeros(2, 1, 32, 32)).shape == (2, 1)
    with pytest.raises(ValueError, match="expected sn, none or orthonormal"):
        gan("wn", network="resnet")
