"""Whole disks as values: copies of a simulated disk, and disks that are put in its place."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from esp.simulation.machine.directory_tree import Change, DirectoryTree
from esp.simulation.machine.disk import SimulatedDisk
from esp.simulation.machine.file_content import FileContent

DiskImage: TypeAlias = Mapping[str, bytes]
"""The bytes of all files by path."""


def walk(disk: SimulatedDisk, path: str) -> Iterator[tuple[str, FileContent]]:
    """All files below a directory with their paths, in order."""
    for name in disk.listdir(path):
        below = f"{path.rstrip('/')}/{name}"
        content = disk.content(below)
        if content is not None:
            yield below, content
        else:
            yield from walk(disk, below)


def take_image(disk: SimulatedDisk, path: str, wanted: Callable[[str], bool]) -> DiskImage:
    """A copy of the files below a directory whose paths are ``wanted``, as a program that copies them at this moment gets it."""
    return {name: bytes(content.cached) for name, content in walk(disk, path) if wanted(name)}


def make_tree(image: DiskImage) -> DirectoryTree:
    """A disk with these files, all of them synced."""
    tree = DirectoryTree()
    for path, data in image.items():
        tree.make(path.rpartition("/")[0])
        content = FileContent()
        content.cached, content.durable = bytearray(data), bytearray(data)
        directory, name = tree.parent(path)
        tree.change(Change(directory, name, content))
    tree.finish_all()
    return tree
