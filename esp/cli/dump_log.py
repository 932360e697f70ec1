"""``esp dump-log``: what stands in the files of a log, and whether they hold together; the words of ``kafka-dump-log``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from esp.cli.dumping.file_dump import Request, dump_file, find_files
from esp.cli.dumping.findings import Finding
from esp.cli.dumping.record_payloads import Decoder
from esp.cli.dumping.segment_dump import Depth
from esp.cli.options import Json
from esp.cli.output import errors, print_content
from esp.model.errors import OperatorError
from esp.storage.layout import INDEX_SUFFIX

WRONG = 1
"""Exit status when a file is not as it should be; Kafka's tool always ends with 0."""

_Transactions = Annotated[
    bool, typer.Option("--transaction-log-decoder", help="Decode the records as those of __transaction_state.")
]
_ShareStates = Annotated[
    bool, typer.Option("--share-group-state-decoder", help="Decode the records as those of __share_group_state.")
]


def dump_log(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE|DIRECTORY]...", help="Files or log directories to read.")
    ] = None,
    files: Annotated[str, typer.Option(metavar="FILE,FILE", help="The same, separated by commas.")] = "",
    print_data_log: Annotated[
        bool, typer.Option("--print-data-log", help="Print keys and values of the records.")
    ] = False,
    deep_iteration: Annotated[bool, typer.Option("--deep-iteration", help="Print records, not only batches.")] = False,
    cluster_metadata_decoder: Annotated[
        bool, typer.Option("--cluster-metadata-decoder", help="Decode the records as those of __cluster_metadata.")
    ] = False,
    offsets_decoder: Annotated[
        bool, typer.Option("--offsets-decoder", help="Decode the records as those of __consumer_offsets.")
    ] = False,
    transaction_log_decoder: _Transactions = False,
    share_group_state_decoder: _ShareStates = False,
    skip_record_metadata: Annotated[
        bool, typer.Option("--skip-record-metadata", help="Print keys and values of records, and nothing else.")
    ] = False,
    max_bytes: Annotated[int, typer.Option(min=0, help="Bytes of each segment to read.")] = 2**31 - 1,
    index_sanity_check: Annotated[
        bool,
        typer.Option("--index-sanity-check", help="Check indexes alone, without their segments, and print no entries."),
    ] = False,
    verify_index_only: Annotated[
        bool, typer.Option("--verify-index-only", help="Check indexes against their segments, and print no entries.")
    ] = False,
    json: Json = False,
) -> None:
    """Print the content of log files, and report their errors.

    It reads segments (.log), their indexes (.index, .timeindex, .txnindex), producer snapshots (.snapshot) and metadata snapshots
    (.checkpoint), of this software or of Apache Kafka. Indexes are checked against the segments beside them. Files of a running node may be
    in the middle of a change. The exit status is 1 if anything is wrong.

    [bold]Examples[/bold]

    esp dump-log esp-data/orders-0

    esp dump-log --print-data-log --files esp-data/orders-0/00000000000000000000.log

    esp dump-log --cluster-metadata-decoder esp-data/__cluster_metadata-0
    """
    decoders = {
        Decoder.METADATA: cluster_metadata_decoder,
        Decoder.OFFSETS: offsets_decoder,
        Decoder.TRANSACTIONS: transaction_log_decoder,
        Decoder.SHARE_STATES: share_group_state_decoder,
    }
    chosen = [decoder for decoder, is_chosen in decoders.items() if is_chosen]
    if len(chosen) > 1:
        raise typer.BadParameter("the records are of one kind: choose one decoder", param_hint="--offsets-decoder")
    found = find_files([*(paths or ()), *(Path(part.strip()) for part in files.split(",") if part.strip())])
    if not found:
        raise OperatorError("no file to read is given", "Name files or directories of a log, or use --files.")
    decoder = chosen[0] if chosen else Decoder.TEXT
    payloads = print_data_log or skip_record_metadata or decoder is not Decoder.TEXT
    depth = Depth(
        records=deep_iteration or payloads, payloads=payloads, payloads_only=skip_record_metadata, decoder=decoder
    )
    request = Request(depth, max_bytes, with_segment=not index_sanity_check)
    is_silent = index_sanity_check or verify_index_only
    complaints = sum(_print_file(path, dump_file(path, request), json=json, is_silent=is_silent) for path in found)
    if complaints:
        errors.print(f"{complaints} complaint{'s' * (complaints > 1)} in {len(found)} files", style="red", markup=False)
        raise typer.Exit(WRONG)


def _print_file(path: Path, findings: Iterator[Finding], *, json: bool, is_silent: bool) -> int:
    """Print what a file holds, and return how many things are wrong with it."""
    complaints = printed = 0
    if not json:
        print_content(f"Dumping {path}")
    for finding in findings:
        printed += 1
        if not is_silent:
            if json:
                told = {"file": str(path), **finding.values} | (
                    {"complaint": finding.complaint} if finding.complaint else {}
                )
                print_content(msgspec.json.encode(told).decode())
            else:
                print_content(finding.text)
        if finding.complaint is not None:
            complaints += 1
            errors.print(f"{path}: {finding.complaint}", style="red", markup=False, soft_wrap=True)
    if (
        not json and not is_silent and not printed and path.suffix == INDEX_SUFFIX
    ):  # of other files Kafka's tool says nothing
        print_content(f"{path} is empty.")
    if not json and is_silent and not complaints:
        print_content(f"{path} passed the check.")
    return complaints
