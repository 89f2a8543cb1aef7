"""The networks: a second implementation of the blocks, shapes, parameters, very many layers."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import batch_norm, conv2d, cross_entropy, linear, relu

from papers.fixup.imagenet import Bottleneck, FixupResNet50
from papers.fixup.method import parameter_groups
from papers.fixup.model import (
    BasicBlock,
    BatchNormBasicBlock,
    ConvResNet,
    PoolShortcut,
    PreActivationBlock,
    ResidualMLP,
    WideResNet,
    branches_of,
)

METHODS = ("batchnorm", "fixup", "zero_init", "he", "xavier")


# A second implementation, written from the three rules as functions of plain tensors.


def rule_3_basic(x, p, stride):
    """Right side of Figure 1: bias, conv, bias, relu, bias, conv, multiplier, bias, add, relu."""
    entering = x + p["bias1a.bias"]
    hidden = conv2d(entering, p["conv1.weight"], stride=stride, padding=1) + p["bias1b.bias"]
    hidden = hidden.clamp(min=0) + p["bias2a.bias"]
    hidden = conv2d(hidden, p["conv2.weight"], padding=1)
    hidden = hidden * p["multiplier.scale"] + p["bias2b.bias"]
    skipped = x
    if stride == 2:
        kept = entering[:, :, ::2, ::2]
        skipped = torch.cat([kept, 0 * kept], dim=1)
    return (skipped + hidden).clamp(min=0)


def rule_3_bottleneck(x, p, stride):
    entering = x + p["bias1a.bias"]
    hidden = (conv2d(entering, p["conv1.weight"]) + p["bias1b.bias"]).clamp(min=0)
    hidden = conv2d(hidden + p["bias2a.bias"], p["conv2.weight"], stride=stride, padding=1)
    hidden = (hidden + p["bias2b.bias"]).clamp(min=0)
    hidden = conv2d(hidden + p["bias3a.bias"], p["conv3.weight"])
    hidden = hidden * p["multiplier.scale"] + p["bias3b.bias"]
    skipped = conv2d(entering, p["shortcut.weight"], stride=stride) if "shortcut.weight" in p else x
    return (skipped + hidden).clamp(min=0)


def rule_3_preactivation(x, p, _):
    hidden = (x + p["bias1a.bias"]).clamp(min=0) + p["bias1b.bias"]
    hidden = linear(hidden, p["layer1.weight"])
    hidden = (hidden + p["bias2a.bias"]).clamp(min=0) + p["bias2b.bias"]
    return x + p["multiplier.scale"] * linear(hidden, p["layer2.weight"])


def mlp_block():
    layers = nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False)
    return PreActivationBlock(*layers, shortcut=nn.Identity())


BLOCKS = {
    "basic": (lambda: BasicBlock(4, 4, 1, False), rule_3_basic, (3, 4, 6, 6), 1),
    "basic, down": (lambda: BasicBlock(4, 8, 2, False), rule_3_basic, (3, 4, 6, 6), 2),
    "basic, per channel": (lambda: BasicBlock(4, 8, 2, True), rule_3_basic, (3, 4, 6, 6), 2),
    "bottleneck": (lambda: Bottleneck(8, 2, 1), rule_3_bottleneck, (3, 8, 6, 6), 1),
    "bottleneck, wider": (lambda: Bottleneck(4, 2, 1), rule_3_bottleneck, (3, 4, 6, 6), 1),
    "bottleneck, down": (lambda: Bottleneck(4, 2, 2), rule_3_bottleneck, (3, 4, 6, 6), 2),
    "preactivation": (mlp_block, rule_3_preactivation, (40, 6), 1),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_equals_a_second_implementation_forward_and_backward(name):
    make, second, shape, stride = BLOCKS[name]
    torch.manual_seed(0)
    block = make().double()
    # Biases and multipliers away from 0 and 1, or a misplaced one would not be seen.
    for parameter in block.parameters():
        nn.init.normal_(parameter, std=0.5)
    copies = {key: p.detach().clone().requires_grad_() for key, p in block.named_parameters()}
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    x_copy = x.detach().clone().requires_grad_()

    out, expected = block(x), second(x_copy, copies, stride)
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
    assert (out > 0).any()

    cotangent = torch.randn_like(out)
    out.backward(cotangent)
    expected.backward(cotangent)
    torch.testing.assert_close(x.grad, x_copy.grad, rtol=1e-12, atol=1e-12)
    for key, parameter in block.named_parameters():
        assert parameter.grad.abs().max() > 0, key
        torch.testing.assert_close(parameter.grad, copies[key].grad, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("stride", [1, 2])
def test_the_batchnorm_block_is_he_et_als(stride):
    torch.manual_seed(0)
    block = BatchNormBasicBlock(4, 4 * stride, stride).double()
    for parameter in block.parameters():
        nn.init.normal_(parameter)
    p = dict(block.named_parameters())
    x = torch.randn(3, 4, 6, 6, dtype=torch.float64)

    def norm(h, name):
        return batch_norm(
            h, None, None, p[f"{name}.weight"], p[f"{name}.bias"], training=True, eps=1e-5
        )

    hidden = relu(norm(conv2d(x, p["conv1.weight"], stride=stride, padding=1), "norm1"))
    hidden = norm(conv2d(hidden, p["conv2.weight"], padding=1), "norm2")
    kept = x[:, :, ::stride, ::stride]
    skipped = torch.cat([kept, 0 * kept], dim=1) if stride == 2 else x
    torch.testing.assert_close(block(x), relu(skipped + hidden), rtol=1e-12, atol=1e-12)


def test_the_pool_shortcut_subsamples_and_appends_zero_channels_last():
    x = torch.arange(16.0).view(1, 1, 4, 4) + 1
    out = PoolShortcut(1, 3, 2)(x)
    assert out[0, 0].tolist() == [[1.0, 3.0], [9.0, 11.0]]
    assert not out[0, 1:].any()


def count(net):
    return sum(p.numel() for p in net.parameters())


def layers_of(net):
    return [tuple(m.weight.shape) for m in net.modules() if isinstance(m, nn.Conv2d | nn.Linear)]


NETS = {
    "mlp": (lambda method: ResidualMLP(method, 3, width=8), (4, 1, 28, 28)),
    "wide": (lambda method: WideResNet(method, 16, width=4), (4, 3, 16, 16)),
    "resnet": (lambda method: ConvResNet(method, 14, width=4), (4, 3, 16, 16)),
    "resnet, small images": (
        lambda method: ConvResNet(method, 14, 4, in_channels=1, stem_stride=2),
        (4, 1, 28, 28),
    ),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", NETS)
def test_every_arm_maps_images_to_logits_and_learns(name, method):
    make, shape = NETS[name]
    torch.manual_seed(0)
    net = make(method)
    x, labels = torch.randn(shape), torch.tensor([0, 1, 2, 3])
    optimiser = torch.optim.SGD(parameter_groups(net, lr=1e-3))
    for _ in range(3):  # the second layer of a branch needs three steps to be reached
        optimiser.zero_grad()
        cross_entropy(net(x), labels).backward()
        optimiser.step()
    assert net(x).shape == (4, 10)
    assert all(p.grad.isfinite().all() for p in net.parameters())
    assert all(p.grad.any() for branch in branches_of(net) for p in [branch[0].weight])


@pytest.mark.parametrize("name", NETS)
def test_arms_have_the_same_layers_and_unnormalised_ones_the_same_parameters(name):
    make, _ = NETS[name]
    nets = {method: make(method) for method in METHODS}
    layers = [layers_of(net) for net in nets.values()]
    assert all(shapes == layers[0] for shapes in layers)
    assert len({count(nets[m]) for m in METHODS if m != "batchnorm"}) == 1


def test_parameters_of_the_papers_resnet_110():
    # The CIFAR ResNet of He et al. (2016) without projection shortcuts has 1,727,962.
    assert count(ConvResNet("batchnorm", 110)) == 1_727_962
    num_norm = 2 * (37 * 16 + 36 * 32 + 36 * 64)
    num_scalars = 54 * 5 + 2
    assert count(ConvResNet("fixup", 110)) == 1_727_962 - num_norm + num_scalars


def test_batchnorm_has_no_scalars_and_the_other_arms_no_batchnorm():
    for name, (make, _) in NETS.items():
        modules = {m: {type(x).__name__ for x in make(m).modules()} for m in METHODS}
        assert not {"ScalarBias", "ScalarMultiplier"} & modules.pop("batchnorm"), name
        assert not any("BatchNorm" in kind for kinds in modules.values() for kind in kinds), name


@pytest.mark.parametrize(
    ("make", "depth"), [(ConvResNet, 21), (ConvResNet, 2), (WideResNet, 20), (WideResNet, 4)]
)
def test_a_depth_that_does_not_exist_is_an_error(make, depth):
    with pytest.raises(ValueError, match=f"depth: got {depth}, expected 6n"):
        make("fixup", depth)


@pytest.mark.parametrize("depth", [10, 100, 1000])
def test_the_depths_of_figure_3_are_depths_of_a_wide_resnet(depth):
    net = WideResNet("fixup", depth, width=1)
    assert 2 * len(branches_of(net)) + 4 == depth


def test_per_channel_is_not_defined_for_batchnorm():
    with pytest.raises(ValueError, match="per_channel: got True with batchnorm"):
        ConvResNet("batchnorm", 8, 4, per_channel=True)


def test_resnet_50_has_16_branches_of_three_layers_scaled_by_a_half():
    torch.manual_seed(0)
    net = FixupResNet50(num_classes=5)
    branches = branches_of(net)
    assert [len(branch) for branch in branches] == [3] * 16
    for first, second, last in branches:
        for layer in (first, second):
            fan_in = layer.weight[0].numel()
            expected = (2 / fan_in) ** 0.5 * 16**-0.25
            assert layer.weight.std().item() == pytest.approx(expected, rel=0.05)
        assert not last.weight.any()
    assert net(torch.randn(2, 3, 64, 64)).shape == (2, 5)
    # 25,557,032 are torchvision's ResNet-50 with 1,000 classes, of which 53,120 are BatchNorm's.
    assert count(FixupResNet50()) == 25_557_032 - 53_120 + 16 * 7 + 2


def test_a_net_of_10_000_blocks_builds_and_steps():
    torch.manual_seed(0)
    net = ResidualMLP("fixup", num_blocks=10_000, width=4, in_features=4)
    x, labels = torch.randn(8, 4), torch.arange(8)
    optimiser = torch.optim.SGD(parameter_groups(net, lr=0.1), fused=True)
    loss = cross_entropy(net(x), labels)
    loss.backward()
    optimiser.step()
    with torch.no_grad():
        assert cross_entropy(net(x), labels) < loss
