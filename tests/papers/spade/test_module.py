"""The training module: losses, what the critic sees, and what is shown."""

from __future__ import annotations

import pytest
import torch

from papers.spade.collages import PATCH, CollageSynthesis, edited
from papers.spade.module import Synthesis, coloured


def gan(method="spade", **changes):
    settings = {
        "channels": [6, 6, 4, 4, 4],
        "sizes": [4, 8, 16, 32],
        "hidden": 4,
        "critic_width": 4,
        "critic_layers": 2,
        "noise_size": 7,
    }
    return CollageSynthesis(method=method, **settings | changes)


def batch(num=3):
    images = torch.rand(num, 1, 32, 32) * 2 - 1
    labels = torch.randint(11, (num, 1, 32, 32)).float()
    return torch.cat([images, labels], 1), torch.zeros(num, dtype=torch.int64)


@pytest.mark.parametrize("losses", [{}, {"l1": 10.0}, {"matching": 10.0, "critic_scales": 2}])
@pytest.mark.parametrize("method", ["spade", "spade_1x1", "clade", "concat", "input_only"])
def test_both_losses_reach_their_player(method, losses):
    module, data = gan(method, source="map", **losses), batch()
    real, fake = module.real(data), module.generate(module.noise(3), data)
    assert real.shape == fake.shape == (3, 1, 32, 32)
    module.critic_loss(real, fake.detach(), data).backward()
    assert all(p.grad is not None for p in module.critic.parameters())
    module.generator_loss(fake, data).backward()
    assert all(
        p.grad is not None and p.grad.isfinite().all() for p in module.generator.parameters()
    )


def test_the_critic_sees_real_images_and_fakes_in_one_batch_each_beside_its_map():
    module, data = gan(), batch()
    seen = []
    module.critic.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    real, fake = module.real(data), torch.zeros(3, 1, 32, 32)
    module.critic_loss(real, fake, data)
    (both,) = seen
    torch.testing.assert_close(both[:, :1], torch.cat([real, fake]))
    labels = data[0][:, 1].long()
    assert torch.equal(both[:, 1:].argmax(1), torch.cat([labels, labels]))


def test_the_losses_by_hand():
    module, data = gan(l1=2.0).eval(), batch()
    real, fake = module.real(data), torch.rand(3, 1, 32, 32)
    maps = module.encoded(data[0][:, 1].long())
    scores = {
        kind: module.critic(torch.cat([x, maps], 1))[0][-1]
        for kind, x in [("real", real), ("fake", fake)]
    }
    hinge = (1 - scores["real"]).relu().mean() + (1 + scores["fake"]).relu().mean()
    torch.testing.assert_close(module.critic_loss(real, fake, data), hinge)
    expected = -scores["fake"].mean() + 2 * (fake - real).abs().mean()
    torch.testing.assert_close(module.generator_loss(fake, data), expected)


def test_each_scale_of_the_critic_counts_as_much():
    module, data = gan(critic_scales=2).eval(), batch()
    fake = torch.rand(3, 1, 32, 32)
    maps = module.encoded(data[0][:, 1].long())
    large, small = (scale[-1].mean() for scale in module.critic(torch.cat([fake, maps], 1)))
    torch.testing.assert_close(module.generator_loss(fake, data), -(large + small) / 2)
    scores = [scale[-1] for scale in module.critic(torch.cat([fake, maps], 1))]
    by_hand = sum((1 - s).relu().mean() + (1 + s).relu().mean() for s in scores) / 2
    torch.testing.assert_close(module.critic_loss(fake, fake, data), by_hand)


def test_an_edit_changes_one_label_and_the_small_edit_is_off_the_coarse_grids():
    labels = torch.tensor([[[0, 3, 10], [3, 3, 10]]])
    assert edited(labels).tolist() == [[[0, 3, 1], [3, 3, 1]]]
    changed = torch.zeros(1, 32, 32)
    changed[PATCH] = 1
    assert not changed[:, ::8, ::8].any()
    assert not changed[:, ::4, ::4].any()
    assert changed[:, ::2, ::2].any()


def test_labels_have_different_colours_and_the_canvas_is_black():
    shown = coloured(torch.arange(11).view(1, 1, 11), 11)
    assert shown.shape == (1, 3, 1, 11)
    assert shown[0, :, 0, 0].tolist() == [-1, -1, -1]
    assert len({tuple(c) for c in shown[0, :, 0].T.tolist()}) == 11


def test_layers_start_as_glorots():
    linear = gan(noise_size=100, channels=[32, 6, 4, 4, 4]).generator.head
    expected = (2 / (100 + 512)) ** 0.5
    assert linear.weight.std().item() == pytest.approx(expected, rel=0.05)
    assert not linear.bias.any()


def test_the_base_shows_nothing_of_its_own():
    with pytest.raises(NotImplementedError):
        Synthesis("spade", [4, 4], [32]).shown()
