"""The stream of tasks and the replay buffer, against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from shared.data.reservoir import Reservoir
from shared.data.stream import TaskSplit, TaskStream

LABELS = np.arange(60) % 6
IMAGES = np.arange(60, dtype=np.uint8).reshape(60, 1, 1, 1)
SPLIT = TaskSplit([5, 2, 0, 3, 1, 4], classes_per_task=2)


def stream(**settings):
    return TaskStream(IMAGES, LABELS, SPLIT, **{"batch_size": 8, "seed": 0, **settings})


def test_every_image_is_seen_once_and_tasks_come_in_the_order_of_the_split():
    batches = list(stream())
    seen = torch.cat([images.flatten() for images, _ in batches])
    assert sorted(seen.tolist()) == list(range(60))
    tasks = torch.cat([SPLIT.task_of(places) for _, places in batches])
    assert tasks.tolist() == [0] * 20 + [1] * 20 + [2] * 20
    for images, places in batches:
        assert [SPLIT.order[place] for place in places] == [LABELS[int(i)] for i in images]


def test_a_batch_holds_one_task_and_the_last_batch_of_a_task_is_known():
    parts = stream()
    lengths = [len(images) for images, _ in parts]
    assert lengths == [8, 8, 4] * 3
    assert [b for b in range(len(parts)) if parts.ends_task(b)] == [2, 5, 8]


def test_the_order_follows_from_the_seed():
    def order(seed):
        return torch.cat([images.flatten() for images, _ in stream(seed=seed)]).tolist()

    assert order(3) == order(3) != order(4)
    assert TaskSplit.draw(10, 2, seed=1).order == TaskSplit.draw(10, 2, seed=1).order
    assert len({TaskSplit.draw(10, 2, seed=seed).order for seed in range(8)}) == 8


def test_one_pass_and_it_goes_on_where_it_stopped():
    whole = [images.flatten().tolist() for images, _ in stream()]
    parts = stream()
    first = [images.flatten().tolist() for _, (images, _) in zip(range(4), parts, strict=False)]
    resumed = stream()
    resumed.load_state_dict(parts.state_dict())
    assert first + [images.flatten().tolist() for images, _ in resumed] == whole
    assert list(resumed) == []


def test_only_the_first_images_of_each_class():
    seen = torch.cat([images.flatten() for images, _ in stream(images_per_class=3)])
    assert sorted(seen.tolist()) == list(range(18))


def full_reservoir():
    """It has taken so many examples that the next one is hardly ever kept."""
    buffer = Reservoir(2, seed=0)
    buffer.add(torch.ones(2, 4), torch.ones(2))
    buffer.seen = 10**9
    return buffer


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: TaskSplit([0, 0, 1], 1), "each of 0..K-1 once"),
        (lambda: TaskSplit([], 1), "each of 0..K-1 once"),
        (lambda: TaskSplit([0, 1, 2], 2), "a divisor of the 3 classes"),
        (lambda: stream(images_per_class=11), "has 10 images, expected 11 or more"),
        (lambda: stream(batch_size=0), "batches of 0"),
        (lambda: Reservoir(-1, seed=0), "got -1, expected 0 or more"),
        (lambda: Reservoir(2, seed=0).sample(1), "empty buffer"),
        (lambda: Reservoir(2, 0).add(torch.ones(2), torch.ones(3)), "lengths [2, 3]"),
        (lambda: full_reservoir().sample(-1), "num: got -1, expected 0 or more"),
        (
            lambda: Reservoir(3, 0).load_state_dict(full_reservoir().state_dict()),
            "size 2, expected 3",
        ),
        (lambda: full_reservoir().add(torch.ones(1, 4)), "expected [((4,), torch.float32), ((), "),
        (lambda: full_reservoir().add(torch.ones(1, 1), torch.ones(1)), "got examples of [((1,)"),
        (lambda: full_reservoir().add(torch.ones(1, 4), torch.arange(1)), "torch.int64"),
        (lambda: SPLIT.relabel(np.array([0, -1, 5, 6])), "labels: got [-1, 6], expected of the 6"),
        (lambda: stream(images_per_class=0), "images_per_class: got 0, expected 1 or more"),
        (lambda: stream(images_per_class=-1), "images_per_class: got -1, expected 1 or more"),
    ],
)
def test_bad_input_is_one_clear_error(build, said):
    with pytest.raises(ValueError) as error:
        build()
    assert said in str(error.value)


def test_every_example_is_kept_with_equal_probability():
    """Algorithm R: after n examples each is kept with probability size / n."""
    size, num, repeats = 5, 25, 2000
    kept = torch.zeros(num)
    for seed in range(repeats):
        buffer = Reservoir(size, seed)
        for part in torch.arange(num).split(10):
            buffer.add(part)
        (places,) = buffer.sample(size)
        assert len(set(places.tolist())) == size
        kept[places] += 1
    expected = size / num
    spread = math.sqrt(expected * (1 - expected) / repeats)
    assert (kept / repeats - expected).abs().max() < 4 * spread


def test_a_batch_is_as_good_as_its_examples_one_by_one():
    together, apart = Reservoir(4, seed=7), Reservoir(4, seed=7)
    together.add(torch.arange(40))
    for number in torch.arange(40):
        apart.add(number.view(1))
    assert torch.equal(together.sample(4)[0], apart.sample(4)[0])


def test_draws_are_different_examples_and_at_most_those_that_are_there():
    buffer = Reservoir(100, seed=0)
    buffer.add(torch.arange(6))
    assert sorted(buffer.sample(10)[0].tolist()) == list(range(6))
    counts = torch.zeros(6)
    for _ in range(3000):
        counts[buffer.sample(2)[0]] += 1
    assert (counts / 3000 - 1 / 3).abs().max() < 0.04


def test_the_content_does_not_change_the_draws():
    first, second = Reservoir(3, seed=1), Reservoir(3, seed=1)
    first.add(torch.arange(30))
    second.add(torch.arange(30) * 2, torch.ones(30, 4))
    assert torch.equal(2 * first.sample(3)[0], second.sample(3)[0])


def test_a_saved_buffer_goes_on_with_the_same_draws():
    straight = Reservoir(4, seed=2)
    straight.add(torch.arange(20))
    resumed = Reservoir(4, seed=99)
    resumed.load_state_dict(straight.state_dict())
    for buffer in (straight, resumed):
        buffer.add(torch.arange(20, 60))
    assert torch.equal(straight.sample(4)[0], resumed.sample(4)[0])
    assert straight.seen == resumed.seen == 60


def test_a_saved_state_does_not_change_when_the_buffer_goes_on():
    buffer = Reservoir(4, seed=2)
    buffer.add(torch.arange(4))
    state = buffer.state_dict()
    buffer.add(torch.arange(4, 100))
    assert state["parts"][0].tolist() == [0, 1, 2, 3]


def test_a_buffer_of_size_0_keeps_nothing():
    buffer = Reservoir(0, seed=0)
    buffer.add(torch.ones(3, 2))
    assert (len(buffer), buffer.seen) == (0, 3)
