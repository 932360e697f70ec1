"""The target assignment of a group: its members and topics, as its assignor wants them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from esp.groups.consumer.assignors import ASSIGNORS, AssignedTopic, Assignment, Subscriber
from esp.groups.consumer.group import ConsumerGroup, subscribed_names
from esp.groups.consumer.topics import TopicCatalog
from esp.groups.steps import Steps, in_steps
from esp.model.ids import TopicId
from esp.schemas.consumer_group_records import MemberValue, RegexValue


def preferred_assignor(group: ConsumerGroup, assignors: Sequence[str]) -> str:
    """The name of the assignor that most members ask for; of several the first in the settings, which is also that of no wish.

    Args:
        group: the group.
        assignors: the names in the settings.
    """
    wishes = Counter(member.about.assignor for member in group if member.about.assignor in assignors)
    return max(assignors, key=lambda name: wishes[name])


def assign(group: ConsumerGroup, catalog: TopicCatalog, assignors: Sequence[str]) -> Steps[Assignment]:
    """Compute the partitions of each member, of the group as it is at the first step.

    Args:
        group: the group.
        catalog: the topics that there are.
        assignors: the names in the settings.
    """
    assignor = ASSIGNORS[preferred_assignor(group, assignors)]
    members, targets = list(group), dict(group.targets)
    subscriptions = _Subscriptions(dict(group.regexes))
    topics = yield from subscriptions.look_up(group.topic_names, catalog)
    subscribers: list[Subscriber] = []
    for some in in_steps(members):
        for member in some:
            topic_ids = yield from subscriptions.topics_of(member.about)
            before = targets.get(member.member_id, frozenset())
            subscribers.append(
                Subscriber(member.member_id, member.about.instance_id, member.about.rack_id, topic_ids, before)
            )
        yield
    return (yield from assignor(subscribers, topics))


class _Subscriptions:
    """The topics of members, of which many are subscribed to the same: equal sets are one object, whose hash is computed once.

    Args:
        regexes: the topics of regular expressions.
    """

    def __init__(self, regexes: Mapping[str, RegexValue]) -> None:
        self._regexes = regexes
        self._ids: dict[str, TopicId] = {}
        self._found: dict[tuple[tuple[str, ...], str | None], frozenset[TopicId]] = {}
        self._same: dict[frozenset[TopicId], frozenset[TopicId]] = {}

    def look_up(self, names: Iterable[str], catalog: TopicCatalog) -> Steps[dict[TopicId, AssignedTopic]]:
        """The topics of these names, those that exist."""
        topics: dict[TopicId, AssignedTopic] = {}
        for some in in_steps(names):
            for name in some:
                known = catalog.find(name)
                if known is not None:
                    self._ids[name] = known.topic.topic_id
                    topics[known.topic.topic_id] = known.topic
            yield
        return topics

    def topics_of(self, about: MemberValue) -> Steps[frozenset[TopicId]]:
        """The topics to which a member is subscribed, of those that were looked up."""
        key = about.topic_names, about.topic_regex
        found = self._found.get(key)
        if found is None:
            topic_ids: set[TopicId] = set()
            for some in in_steps(subscribed_names(about, self._regexes)):
                topic_ids.update([self._ids[name] for name in some if name in self._ids])
                yield
            found = frozenset(topic_ids)
            found = self._found[key] = self._same.setdefault(found, found)
        return found
