"""``esp brokers drain`` and ``undrain``: a broker is emptied, by the controller or by a plan, and let be again."""

import sys
import time
from typing import Annotated

import typer

from esp.cli.brokers.remove import BrokerId
from esp.cli.kafka.brokers import BrokersAdmin
from esp.cli.options import BootstrapServer, Json
from esp.cli.output import print_json, print_line
from esp.cli.rebalance.plan import DEFAULT_BUDGET
from esp.cli.rebalance.run import BrokerDeadAfter, Deadline, MaxProduceP99, Replan, SystemTimer, Way, begin
from esp.cli.rebalance.text import plan_as_json, plan_lines
from esp.model.errors import OperatorError
from esp.model.ids import NodeId
from esp.placement.intents import Drain
from esp.placement.limits import Limits
from esp.rebalance.drain_watch import check_drain, watch_drain
from esp.rebalance.driver import TURN_S
from esp.rebalance.holding import Holding, look_for_holding
from esp.rebalance.plan_file import PlanFile, write_plan
from esp.rebalance.planning import plan_for
from esp.rebalance.replanning import REPLANS_MAX
from esp.rebalance.sizes import parse_size
from esp.rebalance.stages import BELIEVED_AFTER_MS

_LINE_EVERY_S = 5.0


def drain(
    broker: BrokerId,
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    wait: Annotated[
        bool, typer.Option("--wait", "--apply", help="Move the replicas, and return when the broker holds none.")
    ] = False,
    out: Annotated[str | None, typer.Option("--out", metavar="FILE", help="Where to write the plan.")] = None,
    budget: Annotated[
        str,
        typer.Option("--budget", metavar="BYTES", help="The plan's bytes per second, for each broker and direction."),
    ] = DEFAULT_BUDGET,
    max_produce_p99: MaxProduceP99 = None,
    broker_dead_after: BrokerDeadAfter = 60.0,
    deadline: Deadline = 600.0,
    may_replan: Replan = False,
    json: Json = False,
) -> None:
    """Drain a broker: move its replicas to other brokers.

    On ESP the broker is marked first ([bold]broker.draining=true[/bold]), so that it gets no new replicas; with
    [bold]rebalance.mode=apply[/bold] the controller does the rest by itself. Elsewhere a plan is made, as by [bold]esp rebalance plan
    drain[/bold], and with --wait carried out.

    [bold]Examples[/bold]

    esp brokers drain 3

    esp brokers drain 3 --wait --budget 50M
    """
    limits = Limits(parse_size("--budget", budget))
    way = Way(None, max_produce_p99, broker_dead_after, deadline, REPLANS_MAX if may_replan else 0, json)
    with BrokersAdmin(bootstrap_server) as admin:
        known = admin.brokers().get(broker)
        if known is None and not look_for_holding(admin, broker).everything:
            raise _unknown(broker)
        is_alive = known is not None and not known.fenced
        knows_draining = is_alive and admin.knows_draining(broker)
        is_marked = knows_draining and broker in admin.draining([broker])
        does_it_by_itself = knows_draining and admin.self_repair_mode(_who_decides(admin, broker)) == "apply"
        file = None
        if does_it_by_itself:
            check_drain(admin, broker, limits, SystemTimer())
        else:
            file = plan_for(admin, Drain((NodeId(broker),)), limits, 0, SystemTimer().now_ms())
        if knows_draining and not is_marked:
            admin.drain(broker)
            _tell(f"Broker {broker} gets no new replicas: broker.draining=true", json=json)
        elif not is_alive:
            _tell(
                f"Broker {broker} is down, so it cannot be marked as draining; its replicas move to other brokers",
                json=json,
            )
        if file is None:
            _watch(admin, broker, wait=wait, json=json)
        else:
            _carry_out(admin, broker, file, out, way, wait=wait)


