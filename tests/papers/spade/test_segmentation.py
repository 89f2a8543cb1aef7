"""The measures against their definitions, and the segmenter's file."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from papers.spade.segmentation import Segmenter, confusion, mean_iou, pixel_accuracy


def test_the_measures_by_their_definitions():
    generator = np.random.default_rng(0)
    labels, found = generator.integers(0, 4, (2, 3, 8, 8))
    counts = confusion(torch.from_numpy(found), torch.from_numpy(labels), 5)
    ious = [
        100 * ((labels == k) & (found == k)).sum() / ((labels == k) | (found == k)).sum()
        for k in range(4)  # label 4 occurs nowhere and does not count
    ]
    assert mean_iou(counts) == pytest.approx(np.mean(ious))
    assert pixel_accuracy(counts) == pytest.approx(100 * (labels == found).mean())


def test_pixels_without_a_label_change_the_pixel_accuracy_unless_they_are_ignored():
    labels = torch.tensor([[[0, 1, 2, 2]]])  # 2: no label
    found = torch.tensor([[[0, 1, 0, 1]]])
    assert pixel_accuracy(confusion(found, labels, 3, ignore=2)) == 100
    assert pixel_accuracy(confusion(found, labels, 3)) == 50


def test_a_segmenter_is_the_same_from_its_file(tmp_path):
    network = Segmenter(width=4, num_labels=6)
    network(torch.rand(2, 1, 32, 32))  # its statistics are part of it
    network.eval()
    weights = {f"net.{name}": value for name, value in network.state_dict().items()}
    save_file(weights, tmp_path / "weights.safetensors")
    loaded = Segmenter.load(tmp_path / "weights.safetensors")
    x = torch.rand(2, 1, 32, 32)
    features, logits = loaded(x)
    assert features.shape == (2, 16)
    assert logits.shape == (2, 6, 32, 32)
    torch.testing.assert_close(logits, network(x)[1])
    assert not any(p.requires_grad for p in loaded.parameters())
