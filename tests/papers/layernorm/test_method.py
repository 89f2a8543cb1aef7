"""The normalised layer against the paper's equations, Table 1, and the known mistakes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from papers.layernorm.method import TABLE_1, fisher, normalised_layer, relative_change

NORMS = ("batchnorm", "weightnorm", "layernorm")


@pytest.fixture
def layer():
    """weight_HD, x_ND, gain_H, bias_H."""
    double = {"dtype": torch.float64}
    return (
        torch.randn(6, 9, **double),
        torch.randn(5, 9, **double),
        torch.randn(6, **double),
        torch.randn(6, **double),
    )


def from_the_equations(kind, weight_HD, x_ND, gain_H, bias_H, eps=0.0):
    """Equations 2 to 4, and section 5.1 for weight norm, unit by unit and case by case."""
    a = np.array([[sum(w * x) for w in weight_HD] for x in x_ND])
    h = np.empty_like(a)
    for n, i in np.ndindex(*a.shape):
        if kind == "weightnorm":
            mean, std = 0.0, np.sqrt(sum(weight_HD[i] ** 2))
        else:
            sums = a[n] if kind == "layernorm" else a[:, i]
            mean = sum(sums) / len(sums)
            std = np.sqrt(sum((sums - mean) ** 2) / len(sums) + eps)
        h[n, i] = gain_H[i] / std * (a[n, i] - mean) + bias_H[i]
    return h


@pytest.mark.parametrize("eps", [0.0, 1e-5, 0.1])
@pytest.mark.parametrize("kind", NORMS)
def test_the_layer_equals_the_equations(layer, kind, eps):
    if kind == "weightnorm" and eps:
        with pytest.raises(ValueError, match=r"eps: got .* with weightnorm, expected 0"):
            normalised_layer(kind, *layer, eps)
        return
    expected = from_the_equations(kind, *(t.numpy() for t in layer), eps)
    np.testing.assert_allclose(normalised_layer(kind, *layer, eps), expected, rtol=1e-12)


@pytest.mark.parametrize("kind", NORMS)
def test_gradients_are_those_of_finite_differences(layer, kind):
    inputs = [t.requires_grad_() for t in layer]
    assert torch.autograd.gradcheck(lambda *t: normalised_layer(kind, *t), inputs)


def test_the_transformations_are_those_of_table_1(layer):
    weight, x = layer[:2]
    changed = {name: change(weight, x) for name, change in TABLE_1.items()}
    for name in ("matrix_rescale", "matrix_recentre", "vector_rescale"):
        assert changed[name][1] is x
    for name in ("data_rescale", "data_recentre", "case_rescale"):
        assert changed[name][0] is weight
    # Re-centring adds the *same* vector to every row, which differs between its elements.
    for moved, rows in ((changed["matrix_recentre"][0], weight), (changed["data_recentre"][1], x)):
        shift = moved - rows
        torch.testing.assert_close(shift, shift[:1].expand_as(shift), rtol=0, atol=1e-12)
        assert shift[0].std() > 0.1
    torch.testing.assert_close(changed["matrix_rescale"][0], 10 * weight)
    torch.testing.assert_close(changed["data_rescale"][1], 10 * x)
    for moved, rows in ((changed["vector_rescale"][0], weight), (changed["case_rescale"][1], x)):
        torch.testing.assert_close(moved[0], 10 * rows[0])
        assert torch.equal(moved[1:], rows[1:])


def change_of(kind, layer, transformation, eps=0.0):
    weight, x, gain, bias = layer
    before = normalised_layer(kind, weight, x, gain, bias, eps)
    after = normalised_layer(kind, *TABLE_1[transformation](weight, x), gain, bias, eps)
    return relative_change(before, after)


def test_known_mistake_an_eps_makes_scale_invariance_approximate(layer):
    for transformation in ("matrix_rescale", "data_rescale", "case_rescale"):
        assert change_of("layernorm", layer, transformation) < 1e-13
        assert 1e-9 < change_of("layernorm", layer, transformation, eps=1e-5) < 1e-4
    # Re-centring leaves the variance alone, and so does not meet the eps.
    assert change_of("layernorm", layer, "matrix_recentre", eps=1e-5) < 1e-13


def test_known_mistake_unbiased_deviation_with_eps_outside_the_root(layer):
    weight, x, gain, bias = layer
    a = x @ weight.T
    mistaken = gain * (a - a.mean(1, keepdim=True)) / (a.std(1, keepdim=True) + 1e-6) + bias
    right = normalised_layer("layernorm", weight, x, gain, bias)
    # With H = 6 units the mistaken deviation is sqrt(6 / 5) too large.
    ratio = (right - bias) / (mistaken - bias)
    torch.testing.assert_close(ratio, torch.full_like(a, 1.2**0.5), rtol=1e-5, atol=0)
    assert relative_change(right, mistaken) > 0.03


def test_rounding_of_table_1_is_seen_as_relative_change():
    before = torch.tensor([[3.0, 4.0], [0.0, 2.0]])
    after = torch.tensor([[3.0, 4.0], [0.0, 3.0]])
    assert relative_change(before, after) == 0.5


def test_fisher_is_the_mean_outer_product_of_the_score():
    """E_y [score score^T] over the model's own labels: the definition, label by label."""
    x = torch.randn(4, 3, dtype=torch.float64)
    point = torch.randn(6, dtype=torch.float64)

    def logits(p):
        return x @ p.view(3, 2).tanh()

    expected = torch.zeros(6, 6, dtype=torch.float64)
    for n in range(4):
        for k in range(2):
            p = point.clone().requires_grad_()
            log_probability = logits(p)[n].log_softmax(0)[k]
            (score,) = torch.autograd.grad(log_probability, p)
            expected += log_probability.exp().detach() * torch.outer(score, score) / 4
    torch.testing.assert_close(fisher(logits, point), expected, rtol=1e-12, atol=1e-14)
