"""The networks against second implementations, and arms that differ in their norm alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from papers.layernorm.method import normalised_layer
from papers.layernorm.model import MLP, Bias, ConvNet, GRUCell, RowGRU


def randomise(net):
    """Gains and biases away from 1 and 0, or a misplaced one would not be seen."""
    for parameter in net.double().parameters():
        nn.init.normal_(parameter, std=0.5)


def numbers(net):
    return {name: p.detach().numpy() for name, p in net.named_parameters()}


def layer_norm(a, gain, bias):
    mean = a.mean(-1, keepdims=True)
    var = ((a - mean) ** 2).mean(-1, keepdims=True)
    return gain * (a - mean) / np.sqrt(var + 1e-5) + bias


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


@pytest.mark.parametrize("norm_logits", [False, True])
def test_the_mlp_equals_a_second_implementation(norm_logits):
    net = MLP("layernorm", [5, 4], norm_logits, num_inputs=6, num_classes=3)
    randomise(net)
    p = numbers(net)
    x = torch.randn(7, 1, 2, 3, dtype=torch.float64)
    h = x.numpy().reshape(7, 6)
    for linear, norm in ((1, 2), (4, 5)):
        summed = h @ p[f"{linear}.weight"].T
        h = np.maximum(layer_norm(summed, p[f"{norm}.weight"], p[f"{norm}.bias"]), 0)
    logits = h @ p["7.weight"].T
    last = (lambda a, gain, bias: a + bias) if not norm_logits else layer_norm
    logits = last(logits, p.get("8.weight"), p["8.bias"])
    np.testing.assert_allclose(net(x).detach(), logits, rtol=1e-11)


def test_known_placements_of_batch_norm():
    hidden, everywhere = (MLP("batchnorm", [5, 4], n, num_inputs=6) for n in (False, True))
    count = [sum(isinstance(m, nn.BatchNorm1d) for m in net) for net in (hidden, everywhere)]
    assert count == [2, 3]
    assert isinstance(hidden[-1], Bias)
    # The paper's comparison is uneven: layer norm is never before the softmax.
    assert not isinstance(MLP("layernorm", [5, 4], num_inputs=6)[-1], nn.LayerNorm)


def test_the_cell_equals_the_papers_equations():
    cell = GRUCell("layernorm", num_inputs=3, width=4)
    randomise(cell)
    p = numbers(cell)
    x, h = (torch.randn(5, size, dtype=torch.float64) for size in (3, 4))

    def normed(name, a):
        return layer_norm(a, p[f"norm_{name}.weight"], p[f"norm_{name}.bias"])

    gates = sigmoid(
        normed("input_gates", x.numpy() @ p["input_gates.weight"].T)
        + normed("hidden_gates", h.numpy() @ p["hidden_gates.weight"].T)
    )
    z, r = gates[:, :4], gates[:, 4:]
    n = np.tanh(
        normed("input_new", x.numpy() @ p["input_new.weight"].T)
        + r * normed("hidden_new", h.numpy() @ p["hidden_new.weight"].T)
    )
    expected = (1 - z) * h.numpy() + z * n
    np.testing.assert_allclose(cell(*cell.read(x), h).detach(), expected, rtol=1e-11)


def test_without_norms_the_row_reader_is_torchs_gru():
    width, row = 4, 3
    net = RowGRU("none", width, row_length=row)
    randomise(net)
    cell = net.cell
    oracle = nn.GRU(row, width).double()

    def of_torch(gates, new):  # torch has r, z, n, and 1 - z for z
        return torch.cat([gates[width:], -gates[:width], new])

    with torch.no_grad():
        for side, ours in (("ih", "input"), ("hh", "hidden")):
            gates, new = getattr(cell, f"{ours}_gates"), getattr(cell, f"{ours}_new")
            getattr(oracle, f"weight_{side}_l0").copy_(of_torch(gates.weight, new.weight))
            biases = (getattr(cell, f"norm_{ours}_{part}").bias for part in ("gates", "new"))
            getattr(oracle, f"bias_{side}_l0").copy_(of_torch(*biases))
    x = torch.randn(5, 1, 6, row, dtype=torch.float64, requires_grad=True)
    _, state = oracle(x[:, 0].transpose(0, 1))
    expected = net.classifier(state[0])
    torch.testing.assert_close(net(x), expected, rtol=1e-12, atol=1e-12)
    cotangent = torch.randn_like(expected)
    ours, theirs = (torch.autograd.grad(y, x, cotangent)[0] for y in (net(x), expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_layer_norm_of_a_conv_net_spans_channels_and_positions():
    net = ConvNet("layernorm", [4, 6])
    assert [(m.num_groups, m.num_channels) for m in net if isinstance(m, nn.GroupNorm)] == [
        (1, 4),
        (1, 6),
    ]
    x = torch.randn(2, 1, 28, 28)
    normed = net[1](net[0](x))
    torch.testing.assert_close(normed.mean((1, 2, 3)), torch.zeros(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(
        normed.var((1, 2, 3), correction=0), torch.ones(2), atol=1e-2, rtol=0
    )


NETS = {
    "mlp": (lambda norm: MLP(norm, [8, 8]), ("none", "layernorm", "batchnorm")),
    "row_gru": (lambda norm: RowGRU(norm, 8), ("none", "layernorm")),
    "conv_net": (lambda norm: ConvNet(norm, [4, 6]), ("none", "layernorm", "batchnorm")),
}


@pytest.mark.parametrize("name", NETS)
def test_arms_of_one_seed_start_from_the_same_weights_and_all_of_them_learn(name):
    make, norms = NETS[name]
    weights = {}
    for norm in norms:
        torch.manual_seed(0)
        net = make(norm)
        weights[norm] = [p.detach().clone() for p in net.parameters() if p.dim() > 1 and p.any()]
        x, labels = torch.randn(6, 1, 28, 28), torch.arange(6)
        nn.functional.cross_entropy(net(x), labels).backward()
        assert net(x).shape == (6, 10)
        assert all(p.grad.isfinite().all() for p in net.parameters())
        assert all(p.grad.any() for p in net.parameters() if p.dim() > 1)
    for norm in norms:
        for ours, first in zip(weights[norm], weights[norms[0]], strict=True):
            assert torch.equal(ours, first), norm


def test_gains_start_at_1_and_biases_at_0():
    for make, norms in NETS.values():
        for norm in norms:
            for module in make(norm).modules():
                if isinstance(module, Bias):
                    assert not module.bias.any()
                elif isinstance(module, nn.LayerNorm | nn.BatchNorm1d | nn.GroupNorm):
                    assert (module.weight == 1).all()
                    assert not module.bias.any()


@pytest.mark.parametrize(
    "build",
    [
        lambda: ConvNet("layer", [4]),
        lambda: RowGRU("batchnorm", 4),
        lambda: MLP("layer", [4]),
        lambda: normalised_layer("layer", torch.eye(2), torch.eye(2), torch.ones(2), torch.ones(2)),
    ],
)
def test_a_norm_that_is_unknown_is_no_other_norm(build):
    with pytest.raises(KeyError, match=r"layer|batchnorm"):
        build()
