from random import Random

from esp.simulation.machine.disk import SimulatedDisk
from esp.simulation.machine.disk_image import make_tree, take_image, walk


def test_a_copy_is_what_the_disk_held_at_that_moment_and_loses_nothing_to_a_power_loss() -> None:
    disk = SimulatedDisk(Random(0))
    disk.make_directory("/data/t-0")
    disk.write_file("/data/t-0/a", b"1")
    disk.write_file("/data/b", b"2")
    image = take_image(disk, "/data", lambda path: not path.endswith("b"))
    disk.write_file("/data/t-0/a", b"3")
    disk.install(make_tree(image))
    disk.power_loss(Random(1))
    assert [(path, bytes(content.cached)) for path, content in walk(disk, "/data")] == [("/data/t-0/a", b"1")]


def test_files_of_the_process_before_are_dead_on_another_disk() -> None:
    disk = SimulatedDisk(Random(0))
    disk.make_directory("/data")
    disk.lock("/data/.lock")
    disk.install(make_tree({"/data/a": b"1"}))
    assert disk.lock("/data/.lock") is not None
