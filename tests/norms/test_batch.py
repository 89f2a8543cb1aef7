"""Batch norm's open statistics."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from shared.kernels import forget_ran, ran
from shared.kernels.norm import cpp, track_
from shared.norms import (
    BatchNorm1d,
    BatchNorm2d,
    Moments,
    mix,
    moments,
    per_task,
    pool,
    standardise,
)


def test_source_batch_ignores_evaluation_and_leaves_running_statistics_alone() -> None:
    layer = BatchNorm2d(3, source="batch")
    x = torch.randn(4, 3, 5, 5) * 3 + 7
    trained = layer(x)
    seen = layer.running_mean.clone()
    assert torch.equal(layer.eval()(x), trained)
    assert torch.equal(layer.running_mean, seen)


def test_source_running_is_frozen_in_training() -> None:
    layer = BatchNorm2d(3, source="running")
    x = torch.randn(4, 3, 5, 5) * 3 + 7
    assert torch.allclose(layer.train()(x), x / (1 + 1e-5) ** 0.5)
    assert torch.equal(layer.running_mean, torch.zeros(3))
    assert int(layer.num_batches_tracked) == 0


def test_without_running_statistics_evaluation_uses_the_batch() -> None:
    layer = BatchNorm2d(3, track_running_stats=False).eval()
    x = torch.randn(4, 3, 5, 5)
    assert torch.allclose(layer(x).mean((0, 2, 3)), torch.zeros(3), atol=1e-6)
    layer.source = "running"
    with pytest.raises(ValueError, match="without running statistics"):
        layer(x)


@pytest.mark.parametrize("kind", ["biased", "unbiased"])
def test_running_variance(kind: str) -> None:
    layer = BatchNorm1d(2, momentum=1.0, running_variance=kind)
    x = torch.randn(5, 2)
    layer(x)
    expected = x.var(0, unbiased=kind == "unbiased")
    assert torch.allclose(layer.running_var, expected, atol=1e-6)


class TaskBalanced(BatchNorm1d):
    """Weights samples so that both tasks count alike, by a learnt share."""

    def __init__(self) -> None:
        super().__init__(2, running_variance="biased")
        self.share = nn.Parameter(torch.tensor(0.5))
        self.task = torch.tensor([0, 1, 1, 1])

    def estimate(self, x: Tensor) -> Moments:
        counts = torch.bincount(self.task)
        shares = torch.stack([self.share, 1 - self.share])
        return moments(x, shares[self.task] / counts[self.task])


def test_an_estimate_by_weighted_samples_normalises_is_tracked_and_is_learnt() -> None:
    layer = TaskBalanced()
    x = torch.randn(4, 2)
    y = layer(x)
    mean = (x[0] + x[1:].mean(0)) / 2
    assert torch.allclose(layer.running_mean, 0.1 * mean, atol=1e-6)
    var = ((x[0] - mean) ** 2 + ((x[1:] - mean) ** 2).mean(0)) / 2
    assert torch.allclose(y, (x - mean) / (var + 1e-5).sqrt(), atol=1e-5)
    y.pow(2)[0].sum().backward()
    assert layer.share.grad is not None and layer.share.grad.abs() > 0


def test_moments_equal_torch_and_weights_of_one_over_n_change_nothing() -> None:
    x = torch.randn(6, 3, 4, dtype=torch.float64)
    plain, weighted = moments(x), moments(x, torch.full((6,), 1 / 6, dtype=torch.float64))
    assert torch.allclose(plain.mean, x.mean((0, 2)))
    assert torch.allclose(plain.var, x.var((0, 2), unbiased=False))
    assert torch.allclose(weighted.mean, plain.mean) and torch.allclose(weighted.var, plain.var)
    assert plain.count == 24
    with pytest.raises(ValueError, match=r"expected \(6,\)"):
        moments(x, torch.ones(5))


def test_moments_at_a_large_offset() -> None:
    x = torch.randn(512, 3) + 1e6
    assert torch.allclose(moments(x).var.double(), x.double().var(0, unbiased=False), rtol=1e-5)


def test_pooled_task_moments_are_the_moments_of_all() -> None:
    x, task = torch.randn(7, 3, dtype=torch.float64), torch.tensor([0, 2, 2, 0, 5, 5, 5])
    parts = per_task(x, task)
    assert list(parts) == [0, 2, 5]
    whole, joined = moments(x), pool(list(parts.values()))
    assert torch.allclose(joined.mean, whole.mean) and torch.allclose(joined.var, whole.var)
    assert joined.count == 7


def test_mixing_with_share_0_and_1_gives_either() -> None:
    a, b = moments(torch.randn(5, 2)), moments(torch.randn(5, 2))
    assert torch.equal(mix(a, b, 0.0).mean, a.mean)
    assert torch.allclose(mix(a, b, 1.0).var, b.var)


def test_statistics_of_each_sample() -> None:
    x = torch.randn(3, 2, 8)
    own = Moments(x.mean(2), x.var(2, unbiased=False), 8)
    y = standardise(x, own, None, None, 1e-5)
    assert torch.allclose(y, nn.functional.instance_norm(x), atol=1e-5)


def test_activation_and_residual() -> None:
    plain, fused = BatchNorm2d(3), BatchNorm2d(3, activation="relu")
    x, r = torch.randn(2, 4, 3, 5, 5)
    assert torch.allclose(fused(x, r), torch.relu(plain(x) + r))
    assert "activation=relu" in repr(fused)
    with pytest.raises(ValueError, match="got activation 'gelu'"):
        BatchNorm2d(3, activation="gelu")


def test_invariance_to_the_scale_of_the_weights() -> None:
    """Ioffe and Szegedy (2015), section 3.3, with eps = 0."""
    u = torch.randn(8, 4, dtype=torch.float64, requires_grad=True)
    w = torch.randn(3, 4, dtype=torch.float64)
    layer = BatchNorm1d(3, eps=0.0).double()
    cotangent = torch.randn(8, 3, dtype=torch.float64)
    results = []
    for a in (1.0, 5.0):
        scaled = (a * w).requires_grad_()
        y = layer(u @ scaled.t())
        results.append((y, *torch.autograd.grad(y, (u, scaled), cotangent)))
    (y1, du1, dw1), (y5, du5, dw5) = results
    assert torch.allclose(y1, y5, atol=1e-10) and torch.allclose(du1, du5, atol=1e-10)
    assert torch.allclose(dw5, dw1 / 5, atol=1e-10)


class Blend(BatchNorm2d):
    """Half source, half target statistics."""

    def estimate(self, x: Tensor) -> Moments:
        return mix(self.running(), moments(x), share=0.5)


def test_blended_statistics() -> None:
    layer = Blend(2, source="batch").eval()
    x = torch.randn(4, 2, 3, 3) * 3 + 5
    own = moments(x)
    y = (x - own.mean.view(1, 2, 1, 1) / 2) / ((1 + own.var) / 2 + 1e-5).sqrt().view(1, 2, 1, 1)
    assert torch.allclose(layer(x), y, atol=1e-5)


class Halving(BatchNorm1d):
    """The n-th batch counts 2^-n."""

    def tracked_share(self) -> float:
        return 0.5 ** int(self.num_batches_tracked)


def test_a_share_of_its_own_is_asked_for_after_the_batch_was_counted() -> None:
    layer = Halving(2, running_variance="biased").double()
    x = torch.randn(3, 5, 2, dtype=torch.float64)
    mean, var = torch.zeros(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    for n, batch in enumerate(x, 1):
        layer(batch)
        mean = (1 - 0.5**n) * mean + 0.5**n * batch.mean(0)
        var = (1 - 0.5**n) * var + 0.5**n * batch.var(0, unbiased=False)
    assert torch.allclose(layer.running_mean, mean) and torch.allclose(layer.running_var, var)


def test_without_momentum_every_batch_counts_alike() -> None:
    layer, own = nn.BatchNorm1d(2, momentum=None), BatchNorm1d(2, momentum=None)
    for x in torch.randn(4, 6, 2):
        layer(x), own(x)
    assert torch.allclose(layer.running_mean, own.running_mean)
    assert torch.allclose(layer.running_var, own.running_var)


@pytest.mark.parametrize(
    ("name", "value"),
    [("source", "Batch"), ("source", None), ("running_variance", "Biased"), ("activation", "gelu")],
)
def test_a_value_that_is_unknown_is_refused_when_it_is_assigned(name: str, value: str) -> None:
    layer = BatchNorm2d(3)
    before = getattr(layer, name)
    with pytest.raises(ValueError, match=f"got {name} {value!r}, expected one of"):
        setattr(layer, name, value)
    assert getattr(layer, name) == before


@pytest.mark.parametrize("setting", [{"momentum": -0.5}, {"momentum": 2}, {"eps": -1e-5}])
def test_numbers_that_cannot_be_are_refused(setting: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"BatchNorm: got eps .* and momentum .*, expected an eps"):
        BatchNorm2d(3, **setting)


def test_a_residual_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"got a residual of shape \(1, 3, 1, 1\), expected that"):
        BatchNorm2d(3)(torch.randn(2, 3, 4, 4), torch.randn(1, 3, 1, 1))


@pytest.mark.parametrize("settings", [{}, {"source": "batch"}, {"track_running_stats": False}])
def test_an_empty_batch_passes_in_evaluation(settings: dict[str, str]) -> None:
    layer = BatchNorm2d(3, **settings).eval()
    assert layer(torch.ones(0, 3, 4, 4)).shape == (0, 3, 4, 4)
    with pytest.raises(ValueError, match=r"got 0 element\(s\) a channel in training"):
        BatchNorm2d(3, **settings).train()(torch.ones(0, 3, 4, 4))


def test_a_share_outside_0_to_1_is_refused() -> None:
    a, b = moments(torch.randn(5, 2)), moments(torch.randn(5, 2))
    for share in (-1.0, 1.5, float("nan")):
        with pytest.raises(ValueError, match=f"mix: got a share of {share}, expected 0 to 1"):
            mix(a, b, share)


def test_evaluation_in_float16_is_computed_in_float32() -> None:
    layer, torchs = (kind(1, eps=1e-8).half().eval() for kind in (BatchNorm1d, nn.BatchNorm1d))
    for norm in (layer, torchs):
        norm.running_mean.fill_(-3e4)
        norm.running_var.fill_(6e4)
    x = torch.tensor([[-3e4], [6e4]], dtype=torch.float16)
    assert layer(x).dtype == torch.float16
    torch.testing.assert_close(layer(x), torchs(x))
    assert 367 < layer(x)[1] < 368
    layer.running_var.zero_()  # 1e-8 is 0 in float16
    assert layer(x)[0] == 0


@pytest.mark.parametrize("share", [0.1, 0.7, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_one_call_tracks_as_the_formula_does(dtype: torch.dtype, share: float) -> None:
    mean, rstd = torch.randn(37, dtype=dtype), torch.rand(37, dtype=dtype) + 0.5
    rstd[0] = 400.0  # eps = 1e-5 bounds it by 316: a variance of 0, rounded
    running = torch.randn(37, dtype=dtype), torch.rand(37, dtype=dtype)
    var = (1 / rstd.square() - 1e-5).clamp_min(0) * 1.25
    expected = [old + share * (new - old) for old, new in zip(running, (mean, var), strict=True)]
    versions = [t._version for t in running]
    forget_ran()
    track_(running, mean, rstd, eps=1e-5, share=share, factor=1.25)
    way = "cpp" if cpp.obstacle("cpu") is None else "native"
    assert {(k.phase, k.implementation): n for k, n in ran().items()} == {("track", way): 1}
    for got, wanted in zip(running, expected, strict=True):
        assert torch.allclose(got, wanted, rtol=1e-6, atol=1e-7)
    # Autograd must see that they were changed in place.
    assert all(t._version > before for t, before in zip(running, versions, strict=True))
    forget_ran()
    track_(running, mean, rstd, eps=1e-5, share=torch.tensor(share, dtype=dtype))
    assert {k.implementation for k in ran()} == {"native"}
