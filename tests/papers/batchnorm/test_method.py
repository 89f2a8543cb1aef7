"""BatchNorm against Algorithms 1 and 2 written from the equations; known mistakes by name."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from papers.batchnorm.method import conv, dense, inference_affine
from shared.norms import BatchNorm1d, BatchNorm2d
from tests.papers.batchnorm import naive

EPS = 0.1  # large enough to see where it stands


def layer(kind=BatchNorm1d, features=5, **settings):
    norm = kind(features, eps=EPS, **settings).double()
    nn.init.uniform_(norm.weight, 0.5, 2.0)
    nn.init.normal_(norm.bias)
    return norm


def array(tensor):
    return tensor.detach().numpy()


def data(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_dense_forward_and_backward_are_the_equations():
    norm, x, dy = layer(), 3 * data(8, 5) + 1, data(8, 5, seed=1)
    x.requires_grad_()
    y = norm(x)
    got = torch.autograd.grad(y, [x, norm.weight, norm.bias], dy)
    gamma, beta = array(norm.weight), array(norm.bias)
    np.testing.assert_allclose(array(y), naive.batch_norm(array(x), gamma, beta, EPS), rtol=1e-12)
    expected = naive.batch_norm_backward(array(x), gamma, EPS, array(dy))
    for mine, theirs in zip(got, expected, strict=True):
        np.testing.assert_allclose(array(mine), theirs, rtol=1e-11, atol=1e-12)


def test_known_mistake_a_feature_map_is_one_group_of_all_its_places():
    norm, x, dy = layer(BatchNorm2d, 3), data(4, 3, 2, 5), data(4, 3, 2, 5, seed=1)
    assert norm.weight.shape == norm.bias.shape == (3,)
    x.requires_grad_()
    y = norm(x)
    (dx,) = torch.autograd.grad(y, [x], dy)
    x_MC, dy_MC = naive.places(array(x)), naive.places(array(dy))
    expected = naive.batch_norm(x_MC, array(norm.weight), array(norm.bias), EPS)
    np.testing.assert_allclose(array(y), naive.images(expected, x.shape), rtol=1e-12)
    expected = naive.batch_norm_backward(x_MC, array(norm.weight), EPS, dy_MC)[0]
    np.testing.assert_allclose(array(dx), naive.images(expected, x.shape), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(("kind", "shape"), [(BatchNorm1d, (6, 2)), (BatchNorm2d, (2, 2, 3, 1))])
def test_known_mistake_biased_variance_normalises_and_the_unbiased_one_goes_to_inference(
    kind, shape
):
    norm, x = layer(kind, 2, momentum=None), data(*shape)
    y = (norm(x) - norm.bias.view(1, -1, *[1] * (len(shape) - 2))).transpose(0, 1).flatten(1)
    x_CM = x.transpose(0, 1).flatten(1)
    biased = x_CM.var(1, correction=0)
    ratio = (y.var(1, correction=0) / norm.weight**2).detach()
    torch.testing.assert_close(ratio, biased / (biased + EPS))
    torch.testing.assert_close(norm.running_var, biased * 6 / 5)


def test_known_mistake_momentum_is_the_share_of_the_new_batch():
    norm, x = layer(momentum=0.1), data(8, 5) + 4
    norm(x)
    torch.testing.assert_close(norm.running_mean, 0.1 * x.mean(0))
    torch.testing.assert_close(norm.running_var, 0.9 + 0.1 * x.var(0))


def test_known_mistake_eps_is_inside_the_root():
    norm, x = layer(), data(8, 5)
    y = norm(x)
    std, mean = x.std(0, correction=0), x.mean(0)
    inside = norm.weight * (x - mean) / (std**2 + EPS).sqrt() + norm.bias
    outside = norm.weight * (x - mean) / (std + EPS) + norm.bias
    torch.testing.assert_close(y, inside)
    assert (y - outside).abs().max() > 1e-2


def test_inference_is_one_affine_map():
    norm = layer(momentum=None)
    batches = [data(8, 5, seed=seed) * 2 + 1 for seed in range(4)]
    for x in batches:
        norm(x)
    mean = np.mean([array(x).mean(0) for x in batches], axis=0)
    var = np.mean([array(x).var(0, ddof=1) for x in batches], axis=0)
    root = np.sqrt(var + EPS)
    scale, shift = inference_affine(norm)
    np.testing.assert_allclose(array(scale), array(norm.weight) / root, rtol=1e-12)
    np.testing.assert_allclose(
        array(shift), array(norm.bias) - array(norm.weight) * mean / root, rtol=1e-12
    )
    x = data(3, 5, seed=9)
    torch.testing.assert_close(norm.eval()(x), scale * x + shift)


def test_batchnorm_takes_the_bias_away_and_stands_before_the_non_linearity():
    assert [type(m) for m in dense("batchnorm", 3, 4)] == [nn.Linear, BatchNorm1d]
    assert [type(m) for m in conv("batchnorm", 3, 4, 3)] == [nn.Conv2d, BatchNorm2d]
    assert dense("batchnorm", 3, 4)[0].bias is None
    assert conv("batchnorm", 3, 4, 3)[0].bias is None
    for layers in (dense("none", 3, 4), conv("none", 3, 4, 3)):
        assert len(layers) == 1
        assert layers[0].bias is not None
