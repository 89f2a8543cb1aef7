"""The training recipe: rates, groups, clipping, and the arms of a comparison treated alike."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import cross_entropy

from papers.nf_resnet.method import SCHEMES
from papers.nf_resnet.module import NFClassifier, clipped_parameters

SMALL = {"depths": [1, 1], "widths": [8, 16], "in_channels": 1}


def classifier(method="nf", batch_size=128, num_steps=90, **settings):
    module = NFClassifier(method, **SMALL, **settings)
    rows = []
    module.run = SimpleNamespace(
        settings=SimpleNamespace(
            data=SimpleNamespace(batch_size=batch_size),
            trainer=SimpleNamespace(log_every_steps=1),
        ),
        recorder=SimpleNamespace(add_mean=lambda name, value, *_, **__: rows.append((name, value))),
    )
    module._trainer = SimpleNamespace(estimated_stepping_batches=num_steps, global_step=0)
    return module, rows


def optimisers(module):
    configured = module.configure_optimizers()
    assert configured["lr_scheduler"]["interval"] == "step"
    return configured["optimizer"], configured["lr_scheduler"]["scheduler"]


@pytest.mark.parametrize(("batch_size", "expected"), [(4, 0.1 / 64), (256, 0.1), (1024, 0.4)])
def test_the_rate_is_in_proportion_to_the_batch(batch_size, expected):
    optimiser, _ = optimisers(classifier(batch_size=batch_size)[0])
    assert [group["initial_lr"] for group in optimiser.param_groups] == pytest.approx(
        [expected] * 3
    )
    assert all(group["nesterov"] for group in optimiser.param_groups)


def test_the_rate_rises_for_five_of_ninety_epochs_and_falls_as_a_cosine():
    module, _ = classifier(batch_size=256)
    optimiser, schedule = optimisers(module)
    rates = []
    for _ in range(90):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        schedule.step()
    assert rates[:6] == pytest.approx([0, 0.02, 0.04, 0.06, 0.08, 0.1])
    assert max(rates) == rates[5]
    assert rates[5:] == sorted(rates[5:], reverse=True)
    assert rates[-1] < 1e-3 * rates[5] + 1e-4


@pytest.mark.parametrize("method", SCHEMES)
def test_every_parameter_is_optimised_once_and_only_weights_decay(method):
    module, _ = classifier(method)
    optimiser, _ = optimisers(module)
    optimised = [id(p) for group in optimiser.param_groups for p in group["params"]]
    assert sorted(optimised) == sorted(id(p) for p in module.parameters())
    for group in optimiser.param_groups:
        for parameter in group["params"]:
            assert (group["weight_decay"] > 0) == (parameter.dim() > 1)


def test_only_fixup_s_scalars_learn_at_a_tenth_of_the_rate():
    for method in ("nf", "skipinit", "fixup"):
        optimiser, _ = optimisers(classifier(method)[0])
        scalar = next(g for g in optimiser.param_groups if g["params"][0].numel() == 1)
        assert scalar["initial_lr"] == pytest.approx(0.05 / (10 if method == "fixup" else 1))


def test_clipping_comes_before_the_step_and_leaves_the_classifier_s_weight():
    module, _ = classifier(agc_limit=0.01)
    optimiser, _ = optimisers(module)
    for parameter in module.parameters():
        parameter.grad = torch.full_like(parameter, 100.0)
    module.on_before_optimizer_step(optimiser)
    net = module.net
    kept = [n for n, p in net.named_parameters() if p.grad.eq(100.0).all()]
    assert kept == ["classifier.weight"]
    assert len(clipped_parameters(net)) == len(list(net.parameters())) - 1
    gain = net.stem[0].parametrizations.weight[0].gain
    assert gain.grad.norm().item() == pytest.approx(0.01 * gain.norm().item())


def test_without_a_limit_nothing_is_clipped():
    module, _ = classifier()
    optimiser, _ = optimisers(module)
    for parameter in module.parameters():
        parameter.grad = torch.full_like(parameter, 100.0)
    module.on_before_optimizer_step(optimiser)
    assert all(p.grad.eq(100.0).all() for p in module.parameters())


def test_the_training_loss_is_smoothed_over_the_classes():
    module, rows = classifier(label_smoothing=0.1)
    module.eval()
    images, labels = torch.randn(6, 1, 8, 8), torch.arange(6)
    loss = module._loss((images, labels))
    log_probabilities = module.net(images).log_softmax(1)
    target = 0.9 * torch.eye(10)[labels] + 0.01
    torch.testing.assert_close(loss, -(target * log_probabilities).sum(1).mean())
    assert (rows[0][0], rows[0][1]) == ("train_loss", loss)
    plain, _ = classifier(label_smoothing=0.0)
    plain.net = module.net
    plain_loss = plain._loss((images, labels))
    torch.testing.assert_close(plain_loss, cross_entropy(module.net(images), labels))
