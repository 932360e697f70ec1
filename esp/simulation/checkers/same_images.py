"""Compares the images that a node publishes with the committed ones, part by part: images share what does not change.

A part that was found to be equal is not compared again as long as neither side has another object in its place. A node that changed an
object which it has published would not be found out by that, so now and then whole images are compared.
"""

from collections.abc import Hashable, Mapping
from dataclasses import fields
from typing import Any, Final

from esp.controller.image import ClusterImage

WHOLE_EVERY: Final = 16
"""The number of images of which one is compared as a whole."""

_PARTS: Final = tuple(field.name for field in fields(ClusterImage))


class SameImages:
    """The comparison of one node's images, in the order in which it publishes them, with the committed ones of the same offsets."""

    def __init__(self) -> None:
        self._count = 0
        self._equal: dict[Hashable, tuple[object, object]] = {}
        """By the place of a part, the two objects there that were found to be equal last."""

    def are_same(self, known: ClusterImage, image: ClusterImage) -> bool:
        """True if a committed image and a published one are equal."""
        self._count += 1
        if not self._count % WHOLE_EVERY:
            return known == image
        return all(self._is_same(name, getattr(known, name), getattr(image, name)) for name in _PARTS)

    def _is_same(self, place: Hashable, known: Any, part: Any) -> bool:
        equal = self._equal.get(place)
        if equal is not None and equal[0] is known and equal[1] is part:
            return True
        if isinstance(known, Mapping) and isinstance(part, Mapping):
            is_same = len(known) == len(part) and all(
                key in part and self._is_same((place, key), value, part[key]) for key, value in known.items()
            )
        else:
            is_same = known == part
        if is_same:
            self._equal[place] = known, part
        return is_same
