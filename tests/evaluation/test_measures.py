"""The measures against independent computations, and how they behave."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm

from shared.evaluation import (
    ImageClassifier,
    ImageQuality,
    Inception,
    classifier_score,
    frechet_distance,
    kernel_distance,
    precision_recall,
)
from shared.records.base import RecordError


def gaussian(num, width=8, seed=0, shift=0.0):
    generator = torch.Generator().manual_seed(seed)
    mix = torch.randn(width, width, generator=generator, dtype=torch.float64)
    return torch.randn(num, width, generator=generator, dtype=torch.float64) @ mix + shift


def frechet_by_root(x, y):
    """The textbook form, with SciPy's root of a matrix."""
    x, y = x.numpy(), y.numpy()
    s, t = np.cov(x, rowvar=False), np.cov(y, rowvar=False)
    root = sqrtm(s @ t)
    return ((x.mean(0) - y.mean(0)) ** 2).sum() + np.trace(s + t) - 2 * np.trace(root.real)


@pytest.mark.parametrize(("n", "m", "width"), [(300, 500, 16), (65, 70, 64), (1000, 40, 30)])
def test_frechet_distance_is_that_of_the_matrix_root(n, m, width):
    x, y = gaussian(n, width), gaussian(m, width, seed=1, shift=0.3)
    assert frechet_distance(x, y) == pytest.approx(frechet_by_root(x, y), rel=1e-6)


def test_frechet_distance_of_singular_covariances():
    x = gaussian(5, 20)
    assert frechet_distance(x, x) == pytest.approx(0, abs=1e-10)
    assert frechet_distance(x, x + 2) == pytest.approx(4 * 20, rel=1e-10)
    # One dimension, where the closed form is (mean - mean)^2 + (std - std)^2.
    y = torch.cat([gaussian(9, 1, seed=1), torch.zeros(9, 19, dtype=torch.float64)], 1)
    z = torch.cat([gaussian(7, 1, seed=2), torch.zeros(7, 19, dtype=torch.float64)], 1)
    closed = (y[:, 0].mean() - z[:, 0].mean()) ** 2 + (y[:, 0].std() - z[:, 0].std()) ** 2
    assert frechet_distance(y, z) == pytest.approx(closed.item(), rel=1e-9)


def test_frechet_distance_grows_with_noise_and_falls_with_the_number_of_samples():
    x, y = gaussian(4000), gaussian(4000, seed=0)[torch.randperm(4000)]
    noise = torch.randn(4000, 8, dtype=torch.float64)
    distances = [frechet_distance(x, y + scale * noise) for scale in (0, 0.5, 1, 2)]
    assert distances == sorted(distances)
    halves = [frechet_distance(x[:n], x[-n:]) for n in (50, 200, 800, 2000)]
    assert halves == sorted(halves, reverse=True)


def test_kernel_distance_is_the_mean_over_pairs():
    x, y = gaussian(7, 3), gaussian(5, 3, seed=1)

    def k(a, b):
        return float(a @ b / 3 + 1) ** 3

    within_x = np.mean([k(a, b) for a, b in itertools.permutations(x, 2)])
    within_y = np.mean([k(a, b) for a, b in itertools.permutations(y, 2)])
    between = np.mean([k(a, b) for a, b in itertools.product(x, y)])
    expected = within_x + within_y - 2 * between
    assert kernel_distance(x, y, block=2) == pytest.approx(expected, rel=1e-10)


def test_kernel_distance_has_no_bias_by_the_number_of_samples():
    generator = torch.Generator().manual_seed(0)
    small = [
        kernel_distance(*torch.randn(2, 10, 4, generator=generator).double()) for _ in range(2000)
    ]
    assert abs(np.mean(small)) < 4 * np.std(small) / 2000**0.5


def test_classifier_score_of_known_distributions():
    assert classifier_score(torch.zeros(6, 3)) == pytest.approx(1)
    logits = torch.randn(20, 5, dtype=torch.float64)
    p = logits.softmax(1).numpy()
    expected = np.exp((p * np.log(p / p.mean(0))).sum(1).mean())
    assert classifier_score(logits) == pytest.approx(expected)
    parts = [classifier_score(part) for part in logits.chunk(4)]
    assert classifier_score(logits, splits=4) == pytest.approx(np.mean(parts))
    with pytest.raises(ValueError, match="multiple of 3"):
        classifier_score(logits, splits=3)


def test_precision_and_recall_by_brute_force():
    real, fake = gaussian(40, 3).numpy(), 0.7 * gaussian(30, 3, seed=1).numpy() + 0.5

    def inside(x, manifold, k):
        radii = [np.sort(np.linalg.norm(manifold - m, axis=1))[k] for m in manifold]
        hits = [(np.linalg.norm(manifold - a, axis=1) <= radii).any() for a in x]
        return np.mean(hits)

    got = precision_recall(torch.from_numpy(real), torch.from_numpy(fake), neighbours=3, block=7)
    assert got == pytest.approx((inside(fake, real, 3), inside(real, fake, 3)))


def test_precision_and_recall_tell_missing_modes_from_bad_samples():
    real = torch.cat([gaussian(200), gaussian(200, shift=100)])
    assert precision_recall(real, real) == (1, 1)
    precision, recall = precision_recall(real, gaussian(400))  # half of the modes
    assert precision > 0.9
    assert recall <= 0.5
    precision, recall = precision_recall(real, torch.cat([real[::2], real[::2] + 1000]))
    assert precision == 0.5
    assert recall > 0.5


@pytest.mark.parametrize("measure", [frechet_distance, kernel_distance])
def test_wrong_shapes_are_refused(measure):
    with pytest.raises(ValueError, match="one network"):
        measure(torch.zeros(4, 3), torch.zeros(4, 2))
    with pytest.raises(FloatingPointError, match="got 1 samples of set 2"):
        frechet_distance(torch.zeros(3, 2), torch.tensor([[0.0, 1.0], [float("nan"), 0.0]]))
    with pytest.raises(ValueError, match="2 or more"):
        measure(torch.zeros(4, 3), torch.zeros(1, 3))
    with pytest.raises(FloatingPointError, match="got 3 samples of set 1"):
        precision_recall(torch.full((3, 2), float("nan")), torch.zeros(3, 2), neighbours=1)
    with pytest.raises(ValueError, match="got 0 neighbours"):
        precision_recall(torch.zeros(3, 2), torch.zeros(3, 2), neighbours=0)
    with pytest.raises(ValueError, match="neighbour exists"):
        precision_recall(torch.zeros(3, 2), torch.zeros(9, 2))


def test_quality_names_its_network_and_counts_and_survives_fakes_that_are_not_finite():
    network = ImageClassifier(width=2, num_features=4, num_classes=3).eval()
    quality = ImageQuality(network, torch.rand(12, 1, 32, 32) * 2 - 1, batch_size=5)
    fakes = torch.rand(10, 1, 32, 32) * 2 - 1
    measured = {metric: (value, unit) for metric, value, unit in quality.measure(fakes)}
    assert list(measured) == ["fid", "kid", "classifier_score", "precision", "recall"]
    value, unit = measured["fid"]
    assert unit == "FID (classifier, 10 fake : 12 real)"
    assert value == pytest.approx(frechet_distance(quality.real_MF, quality.see(fakes)[0]))
    fakes[3, 0, 0, 0] = float("nan")
    assert all(np.isnan(value) for _, value, _ in quality.measure(fakes))


def test_inception_that_is_not_installed_is_one_clear_message(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch_fidelity", None)
    with pytest.raises(RecordError, match="pip install torch-fidelity"):
        Inception(torch.device("cpu"))
