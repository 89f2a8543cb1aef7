"""The loader: values, order, augmentation, and a position that can be resumed bit for bit."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from shared.data.loader import CROP_PADDING, ArrayLoader, crop, flip_some

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (23, 3, 8, 6), dtype=np.uint8)
LABELS = np.arange(23)
MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)

Batches = list[tuple[Tensor, Tensor]]


def loader(**changes: Any) -> ArrayLoader:
    settings: dict[str, Any] = {"mean": MEAN, "std": STD, "batch_size": 5, "shuffle": True}
    settings |= {"seed": 1, "augment": ("crop", "flip")}
    return ArrayLoader(IMAGES, LABELS, **(settings | changes))


def equal(ours: Batches, theirs: Batches) -> bool:
    return len(ours) == len(theirs) and all(
        torch.equal(x, y) and torch.equal(labels, others)
        for (x, labels), (y, others) in zip(ours, theirs, strict=True)
    )


def test_values_are_standardised() -> None:
    batches = list(loader(shuffle=False, augment=()))
    assert [len(labels) for _, labels in batches] == [5, 5, 5, 5, 3]
    x_NCHW = torch.cat([x for x, _ in batches])
    labels_N = torch.cat([labels for _, labels in batches])
    mean, std = (np.array(values)[:, None, None] for values in (MEAN, STD))
    expected = (IMAGES.astype(np.float64) / 255 - mean) / std
    assert x_NCHW.dtype == torch.float32
    assert labels_N.dtype == torch.int64
    # Four roundings to float32: two constants, a difference below 255 and a quotient.
    bound = 4 * np.finfo(np.float32).eps * (np.abs(expected).max() + 1 / min(STD))
    np.testing.assert_allclose(x_NCHW.numpy(), expected, rtol=0, atol=bound)
    assert labels_N.tolist() == LABELS.tolist()


def test_an_epoch_has_every_image_once_with_its_label() -> None:
    plain_NCHW = torch.cat([x for x, _ in loader(shuffle=False, augment=())])
    for x_NCHW, labels_N in loader(augment=()):
        assert torch.equal(x_NCHW, plain_NCHW[labels_N])
    labels = torch.cat([labels for _, labels in loader()])
    assert sorted(labels.tolist()) == LABELS.tolist()
    assert labels.tolist() != LABELS.tolist()


def test_drop_last() -> None:
    assert len(loader()) == 5
    assert len(loader(drop_last=True)) == 4
    assert [len(labels) for _, labels in loader(drop_last=True)] == [5, 5, 5, 5]
    assert len(loader(batch_size=23, drop_last=True)) == 1


def test_order_and_augmentation_follow_from_seed_and_epoch_alone() -> None:
    first = loader()
    epochs = [list(first), list(first)]
    torch.manual_seed(99)
    second = loader()
    assert equal(list(second), epochs[0])
    assert equal(list(second), epochs[1])
    assert not equal(epochs[0], epochs[1])
    assert not equal(list(loader(seed=2)), epochs[0])
    # The order is the same whatever the batches and the augmentation are.
    labels = [
        torch.cat([y for _, y in loader(**c)]) for c in ({}, {"batch_size": 7, "augment": ()})
    ]
    assert torch.equal(*labels)


def test_global_random_streams_are_left_alone() -> None:
    before = torch.get_rng_state()
    list(loader())
    assert torch.equal(torch.get_rng_state(), before)


def test_every_epoch_has_its_own_order() -> None:
    one = loader()
    orders = [torch.cat([labels for _, labels in one]).tolist() for _ in range(3)]
    assert orders[0] != orders[1] != orders[2] != orders[0]


def test_every_batch_has_its_own_augmentation() -> None:
    same = np.repeat(IMAGES[:1], 20, axis=0)
    settings: dict[str, Any] = {"mean": MEAN, "std": STD, "batch_size": 5, "seed": 1}
    one = ArrayLoader(same, LABELS[:20], shuffle=False, augment=["crop", "flip"], **settings)
    batches = [x_NCHW for _ in range(2) for x_NCHW, _ in one]
    assert not any(torch.equal(x, y) for x, y in itertools.combinations(batches, 2))


@pytest.mark.parametrize("handed_out", range(6))
def test_a_position_is_resumed_bit_for_bit(handed_out: int) -> None:
    straight = loader()
    list(straight)
    rest = list(straight)[handed_out:] + list(straight)
    interrupted = loader()
    list(interrupted)
    batches = iter(interrupted)
    for _ in range(handed_out):
        next(batches)
    state = interrupted.state_dict()
    if handed_out:
        assert state == {"epoch": 1, "batch": handed_out}
    resumed = loader()
    resumed.load_state_dict(state)
    ours = list(resumed)
    if handed_out < 5:  # else the epoch was at its end, and a new one began
        ours += list(resumed)
    assert equal(ours, rest)


def test_the_position_counts_a_batch_while_it_is_used() -> None:
    one = loader()
    positions = [one.state_dict()["batch"] for _ in one]
    assert positions == [1, 2, 3, 4, 5]


def test_an_iterator_that_is_not_used_changes_nothing() -> None:
    one = loader()
    iter(one), iter(one)
    assert equal(list(one), list(loader()))


def test_an_epoch_that_is_broken_off_is_over() -> None:
    one = loader()
    next(iter(one))
    straight = loader()
    list(straight)
    assert equal(list(one), list(straight))


def test_set_epoch() -> None:
    straight = loader()
    epochs = [list(straight) for _ in range(4)]
    one = loader()
    one.set_epoch(3)
    assert equal(list(one), epochs[3])
    one.set_epoch(1)
    assert equal(list(one), epochs[1])
    one.set_epoch(1)
    assert equal(list(one), epochs[1])
    one.load_state_dict({"epoch": 2, "batch": 3})
    one.set_epoch(2)
    assert equal(list(one), epochs[2][3:])
    one.load_state_dict({"epoch": 2, "batch": 3})
    one.set_epoch(3)
    assert equal(list(one), epochs[3])


def test_crop_and_flip_are_those_of_a_plain_loop() -> None:
    x_NCHW = torch.randn(81, 3, 8, 6)
    places = torch.cartesian_prod(torch.arange(9), torch.arange(9))
    flips = torch.arange(81) % 2
    expected = []
    for x_CHW, (top, left), flip in zip(x_NCHW, places.tolist(), flips.tolist(), strict=True):
        padded = torch.nn.functional.pad(x_CHW.flip(2) if flip else x_CHW, (CROP_PADDING,) * 4)
        expected.append(padded[:, top : top + 8, left : left + 6])
    assert torch.equal(crop(flip_some(x_NCHW, flips), *places.T), torch.stack(expected))


def test_crops_reach_every_place_and_flips_half_of_the_images() -> None:
    images = np.zeros((8100, 1, 9, 10), np.uint8)
    images[:, :, 4, 4] = 255  # wherever a crop puts this point, it stays inside
    settings: dict[str, Any] = {"mean": [0.0], "std": [1.0], "batch_size": 8100, "seed": 0}
    one = ArrayLoader(images, np.arange(8100), shuffle=False, augment=["crop"], **settings)
    counts_HW = next(iter(one))[0].sum((0, 1))[:, :9]
    assert counts_HW.sum() == 8100
    # 81 places with 100 expected in each; 5 standard deviations.
    assert counts_HW.min() > 50 and counts_HW.max() < 150
    one = ArrayLoader(images, np.arange(8100), shuffle=False, augment=["flip"], **settings)
    share = (next(iter(one))[0][:, 0, 4, 5] == 1).double().mean().item()
    assert abs(share - 0.5) < 5 * 0.5 / 8100**0.5


def test_the_border_of_a_crop_is_the_mean_colour() -> None:
    x_NCHW = torch.cat([x for x, _ in loader(augment=("crop",))])
    plain_NCHW = torch.cat([x for x, _ in loader(augment=())])
    assert (x_NCHW == 0).sum() > (plain_NCHW == 0).sum() + 100


def test_one_augmentation_alone() -> None:
    plain = [x for x, _ in loader(augment=())]
    for (x_NCHW, _), plain_NCHW in zip(loader(augment=("flip",)), plain, strict=True):
        same = (x_NCHW == plain_NCHW).all(3).all(2).all(1)
        turned = (x_NCHW == plain_NCHW.flip(3)).all(3).all(2).all(1)
        assert (same ^ turned).all()


@pytest.mark.parametrize("augmentation", [(), ("crop", "flip")])
def test_channels_last_changes_the_layout_only(augmentation: tuple[str, ...]) -> None:
    plain = list(loader(augment=augmentation))
    last = list(loader(augment=augmentation, channels_last=True))
    assert equal(plain, last)
    assert all(x.is_contiguous(memory_format=torch.channels_last) for x, _ in last)
    assert all(x.is_contiguous() for x, _ in plain)


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_batch_is_the_callers_to_change(shuffle: bool) -> None:
    one = loader(shuffle=shuffle, augment=())
    images, labels = IMAGES.copy(), LABELS.copy()
    for x_NCHW, labels_N in one:
        x_NCHW.zero_()
        labels_N.zero_()
    assert np.array_equal(IMAGES, images) and np.array_equal(LABELS, labels)


def test_mapped_images_are_not_copied(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", IMAGES)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="c")
    settings: dict[str, Any] = {"mean": MEAN, "std": STD, "batch_size": 5, "seed": 0}
    one = ArrayLoader(mapped, LABELS, shuffle=False, **settings)
    assert one._images.data_ptr() == mapped.ctypes.data


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_sees_the_same_batches() -> None:
    for (x, labels), (y, others) in zip(loader(), loader(device="cuda"), strict=True):
        assert y.is_cuda and others.is_cuda
        torch.testing.assert_close(y.cpu(), x, rtol=1e-6, atol=1e-6)
        assert torch.equal(labels, others.cpu())


@pytest.mark.parametrize(
    ("images", "labels", "changes", "said"),
    [
        (IMAGES.astype(np.float32), LABELS, {}, r"images: got float32 \(23, 3, 8, 6\), expected"),
        (IMAGES[:, 0], LABELS, {}, r"images: got uint8 \(23, 8, 6\), expected uint8 \(N, C, H, W"),
        (IMAGES[:0], LABELS[:0], {}, "N at least 1"),
        (IMAGES, LABELS[:5], {}, r"labels: got int64 \(5,\), expected int64 \(23,\)"),
        (IMAGES, LABELS.astype(np.int32), {}, "labels: got int32"),
        (IMAGES, LABELS, {"mean": [0.5]}, "got 1 and 3 values, .* the 3 channels"),
        (IMAGES, LABELS, {"augment": ["rotate"]}, r"augment: got \['rotate'\]"),
        (IMAGES, LABELS, {"batch_size": 0}, "batch_size: got 0"),
        (IMAGES, LABELS, {"batch_size": 24, "drop_last": True}, "at most the number of images, 23"),
    ],
)
def test_what_does_not_fit_is_named(
    images: np.ndarray, labels: np.ndarray, changes: dict[str, Any], said: str
) -> None:
    settings: dict[str, Any] = {"mean": MEAN, "std": STD, "batch_size": 5, "shuffle": True}
    with pytest.raises(ValueError, match=said):
        ArrayLoader(images, labels, seed=0, **(settings | changes))
