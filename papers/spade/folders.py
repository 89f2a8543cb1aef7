"""ADE20K and Cityscapes from a folder of the user's, and the training on them (full scale).

Legend: images_NCHW in [-1, 1], whose last channel is the label map.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from papers.spade.module import Synthesis
from papers.spade.segmentation import split_batch
from shared.evaluation import ImageQuality, Inception
from shared.records.base import RecordError

Name = Literal["ade20k", "cityscapes"]
Split = Literal["train", "val"]
Pair = tuple[Path, Path]


class Layout(NamedTuple):
    """Where a data set has its images and label maps, and which labels there are.

    Attributes:
        variable: the environment variable that names the folder.
        homepage: where the user gets it.
        images: pattern of the images of a split below the folder, and `folders`, each split's name.
        maps: (image's path below the folder) -> its map's, as pairs of texts to replace in turn.
        num_labels: K, with one for pixels that have no label.
        shift: added to the stored labels; what is then outside of 0..K-2 becomes K-1.
        aspect: width over height.
    """

    variable: str
    homepage: str
    images: str
    folders: dict[Split, str]
    maps: tuple[tuple[str, str], ...]
    num_labels: int
    shift: int
    aspect: int


LAYOUTS: dict[Name, Layout] = {
    # 0 is `other`, which the benchmark does not count.
    "ade20k": Layout(
        variable="RENORM_ADE20K",
        homepage="http://data.csail.mit.edu/places/ADEchallenge/ADEChallengeData2016.zip",
        images="images/{}/*.jpg",
        folders={"train": "training", "val": "validation"},
        maps=(("images/", "annotations/"), (".jpg", ".png")),
        num_labels=151,
        shift=-1,
        aspect=1,
    ),
    "cityscapes": Layout(
        variable="RENORM_CITYSCAPES",
        homepage="https://www.cityscapes-dataset.com (leftImg8bit and gtFine, trainvaltest)",
        images="leftImg8bit/{}/*/*_leftImg8bit.png",
        folders={"train": "train", "val": "val"},
        maps=(("leftImg8bit/", "gtFine/"), ("_leftImg8bit.png", "_gtFine_labelIds.png")),
        num_labels=36,
        shift=0,
        aspect=2,
    ),
}


def pairs(name: Name, split: Split) -> list[Pair]:
    """Images and their label maps.

    Raises:
        RecordError: the variable is not set, there are no images, or one has no map.
    """
    layout = LAYOUTS[name]
    named = os.environ.get(layout.variable)
    if not named:
        raise RecordError(
            f"{layout.variable} is not set. {name} may not be downloaded for you: get it from "
            f"{layout.homepage}, unpack it, and set {layout.variable} to its folder."
        )
    folder, pattern = Path(named), layout.images.format(layout.folders[split])
    images = sorted(folder.glob(pattern))
    if not images:
        raise RecordError(
            f"{layout.variable}={named}: got no {pattern} in it, expected the images of {split}: "
            f"unpack {layout.homepage} there."
        )
    found = []
    for image in images:
        below = image.relative_to(folder).as_posix()
        for old, new in layout.maps:
            below = below.replace(old, new)
        if not (folder / below).is_file():
            raise RecordError(f"{image}: got no label map, expected it as {folder / below}")
        found.append((image, folder / below))
    return found


@dataclass
class LayoutFolder(Dataset[tuple[Tensor, int]]):
    """Examples (C + 1, H, W): the image with its label map as last channel, and the index.

    In training ADE20K is resized to 286/256 of the size, then a random window is cut, and half of
    the examples are mirrored; Cityscapes is resized to the size itself and mirrored.

    Args:
        size: height of the examples in pixels.
    """

    name: Name
    split: Split
    size: int

    def __post_init__(self) -> None:
        self.layout = LAYOUTS[self.name]
        self.pairs = pairs(self.name, self.split)

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image_file, map_file = self.pairs[index]
        height, width = self.size, self.size * self.layout.aspect
        training = self.split == "train"
        crops = training and self.name == "ade20k"
        larger = (round(width * 286 / 256), round(height * 286 / 256)) if crops else (width, height)
        with Image.open(image_file) as image, Image.open(map_file) as stored:
            resized = image.convert("RGB").resize(larger, Image.Resampling.BICUBIC)
            labels = stored.resize(larger, Image.Resampling.NEAREST)
        pixels = torch.from_numpy(np.array(resized)).movedim(2, 0) / 127.5 - 1
        labels_HW = torch.from_numpy(np.array(labels).astype(np.int64)) + self.layout.shift
        unknown = self.layout.num_labels - 1
        labels_HW[(labels_HW < 0) | (labels_HW > unknown)] = unknown
        example = torch.cat([pixels, labels_HW[None].float()])
        if crops:
            top, left = (int(torch.randint(n - m + 1, ())) for n, m in
                         ((larger[1], height), (larger[0], width)))  # fmt: skip
            example = example[:, top : top + height, left : left + width]
        if training and torch.rand(()) < 0.5:
            example = example.flip(2)
        return example.contiguous(), index


class FolderSynthesis(Synthesis):
    """The paper's training on a folder of images.

    Rows at `eval_steps`: what `ImageQuality` measures with the features of Inception. mIoU and
    pixel accuracy need the segmenters of other papers and are not measured.

    Args:
        name: gives K and the aspect.
        batch_size, num_workers: of the loader, whose workers decode images.
        settings: see `Synthesis`; num_fake and num_real count the first validation images.

    Raises: RecordError where the folder is not there.
    """

    def __init__(
        self,
        name: Name,
        sizes: list[int],
        batch_size: int = 32,
        num_workers: int = 8,
        **settings: Any,
    ) -> None:
        layout = LAYOUTS[name]
        self.folders = {
            split: LayoutFolder(name, split, sizes[-1]) for split in cast(Any, ("train", "val"))
        }
        super().__init__(
            sizes=sizes,
            num_labels=layout.num_labels,
            aspect=layout.aspect,
            image_channels=3,
            **settings,
        )
        self.batch_size, self.num_workers = batch_size, num_workers

    def train_dataloader(self) -> Any:
        return self._loader("train")

    def test_dataloader(self) -> Any:
        return self._loader("val")

    def _loader(self, split: Split) -> DataLoader[tuple[Tensor, int]]:
        return DataLoader(
            self.folders[split],
            self.batch_size,
            shuffle=split == "train",
            drop_last=split == "train",
            num_workers=self.num_workers,
        )

    def shown(self) -> Any:
        folder = self.folders["val"]
        return torch.stack([folder[index][0] for index in range(min(12, len(folder)))]).to(
            self.device
        ), None

    @torch.no_grad()
    def evaluate(self) -> None:
        network = Inception(self.device)
        real_NCHW = torch.cat([split_batch(batch)[0] for batch in self._tests(self.num_real)])
        quality = ImageQuality(network, real_NCHW, batch_size=50)
        noises = self.fixed_noise(self.num_fake).split(self.batch_size)
        with self.sampler() as sample:
            fakes = [
                sample(noise_NZ[: len(batch[0])], self.encoded(split_batch(batch)[1]))
                for noise_NZ, batch in zip(noises, self._tests(self.num_fake), strict=False)
            ]
        for measured in quality.measure(torch.cat(fakes)):
            if measured.metric != "classifier_score":  # of scenes, not of objects
                self.record(*measured, split="test")

    def _tests(self, num: int) -> Iterator[Any]:
        for batch in self.test_dataloader():
            whole = batch[0][:num].to(self.device)
            yield whole, None
            num -= len(whole)
            if num <= 0:
                return
