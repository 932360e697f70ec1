"""Tests that are played on a simulated loop: coroutine functions that are handed what they work with."""

import functools
import inspect

from esp.simulation.machine.loop import SimulatedLoop


def played(play, *, limit_s=3600):
    """Make a decorator of scenarios: coroutine functions whose first argument is the scene, further ones the test's parameters.

    Args:
        play: a coroutine function of a loop and a scenario; it sets the scene, and awaits ``scenario(scene)``.
        limit_s: how much simulated time a test may take.
    """

    def decorate(scenario):
        def test(*args, **kwargs):
            loop = SimulatedLoop()
            loop.run(play(loop, lambda scene: scenario(scene, *args, **kwargs)), limit_s=limit_s)

        functools.update_wrapper(test, scenario)
        del test.__wrapped__  # pytest would take the scene for a fixture
        test.__signature__ = inspect.Signature(list(inspect.signature(scenario).parameters.values())[1:])
        return test

    return decorate
