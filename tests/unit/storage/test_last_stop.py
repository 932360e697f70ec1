"""What a node says of its last stop: only what all of its directories say."""

from types import SimpleNamespace

import pytest

from esp.storage.last_stop import previous_broker_epoch


def stopped(epoch: int) -> SimpleNamespace:
    return SimpleNamespace(was_clean=True, clean_broker_epoch=epoch)


def killed(epoch: int) -> SimpleNamespace:
    marker = SimpleNamespace(survived_epoch=lambda boot: epoch if boot == "boot" else -1)
    return SimpleNamespace(was_clean=False, running_marker=marker)


@pytest.mark.parametrize(
    ("directories", "epoch"),
    [
        ([], -1),
        ([stopped(5), stopped(5)], 5),
        ([stopped(5), stopped(6)], -1),
        ([killed(5)], 5),
        ([stopped(5), killed(5)], 5),
        ([stopped(5), killed(-1)], -1),
    ],
)
def test_the_epoch_is_told_if_nothing_was_lost_anywhere(directories: list[SimpleNamespace], epoch: int) -> None:
    assert previous_broker_epoch(directories, "boot") == epoch  # type: ignore[arg-type]


def test_after_another_boot_a_killed_process_has_lost_what_was_not_synced() -> None:
    assert previous_broker_epoch([killed(5)], "next boot") == -1  # type: ignore[list-item]


def test_a_killed_process_counts_as_unclean_if_the_settings_say_so() -> None:
    assert previous_broker_epoch([killed(5)], "boot", trusts_running_markers=False) == -1  # type: ignore[list-item]
    assert previous_broker_epoch([stopped(5)], "boot", trusts_running_markers=False) == 5  # type: ignore[list-item]
