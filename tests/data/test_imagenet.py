"""The loaders of a folder of images that the test writes, and what is said where it is not."""

from __future__ import annotations

import shutil

import pytest
import torch

from shared.data.imagenet import FOLDER_VARIABLE, ImageNet, imagenet_folder
from shared.records.base import RecordError
from tests.data.images import write_imagenet

CPU = torch.device("cpu")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    path = write_imagenet(tmp_path / "imagenet")
    monkeypatch.setenv(FOLDER_VARIABLE, str(path))
    return path


def test_training_batches_are_whole_and_the_test_sees_every_image_in_order(folder):
    images = ImageNet(batch_size=3, image_size=32, num_workers=0)
    assert images.num_classes == 2
    training = list(images.loader("train", CPU))
    assert [tuple(x.shape) for x, _ in training] == [(3, 3, 32, 32)] * 2
    labels = [y.tolist() for _, y in images.loader("val", CPU)]
    assert labels == [[0, 0, 0], [1, 1, 1]]


def test_the_test_may_have_batches_of_its_own(folder):
    images = ImageNet(batch_size=3, image_size=32, num_workers=0, eval_batch_size=6)
    assert [len(y) for _, y in images.loader("val", CPU)] == [6]


def test_training_images_are_drawn_anew_and_test_images_are_not(folder):
    images = ImageNet(batch_size=6, image_size=32, num_workers=0)
    first, second = (next(iter(images.loader("val", CPU)))[0] for _ in range(2))
    assert torch.equal(first, second)
    first, second = (next(iter(images.loader("train", CPU)))[0] for _ in range(2))
    assert not torch.equal(first, second)


def test_without_the_variable_the_message_says_what_to_do(monkeypatch):
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    with pytest.raises(RecordError, match=r"is not set.*FOLDER/train/CLASS"):
        ImageNet(batch_size=4)


def test_a_folder_without_val_is_an_error(folder):
    shutil.rmtree(folder / "val")
    with pytest.raises(RecordError, match="got no folder 'val'"):
        imagenet_folder()
