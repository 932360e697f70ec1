"""The table of calls."""

import cProfile

from benchmarks.call_table import print_calls


class First:
    def same_name(self):
        return 1


class Second:
    def same_name(self):
        return 2


def test_functions_of_the_same_name_are_shown_apart(tmp_path, capsys):
    first, second = First(), Second()
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(10):
        first.same_name()
    for _ in range(20):
        second.same_name()
    profile.disable()
    profile.dump_stats(tmp_path / "profile")
    print_calls(tmp_path / "profile", 10, 5)
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "same_name" in line]
    assert sorted(row[0] for row in rows) == ["1.00", "2.00"]
