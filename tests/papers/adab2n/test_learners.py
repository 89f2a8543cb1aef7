"""ER-ACE, DER++, the networks, the accuracies and the distances, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from papers.adab2n.accuracy import accuracy_by_task, forgetting
from papers.adab2n.learners import DERPP, ERACE, seen_classes_only
from papers.adab2n.method import AdaB2N, layers
from papers.adab2n.model import NormFactory, build
from papers.adab2n.statistics import distances
from shared.data.reservoir import Reservoir
from shared.data.stream import TaskSplit
from shared.norms import BatchNorm2d

K = 6


def factory(norm, **settings):
    known = {"num_tasks": 3, "kappa": 0.4, "task_weights": "bayes", "momentum": 0.1}
    return NormFactory(norm, **known, num_groups=4, **settings)


def replay(num=20):
    """A net of one layer, a batch of new images of classes 4 and 5, and a full buffer."""
    generator = torch.Generator().manual_seed(0)
    net = nn.Linear(3, K)
    buffer = Reservoir(num, seed=0)
    x = torch.randn(num, 3, generator=generator)
    buffer.add(x, torch.arange(num) % 4, torch.randn(num, K, generator=generator))
    return net, buffer, (torch.randn(4, 3, generator=generator), torch.tensor([4, 5, 4, 4]))


@pytest.mark.parametrize(
    ("places", "latest", "kept"),
    [
        ([2, 3], 3, [2, 3, 4, 5]),
        ([2, 2], 2, [2, 3, 4, 5]),
        # Three classes a task: 3 and 5 were seen before this batch and are not in it.
        ([4, 4], 4, [4, 5]),
        ([3, 3], 4, [3, 4, 5]),
        # The last class of all was seen: only the batch's own are left.
        ([3, 4], 5, [3, 4]),
        ([4, 4], 5, [4]),
    ],
)
def test_new_images_do_not_push_down_the_classes_of_earlier_batches(places, latest, kept):
    masked = seen_classes_only(torch.zeros(2, K), torch.tensor(places), latest)
    assert torch.nonzero(masked[0] == 0)[:, 0].tolist() == kept


def test_er_ace_adds_two_cross_entropies():
    net, buffer, (x, places) = replay()
    drawn = []

    def forward(*batches):
        drawn.extend(batches)
        return [net(batch[0]) for batch in batches]

    step = ERACE()(forward, (x, places), buffer, replay_size=5, task=2, latest=5)
    _, (old_x, old_places) = drawn
    new = cross_entropy(net(x)[:, 4:], places - 4)
    assert len(old_x) == 5
    assert step.replayed
    assert torch.allclose(step.loss, new + cross_entropy(net(old_x), old_places))


def test_er_ace_does_not_replay_in_the_first_task():
    net, buffer, batch = replay()
    step = ERACE()(
        lambda *b: [net(x) for x, _ in b], batch, buffer, replay_size=5, task=0, latest=5
    )
    assert not step.replayed
    assert torch.allclose(step.loss, cross_entropy(net(batch[0]), batch[1]))


def test_derpp_holds_old_logits_and_replays_labels():
    net, buffer, (x, places) = replay()
    drawn = []

    def forward(*batches):
        drawn.extend(batches)
        return [net(batch[0]) for batch in batches]

    state = buffer.state_dict()
    step = DERPP(alpha=0.2, beta=0.5)(forward, (x, places), buffer, replay_size=5, task=0, latest=5)
    buffer.load_state_dict(state)
    first, second = buffer.sample(5), buffer.sample(5)
    assert torch.equal(drawn[1][0], first[0]) and torch.equal(drawn[2][0], second[0])
    expected = cross_entropy(net(x), places)
    expected = expected + 0.2 * (net(first[0]) - first[2]).square().mean()
    expected = expected + 0.5 * cross_entropy(net(second[0]), second[1])
    assert torch.allclose(step.loss, expected)


@pytest.mark.parametrize("network", ["small_cnn", "resnet18"])
@pytest.mark.parametrize("norm", ["batch", "adab2n", "continual", "group", "layer", "instance"])
def test_every_network_has_the_norm_of_its_arm_and_no_other(network, norm):
    net = build(network, factory(norm), in_channels=1, width=8, num_classes=K)
    assert net(torch.randn(2, 1, 32, 32)).shape == (2, K)
    assert (len(layers(net)) > 0) == (norm == "adab2n")
    convolutions = [m for m in net.modules() if isinstance(m, nn.Conv2d)]
    norms = [m for m in net.modules() if hasattr(m, "running_var") or isinstance(m, nn.GroupNorm)]
    assert len(norms) == len(convolutions) * (2 if norm == "continual" else 1)


def test_the_full_network_is_a_resnet18_of_64_filters():
    net = build("resnet18", factory("batch"), in_channels=3, width=64, num_classes=10)
    parameters = sum(p.numel() for p in net.parameters())
    assert parameters == 11_173_962
    shapes = []
    hook = nn.Module.register_forward_hook
    for block in net.blocks:
        hook(block, lambda _, __, y: shapes.append(tuple(y.shape[1:])))
    net(torch.randn(2, 3, 32, 32))
    assert shapes[1::2] == [(64, 32, 32), (128, 16, 16), (256, 8, 8), (512, 4, 4)]


def test_group_norms_do_not_see_whether_batches_are_joint():
    net = build("small_cnn", factory("group"), in_channels=1, width=8, num_classes=K)
    x = torch.randn(6, 1, 28, 28)
    assert torch.allclose(net(x)[:3], net(x[:3]), atol=1e-6)


def test_accuracy_is_among_all_classes():
    split = TaskSplit(range(4), 2)
    logits = torch.eye(4)[[0, 3, 2, 2]]
    accuracy = accuracy_by_task(logits, torch.tensor([0, 1, 2, 3]), split)
    assert accuracy.tolist() == [50, 50]


def test_forgetting_looks_at_the_best_accuracy_before_the_end():
    matrix = torch.tensor([[90.0, 0, 0], [95, 80, 0], [70, 85, 60]])
    assert forgetting(matrix).item() == pytest.approx((25 - 5) / 2)


def test_distances_against_numpy():
    layer = BatchNorm2d(2).double()
    layer(torch.randn(8, 2, 3, 3, dtype=torch.float64))
    x = torch.randn(6, 2, 3, 3, dtype=torch.float64) * 2 + 1
    task = torch.tensor([0, 0, 1, 1, 2, 2])
    found = {name: value for name, value, _ in distances(nn.Sequential(layer).eval(), x, task)}
    for name, chosen in [
        ("seen_tasks", slice(0, 6)),
        ("current_task", slice(4, 6)),
        ("earlier_tasks", slice(0, 4)),
    ]:
        part = x[chosen].numpy()
        mean, var = part.mean((0, 2, 3)), part.var((0, 2, 3)) + layer.eps
        away = np.abs(layer.running_mean.numpy() - mean) / np.sqrt(var)
        ratio = np.abs(np.log((layer.running_var.numpy() + layer.eps) / var))
        assert found[f"running_mean_distance_to_{name}"] == pytest.approx(away.mean())
        assert found[f"running_var_distance_to_{name}"] == pytest.approx(ratio.mean())
    recency = [found[f"running_mean_distance_to_{n}"] for n in ("earlier_tasks", "current_task")]
    assert found["running_mean_recency"] == pytest.approx(recency[0] - recency[1])


def test_without_running_statistics_there_is_no_distance():
    net = build("small_cnn", factory("group"), in_channels=1, width=8, num_classes=K)
    assert list(distances(net, torch.randn(4, 1, 8, 8), torch.tensor([0, 0, 1, 1]))) == []


def test_an_unknown_norm_is_an_error():
    with pytest.raises(AssertionError, match="weight"):
        factory("weight")(8)
    assert isinstance(factory("adab2n")(8), AdaB2N)