def undrain(broker: BrokerId, bootstrap_server: BootstrapServer = "127.0.0.1:9092") -> None:
    """Let a broker get replicas again. Replicas that have moved away stay where they are; see [bold]esp rebalance plan spread[/bold]."""
    with BrokersAdmin(bootstrap_server) as admin:
        known = admin.brokers().get(broker)
        if known is None:
            raise _unknown(broker)
        if known.fenced:
            raise OperatorError(
                f"broker {broker} is down, and only the broker itself can change its settings",
                "Start it, or remove it.",
            )
        if broker not in admin.draining([broker]):
            print_line(f"Broker {broker} is not draining.")
            return
        admin.undrain(broker)
        print_line(
            f"Broker {broker} can get replicas again. Moves that have begun continue; see esp reassign-partitions --list"
        )


def _unknown(broker: int) -> OperatorError:
    return OperatorError(f"broker {broker} is not registered", "See the registered brokers: esp brokers list")


def _who_decides(admin: BrokersAdmin, broker: int) -> int:
    """The broker to ask for the mode of the active controller: the controller itself, or the drained broker if the former is no broker."""
    leader = admin.quorum().leader
    known = admin.brokers().get(leader)
    return leader if known is not None and not known.fenced else broker


def _watch(admin: BrokersAdmin, broker: int, *, wait: bool, json: bool) -> None:
    """Follow a drain that the controller carries out (``rebalance.mode=apply``)."""
    if not wait:
        left = len(look_for_holding(admin, broker).everything)
        _tell(f"The controller moves its {left} replica(s) away (rebalance.mode=apply)", json=json)
        _tell(f"Follow it with: esp brokers drain {broker} --wait", json=json)
        return
    told: Holding | None = None
    next_s = 0.0

    def watch(holding: Holding) -> None:
        nonlocal told, next_s
        if holding == told or (time.monotonic() < next_s and holding.everything):
            return
        told, next_s = holding, time.monotonic() + _LINE_EVERY_S
        left, leaving = len(holding.everything), len(holding.leaving)
        if json:
            print_json({"event": "progress", "replicas": left, "leaving": leaving})
        else:
            print_line(f"broker {broker}: {left} replica(s) left, {leaving} moving to other brokers")
        sys.stdout.flush()

    watch_drain(admin, broker, SystemTimer(), watch)
    _tell_empty(admin, broker, json=json)


def _carry_out(admin: BrokersAdmin, broker: int, file: PlanFile, out: str | None, way: Way, *, wait: bool) -> None:
    """Drain the broker by a plan, which this command carries out if it is to wait."""
    if way.json:
        print_json({"event": "planned", **plan_as_json(file)})
    else:
        for line in plan_lines(file, steps=False):
            print_line(line)
    if not file.plan.is_empty:
        path = out or f"rebalance-drain-{time.strftime('%Y%m%d-%H%M%S')}.json"
        write_plan(path, file)
        _tell(f"Written to {path}.", json=way.json)
        if not wait:
            _tell(f"Nothing moves yet. Begin with: esp rebalance apply {path}", json=way.json)
            return
        begin(admin, path, file, way)
    if not _is_empty_soon(admin, broker):
        raise OperatorError(
            f"broker {broker} received new replicas in the meantime",
            f"Drain it again: esp brokers drain {broker} --wait",
        )
    _tell_empty(admin, broker, json=way.json)


def _is_empty_soon(admin: BrokersAdmin, broker: int) -> bool:
    """True if the broker holds nothing, after waiting until the answering brokers may have learned of the end of the last move."""
    timer = SystemTimer()
    deadline_ms = timer.now_ms() + BELIEVED_AFTER_MS
    while look_for_holding(admin, broker).everything:
        if timer.now_ms() >= deadline_ms:
            return False
        timer.sleep(TURN_S)
    return True


def _tell_empty(admin: BrokersAdmin, broker: int, *, json: bool) -> None:
    if json:
        print_json({"event": "empty", "broker": broker})
    elif broker in admin.brokers():
        print_line(f"Broker {broker} holds no replicas. To remove it, stop the node, then: esp brokers remove {broker}")
    else:
        print_line(f"Broker {broker} holds no replicas.")


def _tell(text: str, *, json: bool) -> None:
    """A line for people; programs get theirs."""
    if not json:
        print_line(text)
