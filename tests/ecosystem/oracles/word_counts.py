"""The counts that a word count must publish: for each word 1, 2, 3 and so on up to its number of occurrences, each once and in order.

Streams publishes a count for each word that it reads if its store has no cache. Under exactly-once semantics a killed instance therefore
leaves neither a gap nor a repetition behind, and an instance that lost its store goes on where the changelog ends.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

_NO_WORD = re.compile(r"\W+")


def words_of(line: str) -> list[str]:
    """Return the words of a line as the example program splits it."""
    return [word for word in _NO_WORD.split(line.lower()) if word]


def judge_word_counts(lines: Iterable[str], counts: Iterable[tuple[str, int]]) -> list[str]:
    """Return the differences between the published counts and those of the input.

    Args:
        lines: the input, in any order.
        counts: words with their counts; the counts of one word in the order in which they stand in their partition.
    """
    expected = Counter(word for line in lines for word in words_of(line))
    published: defaultdict[str, list[int]] = defaultdict(list)
    for word, count in counts:
        published[word].append(count)
    found = [f"{word!r} was counted and is not in the input" for word in sorted(published.keys() - expected.keys())]
    for word, total in sorted(expected.items()):
        if (problem := _first_difference(published[word], total)) is not None:
            found.append(f"{word!r}: {problem}")
    return found


def _first_difference(counts: list[int], total: int) -> str | None:
    for place, count in enumerate(counts, 1):
        if count != place:
            return f"count {count} stands in the place of {place} of {total}"
    return None if len(counts) == total else f"the last count is {len(counts)}, not {total}"
