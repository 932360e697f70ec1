"""Administrators: topics come, change and go and come again under the same name, leaders are elected, dead brokers unregistered."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any, Final

from esp.controller.image import RECREATE_OFFSETS, TRASH_RETENTION, TopicImage
from esp.model.errors import ErrorCode
from esp.model.ids import TopicId
from esp.model.offset_floor import CONTINUE
from esp.protocol.registry import ApiKey
from esp.protocol.trash import PURGE, RESTORE
from esp.settings.rebalance import REMOVAL_FORCED
from esp.simulation.nodes_tier.ledger import PASSING, RECKLESS
from esp.simulation.nodes_tier.log_start_profile import HOLD_GROUPS
from esp.simulation.nodes_tier.nudges import Nudges
from esp.simulation.nodes_tier.profile import TopicProfile
from esp.simulation.streams import stream
from esp.simulation.workload import admin_requests, requests
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import NoAnswerError, RefusedError
from esp.simulation.workload.history import History

TIMEOUT_S: Final = 10.0
BACKOFF_S: Final = 0.5
MIN_ISR: Final = "min.insync.replicas"
UNCLEAN_ELECTIONS: Final = "unclean.leader.election.enable"
DEAD_SHARE: Final = (0.2, 0.6)
"""The range of the draw, while a broker is dead, in which it is unregistered, often so soon that other nodes still count on it."""

AT_ONCE_SHARE: Final = 0.4
"""The share of the brokers, of those that die while nothing else is done, that are unregistered before any other node misses them."""

FORCED_SHARE: Final = 0.5
"""The share of the brokers, refused to be unregistered as they hold the last complete copy of something, that go by force."""

WATCH_S: Final = 0.1
"""The time within which that is seen."""

MINIMUMS: Final = ("1", "2", "3")

FORGETTING_SHARE: Final = 0.5
"""The share of the actions, while a replica outside of the in-sync set is eligible to lead, that change the minimum behind it (ELR-3)."""

RECREATING: Final = "administrator that creates again"
"""The stream of randomness of topics whose offsets go on."""

CONTINUING_SHARE: Final = 0.5
"""The share of the runs in which offsets of topics go on when they are created again."""

CONTINUED_SHARE: Final = 0.95
"""The share of the topics of such a run whose offsets go on; each other one begins again from 0, and so does the next one of its name."""

LIFE_S: Final = (0.5, 4.0)
"""The time that is left to a topic of such a run to get records."""

REPLACING_SHARE: Final = 0.5
"""The share of the actions in such a run that delete a topic."""

AGAIN_SHARE: Final = 0.8
"""The share of the topics that are created again at once, when their deletion has just been answered."""

RESTORING: Final = "administrator that restores"
"""The stream of randomness of topics that go into the trash."""

RESTORING_SHARE: Final = 0.4
"""The share of the runs in which deleted topics go into the trash, among those in which offsets of topics do not go on."""

MIXING: Final = "administrator that creates again what can be restored"
"""The stream of randomness of topics that go on, and whose predecessors are in the trash."""

MIXING_SHARE: Final = 0.3
"""The share of the runs in which deleted topics go into the trash, too, among those in which offsets of topics go on."""

BEHIND_SHARE: Final = 0.5
"""The share of the deleted topics there, mostly taken out again, after which another topic of the name comes and goes."""

OLD_SHARE: Final = 0.5
"""The share of the topics taken out there that are the one of the name that was deleted first."""

RETENTIONS_MS: Final = (3_000, 60_000, 2_592_000_000)
"""The times that they have there. No run takes as long as the last, a month: its milliseconds are no number of 32 bits."""

RESTORED_SHARE: Final = 0.8
"""The share of the deletions after which something is taken out of the trash."""

PURGED_SHARE: Final = 0.15
"""The share of the topics taken out that are purged."""

AGAIN_SHARE_OF_RESTORED: Final = 0.5
"""The share of the restored topics that are deleted again, with the records of a while, and mostly taken out again."""

BOUNDING: Final = "administrator that bounds the trash"
"""The stream of randomness of how much may be in the trash."""

BOUNDED_SHARE: Final = 0.5
"""The share of the runs with a trash in which topics are left there, and the bytes that it may have change."""

FILLING_SHARE: Final = 0.5
"""The share of the times at which topics are put in the trash there at which several are, and are left, and then its bounds change."""

FILLING: Final = (2, 4)
"""The number of them."""

SHORT_LIFE_S: Final = (0.3, 1.5)
"""The time that is left to each of them to get records."""

TRASH_MAX_BYTES: Final = "topic.trash.max.bytes"
BOUNDS: Final = (0, 1_000, 3_000, 10_000, -1)
"""The most bytes of the trash of a log directory; -1: as many as there are."""

HOLDING: Final = "administrator whose topics are held"
"""The stream of randomness of topics that groups hold."""

HELD_SHARE: Final = 0.7
"""The share of the topics that come and go, in runs with groups that hold others, that groups hold."""

NUDGE_SHARE: Final = 0.7
"""The share of the actions, while a partition that may lose records has no leader, that do something about that."""


def continues_offsets(seed: int) -> bool:
    """True if the offsets of topics that come and go go on in a run, by its seed."""
    return stream(RECREATING, seed).random() < CONTINUING_SHARE


def restores_topics(seed: int) -> bool:
    """True if topics that come and go go into the trash in a run, by its seed."""
    if continues_offsets(seed):
        return stream(MIXING, seed).random() < MIXING_SHARE
    return stream(RESTORING, seed).random() < RESTORING_SHARE


OnDeleted = Callable[[TopicId | None], None]
"""Takes the id of a topic whose deletion was answered."""


async def _nothing(_name: str) -> None:
    """Bring no fault."""


def _look_at_none(_name: str) -> OnDeleted:
    """Compare nothing."""
    return lambda _topic_id: None


class Administrator:
    """Asks any broker; each call is tried once.

    Args:
        client: its connections.
        rng: its own stream of randomness.
        history: counts what was done.
        replicas_max: how many copies a partition may have.
        find_dead: a broker that is dead at the moment, if there is one.
        find_eligible: one of the passing topics that has eligible leader replicas, if there is one.
        forgetting: its stream of randomness for what it does about that.
        nudges: finds partitions without a leader.
        recreating: its stream of randomness for topics whose offsets go on.
        restoring: its stream of randomness for topics that go into the trash.
        bounding: its stream of randomness for how much may be there.
        mixing: its stream of randomness for topics of both kinds.
        holding: its stream of randomness for topics that groups hold.
        holders: the names of groups that may hold topics; empty in runs without any.
    """

    def __init__(
        self,
        client: ClusterClient,
        rng: Random,
        history: History,
        *,
        replicas_max: int,
        find_dead: Callable[[], int | None],
        find_eligible: Callable[[], TopicImage | None],
        forgetting: Random,
        nudges: Nudges,
        recreating: Random,
        restoring: Random,
        bounding: Random,
        mixing: Random,
        holding: Random,
        holders: Sequence[str],
    ) -> None:
        self.is_stopping = False
        self.doubtful_minimums: dict[str, int] = {}
        """By topic, the minimum of in-sync replicas that was asked for last, unless it is known to be in force."""
        self.client = client
        self._rng = rng
        self._history = history
        self._replicas_max = replicas_max
        self._find_dead = find_dead
        self._find_eligible = find_eligible
        self._forgetting = forgetting
        self._nudges = nudges
        self._recreating = recreating
        self._continues = recreating.random() < CONTINUING_SHARE
        self._restoring = restoring
        self._mixing = mixing
        self._restores = mixing.random() < MIXING_SHARE if self._continues else restoring.random() < RESTORING_SHARE
        self._bounding = bounding
        self._bounds = bounding.random() < BOUNDED_SHARE
        self._holding = holding
        self._holders = holders
        self.on_deleting: Callable[[str], OnDeleted] = _look_at_none
        """Called with the name of a topic when a broker is asked to delete it; returns a function to call with the answer."""
        self.asked_purges: dict[TopicId, None] = {}
        """The topics in the trash whose purge was asked for."""
        self.before_deletion: Callable[[str], Awaitable[None]] = _nothing
        """Awaited before a topic is deleted whose offsets may go on, or that may come back, and before it comes back."""
        self.before_trash: Callable[[str], Awaitable[None]] = _nothing
        """Awaited before a topic is deleted that is to come back, ahead of the other."""
        self._takes_back = False

    async def create(self, topic: TopicProfile) -> None:
        """Create a topic; one that is there already is well.

        Raises:
            NoAnswerError, RefusedError: it may not be there.
        """
        request = requests.create_topic(topic, TIMEOUT_S)
        answer = await self._call(ApiKey.CREATE_TOPICS, requests.CREATE_TOPICS_VERSION, request)
        _require_success(answer.topics[0].error_code, ErrorCode.topic_already_exists)

    async def delete(self, name: str) -> None:
        """Delete a topic; one that is not there is well.

        Raises:
            NoAnswerError, RefusedError: it may be there still.
        """
        request = requests.delete_topic(name, TIMEOUT_S)
        connection = await self.client.any_broker()
        on_deleted = self.on_deleting(name)
        answer = await connection.call(ApiKey.DELETE_TOPICS, requests.DELETE_TOPICS_VERSION, request, TIMEOUT_S)
        told = answer.responses[0]
        _require_success(told.error_code, ErrorCode.unknown_topic_or_partition)
        if told.error_code is ErrorCode.none:
            on_deleted(told.topic_id)

    async def elect(self, election: int, wanted: list[tuple[str, int]] | None) -> None:
        """Have leaders elected, of some partitions or of all.

        Raises:
            NoAnswerError, RefusedError: perhaps no leader was elected.
        """
        request = admin_requests.elect_leaders(election, wanted, TIMEOUT_S)
        answer = await self._call(ApiKey.ELECT_LEADERS, admin_requests.ELECT_LEADERS_VERSION, request)
        _require_success(answer.error_code)
        what = "unclean election" if election == admin_requests.UNCLEAN else "preferred election"
        for topic in answer.replica_election_results:
            for part in topic.partition_result:
                if part.error_code is ErrorCode.none:
                    self._history.on_done(self.client.name, what, f"{topic.topic}-{part.partition_id}")

    async def unregister(self, node_id: int) -> None:
        """Have a broker forgotten; it registers anew when it comes back. One with the last copy of something goes by force, or stays.

        Raises:
            NoAnswerError, RefusedError: it may be registered still.
        """
        request = admin_requests.unregister_broker(node_id)
        answer = await self._call(ApiKey.UNREGISTER_BROKER, admin_requests.UNREGISTER_BROKER_VERSION, request)
        if answer.error_code is ErrorCode.policy_violation and self._rng.random() < FORCED_SHARE:
            await self._configure(admin_requests.BROKER, "", REMOVAL_FORCED, f"{node_id}")
            answer = await self._call(ApiKey.UNREGISTER_BROKER, admin_requests.UNREGISTER_BROKER_VERSION, request)
        _require_success(answer.error_code)
        self._history.on_done(self.client.name, "broker unregistered", f"{node_id}")

    async def configure(self, topic: str, name: str, value: str) -> None:
        """Give a topic's setting another value.

        Raises:
            NoAnswerError, RefusedError: it may have the old one still.
        """
        if name == MIN_ISR:
            self.doubtful_minimums[topic] = int(value)
        await self._configure(admin_requests.TOPIC, topic, name, value)
        self.doubtful_minimums.pop(topic, None)

    async def run(self) -> None:
        """Do what comes to mind until told to stop."""
        name = RECKLESS if self._rng.random() < 0.5 else None
        while not self.is_stopping:
            try:
                await self._act(name or self._rng.choice(PASSING), creates=name is not None)
                name = None
                await self._rest()
            except NoAnswerError as error:
                self._history.on_no_answer(self.client.name, str(error))
                await asyncio.sleep(BACKOFF_S)
            except RefusedError as error:
                self._history.on_refusal(self.client.name, error.code.name)
                await asyncio.sleep(BACKOFF_S)

    async def _rest(self) -> None:
        """Let some time pass, and often seize the moment: give up a broker that has just died, before any other node has seen it, and the
        records of a partition that has just lost its last leader.

        Raises:
            NoAnswerError, RefusedError: it may be registered still.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._rng.uniform(0.3, 4)
        known, known_leaderless = self._find_dead(), self._nudges.find_leaderless()
        while loop.time() < until_s and not self.is_stopping:
            await asyncio.sleep(WATCH_S)
            dead, leaderless = self._find_dead(), self._nudges.find_leaderless()
            if dead is not None and dead != known and self._rng.random() < AT_ONCE_SHARE:
                await self.unregister(dead)
            elif leaderless is not None and leaderless != known_leaderless and self._rng.random() < NUDGE_SHARE:
                await self._nudge(leaderless)
            known, known_leaderless = dead, leaderless

    async def _act(self, name: str, *, creates: bool) -> None:
        eligible = self._find_eligible()
        if eligible is not None and self._forgetting.random() < FORGETTING_SHARE:
            others = [minimum for minimum in MINIMUMS if minimum != eligible.configs.get(MIN_ISR)]
            await self.configure(eligible.name, MIN_ISR, self._forgetting.choice(others))
            return
        if self._continues and not creates and self._recreating.random() < REPLACING_SHARE:
            await self._replace(name)
            return
        if self._restores and not creates and self._restoring.random() < REPLACING_SHARE:
            await self._lend(name)
            return
        chance = 0.0 if creates else self._rng.random()
        dead = self._find_dead()
        leaderless = self._nudges.find_leaderless()
        if leaderless is not None and chance < NUDGE_SHARE:
            await self._nudge(leaderless)
        elif self._takes_back and leaderless is None:
            await self.configure(RECKLESS, UNCLEAN_ELECTIONS, "false")
            self._takes_back = False
        elif dead is not None and DEAD_SHARE[0] <= chance < DEAD_SHARE[1]:
            await self.unregister(dead)
        elif chance < 0.3:
            topic = self._draw_topic(name)
            await self.create(topic)
            self._history.on_done(self.client.name, "topic created", f"{topic}")
        elif chance < 0.45:
            await self._replace(name)
        elif chance < 0.65:
            if name == RECKLESS and self._rng.random() < 0.5:
                await self.configure(name, UNCLEAN_ELECTIONS, self._rng.choice(("true", "false")))
            else:
                await self.configure(name, MIN_ISR, self._rng.choice(MINIMUMS))
        elif chance < 0.75:
            await self.elect(admin_requests.PREFERRED, None)
        else:
            await self.elect(admin_requests.UNCLEAN, [(RECKLESS, 0)])

    async def _replace(self, name: str) -> None:
        """Delete a topic; one of a run in which offsets go on is often created again at once."""
        if self._continues:
            await asyncio.sleep(self._recreating.uniform(*LIFE_S))
            await self.before_deletion(name)
        await self.delete(name)
        self._history.on_done(self.client.name, "topic deleted", name)
        if self._continues and self._recreating.random() < AGAIN_SHARE:
            topic = self._draw_topic(name)
            await self.create(topic)
            self._history.on_done(self.client.name, "topic created", f"{topic}")

    async def _lend(self, name: str) -> None:
        """Have a topic live for a while, delete it, and mostly take it out of the trash; some of those that are restored a second time.

        Raises:
            NoAnswerError, RefusedError: something of it is not done.
        """
        rng = self._restoring
        if self._bounds and self._bounding.random() < FILLING_SHARE:
            await self._fill_trash(name)
            return
        topic = self._draw_topic(name)
        await self.create(topic)
        self._history.on_done(self.client.name, "topic created", f"{topic}")
        await self._put_in_trash(name)
        if self._continues and self._mixing.random() < BEHIND_SHARE:
            await self.create(self._draw_topic(name))
            await asyncio.sleep(self._mixing.uniform(*SHORT_LIFE_S))
            await self.delete(name)
        if await self._take_out_soon(name) and rng.random() < AGAIN_SHARE_OF_RESTORED:
            await self._put_in_trash(name)
            await self._take_out_soon(name)

    async def _put_in_trash(self, name: str) -> None:
        """Have a topic live for a while, and delete it. Raises as :meth:`_lend` does."""
        await asyncio.sleep(self._restoring.uniform(*LIFE_S))
        await self.before_trash(name)
        await self.before_deletion(name)
        await self.delete(name)
        self._history.on_done(self.client.name, "topic deleted", name)

    async def _take_out_soon(self, name: str) -> bool:
        """Mostly take a topic out of the trash; return if it was restored. Raises as :meth:`_lend` does."""
        rng = self._restoring
        while rng.random() < RESTORED_SHARE and not self.is_stopping:
            await asyncio.sleep(rng.choice((0.1, 1.0, 5.0)) * rng.random())
            try:
                return await self._take_out(name) == RESTORE
            except NoAnswerError as error:
                self._history.on_no_answer(self.client.name, str(error))
        return False

    async def _fill_trash(self, name: str) -> None:
        """Have several topics of a name end in the trash, then change how much may be there.

        Raises:
            NoAnswerError, RefusedError: something of it is not done.
        """
        rng = self._bounding
        for _ in range(rng.randint(*FILLING)):
            topic = self._draw_topic(name)
            await self.create(topic)
            self._history.on_done(self.client.name, "topic created", f"{topic}")
            await asyncio.sleep(rng.uniform(*SHORT_LIFE_S))
            await self.delete(name)
            self._history.on_done(self.client.name, "topic deleted", name)
        await self._configure(admin_requests.BROKER, "", TRASH_MAX_BYTES, f"{rng.choice(BOUNDS)}")

    async def _take_out(self, name: str) -> int | None:
        """Restore the last topic of a name, or purge it; return which, None if none is there.

        Raises:
            NoAnswerError, RefusedError: it may be in the trash still.
        """
        version = admin_requests.LIST_PARTITION_REASSIGNMENTS_VERSION
        listed = await self._call(ApiKey.LIST_PARTITION_REASSIGNMENTS, version, admin_requests.list_trash(TIMEOUT_S))
        _require_success(listed.error_code)
        found = [each.topic_id for each in listed.trash if each.name == name]
        if not found:
            return None
        action = PURGE if self._restoring.random() < PURGED_SHARE else RESTORE
        topic_id = TopicId(found[0 if self._continues and self._mixing.random() < OLD_SHARE else -1])
        if action == RESTORE:
            await self.before_deletion(name)
        else:
            self.asked_purges[topic_id] = None
        request = admin_requests.change_trash(action, topic_id, TIMEOUT_S)
        version = admin_requests.ALTER_PARTITION_REASSIGNMENTS_VERSION
        answer = await self._call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, request)
        _require_success(answer.error_code)
        self._history.on_done(self.client.name, "topic restored" if action == RESTORE else "topic purged", name)
        return action

    async def _nudge(self, partition: int) -> None:
        """Give records up for a leader: by asking for one, or by a setting that lets the controller elect one."""
        if self._rng.random() < 0.3:
            await self.elect(admin_requests.UNCLEAN, [(RECKLESS, partition)])
        else:
            await self.configure(RECKLESS, UNCLEAN_ELECTIONS, "true")
            self._nudges.on_allowed(partition)
            self._takes_back = True

    def _draw_topic(self, name: str) -> TopicProfile:
        """A topic of any settings; only one of them may elect uncleanly by itself: of two copies, one is often alone."""
        rng = self._rng
        most = self._replicas_max if name != RECKLESS else min(2, self._replicas_max)
        factor = most if rng.random() < 0.9 else 1
        min_isr = min(factor, rng.choice((1, 1, 2, 2, 3) if name != RECKLESS else (1, 1, 1, 2)))
        configs = {MIN_ISR: str(min_isr)}
        if rng.random() < 0.3:
            configs["flush.messages"] = "1"
        if rng.random() < 0.5:
            configs["segment.ms"] = "1000"
        if name == RECKLESS and rng.random() < 0.2:
            configs[UNCLEAN_ELECTIONS] = "true"
        if self._continues and self._recreating.random() < CONTINUED_SHARE:
            configs[RECREATE_OFFSETS] = CONTINUE
        if self._restores:
            configs[TRASH_RETENTION] = str(self._restoring.choice(RETENTIONS_MS))
        if self._holders and self._holding.random() < HELD_SHARE:
            configs[HOLD_GROUPS] = self._holding.choice((*self._holders, ",".join(self._holders)))
        return TopicProfile(name, rng.randint(1, 2), factor, min_isr, configs)

    async def _configure(self, kind: int, resource: str, name: str, value: str) -> None:
        request = admin_requests.alter_configs(kind, {resource: {name: value}})
        version = admin_requests.INCREMENTAL_ALTER_CONFIGS_VERSION
        answer = await self._call(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, request)
        _require_success(answer.responses[0].error_code)
        self._history.on_done(self.client.name, "setting changed", f"{resource or 'all brokers'}: {name}={value}")

    async def _call(self, api_key: ApiKey, version: int, request: Any) -> Any:
        connection = await self.client.any_broker()
        return await connection.call(api_key, version, request, TIMEOUT_S)


def _require_success(code: Any, *also: ErrorCode) -> None:
    if code is not ErrorCode.none and code not in also:
        raise RefusedError(code)
