"""What is left of files whose last sectors a device has lost."""

from random import Random

from esp.simulation.machine.file_content import SECTOR_BYTES
from esp.simulation.machine.partial_loss import lose_last_sectors, lose_parts

OLD = b"o" * SECTOR_BYTES
NEW = b"n" * (2 * SECTOR_BYTES + 10)


def outcomes(data, held, *, may_have_zeros):
    return {lose_last_sectors(data, held, Random(seed), may_have_zeros=may_have_zeros) for seed in range(60)}


def test_what_the_device_had_before_stays_and_of_the_rest_sectors_are_gone():
    places = [len(OLD) + place * SECTOR_BYTES for place in range(3)]
    whole = OLD + NEW
    assert outcomes(whole, OLD, may_have_zeros=False) == {whole[:place] for place in places}


def test_lost_sectors_are_gone_or_zeros():
    places = [place * SECTOR_BYTES for place in range(3)]
    cut = {NEW[:place] for place in places}
    assert outcomes(NEW, b"", may_have_zeros=True) == cut | {kept.ljust(len(NEW), b"\0") for kept in cut}


def test_a_sector_that_was_written_to_since_is_lost_as_a_whole():
    assert outcomes(b"old and new", b"old", may_have_zeros=False) == {b""}


def test_nothing_is_lost_that_was_not_written_since():
    assert outcomes(OLD, OLD, may_have_zeros=True) == {OLD}
    assert outcomes(b"", OLD, may_have_zeros=True) == {b""}


def test_of_some_files_nothing_is_lost_and_the_others_are_named():
    image = {f"/data/{number}": NEW for number in range(20)} | {"/data/old": OLD}
    numbers = set()
    for seed in range(40):
        files, lossy = lose_parts(image, {"/data/old": OLD}, Random(seed), frozenset(image))
        assert lossy == [path for path in image if files[path] != image[path]]
        assert all(NEW.startswith(files[path]) for path in lossy), "nothing else stands in sealed files"
        assert files["/data/old"] == OLD
        numbers.add(len(lossy))
    assert 20 in numbers
    assert min(numbers) < 5
