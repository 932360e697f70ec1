"""``esp doctor``: what is wrong with a cluster, or may become so; over the admin API, on ESP and on Kafka."""

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated

import typer

from esp.cli.doctor.look import WATCH_S, look_for_doctor
from esp.cli.doctor.node_files import look_at_node_files_blocking
from esp.cli.doctor.status import FOUND, FailOn, FailOnOption, Shown, looking
from esp.cli.doctor.text import examination_as_json, print_examination, print_rule, print_rules
from esp.cli.doctor.what_if import what_if
from esp.cli.kafka.client import LOOK_TIMEOUT_S
from esp.cli.kafka.doctor import DoctorAdmin
from esp.cli.options import BootstrapServer, Json, asking
from esp.cli.output import print_json, working
from esp.doctor.rule import Rule
from esp.doctor.rules import RULES, examine
from esp.model.errors import OperatorError

doctor = typer.Typer(rich_markup_mode="rich", context_settings={"help_option_names": ["-h", "--help"]})


@doctor.callback(invoke_without_command=True)
@asking
def look(
    context: typer.Context,
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    rule: Annotated[
        list[str] | None, typer.Option("--rule", metavar="NAME,NAME", help="Only these rules (default: all).")
    ] = None,
    skip: Annotated[list[str] | None, typer.Option("--skip", metavar="NAME,NAME", help="Not these rules.")] = None,
    fail_on: FailOnOption = FailOn.ERROR,
    show: Shown = 5,
    watch: Annotated[
        float,
        typer.Option("--watch", metavar="SECONDS", min=0, help="Time between samples of what moves or rebalances."),
    ] = WATCH_S,
    config: Annotated[
        str | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="The settings of a node on this host: secrets that others may read and revocation lists are examined too.",
        ),
    ] = None,
    explain: Annotated[
        str | None, typer.Option("--explain", metavar="NAME", help="Explain a rule; do not examine the cluster.")
    ] = None,
    rules: Annotated[bool, typer.Option("--rules", help="List the rules; do not examine the cluster.")] = False,
    json: Json = False,
) -> None:
    """Find faults and risks of a cluster. Nothing is changed.

    Exit status 0: no finding of the severity of --fail-on or above. 1: at least one. 2: the cluster could not be examined.

    [bold]Examples[/bold]

    esp doctor

    esp doctor --fail-on warning --skip leader-not-preferred,rack-missing

    esp doctor --json | jq '.findings[].rule'

    esp doctor --config /etc/esp/server.properties --skip rack-missing

    esp doctor --explain min-isr-equals-copies

    esp doctor what-if --broker 2 down
    """
    if context.invoked_subcommand is not None:
        _refuse_options(context)
        return
    with looking():
        if explain is not None:
            print_rule(_named(explain))
            return
        chosen = _choose(rule, skip)
        if rules:
            print_rules(chosen, json)
            return
        files = None if config is None else look_at_node_files_blocking(config, time.time())
        with DoctorAdmin(bootstrap_server, LOOK_TIMEOUT_S) as admin, working("examining the cluster"):
            snapshot = look_for_doctor(admin, watch)
        snapshot = replace(snapshot, protection=snapshot.protection._replace(files=files))
    findings = examine(snapshot, chosen)
    if json:
        print_json(examination_as_json(snapshot, findings, bootstrap_server))
    else:
        print_examination(snapshot, findings, show, bootstrap_server)
    if any(fail_on.counts(finding.rule.severity) for finding in findings):
        raise typer.Exit(FOUND)


doctor.command("what-if")(asking(what_if))


def _refuse_options(context: typer.Context) -> None:
    """Options before ``what-if`` would have no effect."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(f"write --{name.replace('_', '-')} after {context.invoked_subcommand}")


def _choose(only: Iterable[str] | None, skipped: Iterable[str] | None) -> list[Rule]:
    wanted = [_named(name) for name in _words(only)] or list(RULES.values())
    left_out = [_named(name) for name in _words(skipped)]
    return [rule for rule in RULES.values() if rule in wanted and rule not in left_out]


def _words(texts: Iterable[str] | None) -> list[str]:
    return [word.strip() for text in texts or () for word in text.split(",") if word.strip()]


def _named(name: str) -> Rule:
    found = RULES.get(name)
    if found is None:
        raise OperatorError(f"there is no rule {name}", "esp doctor --rules lists them.")
    return found
