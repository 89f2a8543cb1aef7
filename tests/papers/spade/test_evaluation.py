"""What a run records of its images: read back, edited, drawn in several styles."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from papers.spade.collages import CollageSynthesis
from papers.spade.segmentation import Segmenter
from shared.records.base import sha256_of
from shared.records.metrics import start_of_digest


@pytest.fixture
def evaluated(tmp_path, monkeypatch):
    """Evaluates an untrained generator of an arm; gives its rows and the names of its pictures."""
    file = tmp_path / "weights.safetensors"
    save_file({f"net.{k}": v for k, v in Segmenter(width=2).state_dict().items()}, file)

    def evaluate(method, **changes):
        module = CollageSynthesis(
            method, [6, 6, 4, 4, 4], [4, 8, 16, 32], hidden=4, critic_width=4, critic_layers=2,
            noise_size=7, num_fake=20, eval_steps=[0], **changes,
        )  # fmt: skip
        images_NCHW, labels_NHW = torch.rand(30, 1, 32, 32), torch.randint(11, (20, 32, 32))
        for _ in range(5):  # until the spectral norms are found
            module.generator(module.noise(20), module.encoded(labels_NHW))
        rows, pictures = {}, {}
        module.run = SimpleNamespace(artifact=lambda name: file, save_image=pictures.__setitem__)
        monkeypatch.setattr(module, "tests", lambda: (images_NCHW, labels_NHW))
        monkeypatch.setattr(
            module, "record", lambda metric, value, unit, split: rows.update({metric: float(value)})
        )
        module.evaluate()
        assert module.generator.training
        return rows, pictures

    return evaluate


def test_every_number_stands_beside_the_digest_of_the_segmenter(evaluated, tmp_path):
    rows, pictures = evaluated("spade")
    assert set(rows) == {
        "miou", "pixel_accuracy", "single_label_accuracy", "single_label_difference", "fid",
        "segmenter_sha256_start", "edit_share", "edit_outside_reach", "reach_share",
    }  # fmt: skip
    digest = sha256_of(tmp_path / "weights.safetensors")
    assert start_of_digest(rows["segmenter_sha256_start"]) == digest[:12]
    assert {name: picture.shape for name, picture in pictures.items()} == {
        "styles-000000": (128, 192, 3),
        "edits-000000": (128, 192, 3),
    }


def test_with_the_map_at_the_input_all_single_labels_are_drawn_alike(evaluated):
    blind, _ = evaluated("input_only", base="instance", source="map")
    assert blind["single_label_difference"] < 1e-9
    assert blind["single_label_accuracy"] <= 10
    assert evaluated("spade")[0]["single_label_difference"] > 0.01


@pytest.mark.parametrize("method", ["spade", "spade_1x1", "clade", "concat"])
def test_nothing_changes_out_of_reach_of_an_edit(evaluated, method):
    rows, _ = evaluated(method)
    assert rows["edit_outside_reach"] == 0
    assert 0 < rows["reach_share"] < 0.6


def test_statistics_of_a_sample_carry_an_edit_anywhere(evaluated):
    rows, _ = evaluated("spade", base="instance")
    assert "edit_outside_reach" not in rows


def test_styles_need_noise(evaluated):
    for source, same in (("map", True), ("noise", False)):
        _, pictures = evaluated("spade", source=source)
        _, *styles = np.split(pictures["styles-000000"], 6, axis=1)
        assert all((style == styles[0]).all() for style in styles) == same
