"""Folders in the upstream layouts, which the test writes, and a training on them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from papers.spade import folders
from papers.spade.folders import LAYOUTS, FolderSynthesis, LayoutFolder
from shared.evaluation import ImageClassifier
from shared.records.base import RecordError

SIZES = [4, 8, 16, 32]


def write(folder, name):
    """Three training and two validation images of a data set with their maps, as upstream."""
    generator = np.random.default_rng(0)
    for split, stem, num in (("train", "training", 3), ("val", "validation", 2)):
        for index in range(num):
            pixels = generator.integers(0, 256, (50, 100, 3), dtype=np.uint8)
            labels = np.full((50, 100), 7, np.uint8)
            labels[:, :50] = 0 if name == "ade20k" else 34
            if name == "ade20k":
                image = folder / f"images/{stem}/ADE_{split}_{index:08d}.jpg"
                stored = folder / f"annotations/{stem}/ADE_{split}_{index:08d}.png"
            else:
                base = f"{split}/ulm/ulm_{index:06d}_000019"
                image = folder / f"leftImg8bit/{base}_leftImg8bit.png"
                stored = folder / f"gtFine/{base}_gtFine_labelIds.png"
            for file, array in ((image, pixels), (stored, labels)):
                file.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(array).save(file)
    return folder


@pytest.fixture(params=["ade20k", "cityscapes"])
def name(request, tmp_path, monkeypatch):
    folder = write(tmp_path, request.param)
    monkeypatch.setenv(LAYOUTS[request.param].variable, str(folder))
    return request.param


def test_an_example_is_the_image_with_its_map(name):
    aspect = LAYOUTS[name].aspect
    for split, num in (("train", 3), ("val", 2)):
        folder = LayoutFolder(name, split, 32)
        assert len(folder) == num
        example, index = folder[1]
        assert index == 1
        assert example.shape == (4, 32, 32 * aspect)
        assert example[:3].abs().max() <= 1
    labels = example[3]
    # ADE20K's 0 is `other` and becomes the last label; its 7 is label 6. Cityscapes counts from 0.
    known = {"ade20k": {150, 6}, "cityscapes": {34, 7}}[name]
    assert set(labels.unique().tolist()) == known


def test_training_examples_are_mirrored_with_their_maps(name):
    folder = LayoutFolder(name, "train", 32)
    torch.manual_seed(0)
    left = {int(folder[0][0][3, 0, 0]) for _ in range(20)}
    assert left == ({150, 6} if name == "ade20k" else {34, 7})


def test_what_is_missing_is_named(name, tmp_path, monkeypatch):
    variable = LAYOUTS[name].variable
    next(tmp_path.glob("*/**/*.png" if name == "ade20k" else "gtFine/**/*.png")).unlink()
    with pytest.raises(RecordError, match="got no label map"):
        [LayoutFolder(name, split, 32) for split in ("train", "val")]
    monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
    with pytest.raises(RecordError, match="expected the images of train"):
        LayoutFolder(name, "train", 32)
    monkeypatch.delenv(variable)
    with pytest.raises(RecordError, match=f"{variable} is not set"):
        LayoutFolder(name, "train", 32)


class Inception(ImageClassifier):
    """In place of the real one: the classifier of grey images, which needs no download."""

    name = "Inception"

    def __init__(self, device):
        super().__init__()

    def forward(self, images_NCHW):
        return super().forward(images_NCHW.mean(1, keepdim=True)[..., :32])


def test_a_step_and_an_evaluation_on_a_folder(name, monkeypatch):
    monkeypatch.setattr(folders, "Inception", Inception)
    monkeypatch.setattr(folders, "ImageQuality", FewImages)
    module = FolderSynthesis(
        name, SIZES, batch_size=2, num_workers=0, method="spade", channels=[4] * 5, hidden=4,
        critic_width=4, critic_layers=2, critic_scales=2, matching=10.0, num_fake=2, num_real=2,
    )  # fmt: skip
    batch = next(iter(module.train_dataloader()))
    real, fake = module.real(batch), module.generate(module.noise(2), batch)
    assert real.shape == fake.shape == (2, 3, 32, 32 * LAYOUTS[name].aspect)
    module.critic_loss(real, fake.detach(), batch).backward()
    module.generator_loss(fake, batch).backward()
    rows = {}
    monkeypatch.setattr(
        module, "record", lambda metric, value, unit, split: rows.update({metric: unit})
    )
    module.run = SimpleNamespace()
    module.evaluate()
    assert rows == {"fid": "FID (Inception, 2 fake : 2 real)"}
    assert module.grid().shape == (4, 3, 32, 32 * LAYOUTS[name].aspect)
    assert module.real_grid().shape == module.grid().shape


class FewImages(folders.ImageQuality):
    """Without the measures that need more than two images."""

    def measure(self, fake):
        return [m for m in self._fid(fake) if m.metric == "fid"]

    def _fid(self, fake):
        from shared.evaluation import frechet_distance
        from shared.evaluation.quality import Measured

        counts = f"({self.network.name}, {len(fake)} fake : {len(self.real_MF)} real)"
        yield Measured("fid", frechet_distance(self.real_MF, self.see(fake)[0]), f"FID {counts}")
