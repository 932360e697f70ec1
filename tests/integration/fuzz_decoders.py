"""Coverage-guided fuzzing of what reads bytes of strangers: requests of all served APIs, and record batches with all codecs.

    pip install atheris
    python -m tests.integration.fuzz_decoders CORPUS_DIRECTORY [-max_total_time=600]

Options are libFuzzer's. The corpus begins with one valid message of each API and version, and a batch of each codec; what covers more is
added to it. Whatever is not refused by the error that is made for it, or takes more than ten seconds, is a find: its bytes are kept.

This is for those who change a decoder; tests/unit/protocol/test_hostile.py holds the same claim in every run of the tests.
"""

import struct
import sys
from contextlib import suppress
from pathlib import Path

import atheris
from kio.index import load_request_schema

with atheris.instrument_imports(include=["esp.protocol", "esp.records"]):
    from esp.model.errors import CorruptionError
    from esp.protocol.errors import DecodeError
    from esp.protocol.fetch_codec import decode_fetch
    from esp.protocol.headers import read_request_header
    from esp.protocol.messages import decode_request
    from esp.protocol.produce_codec import decode_produce
    from esp.protocol.registry import SERVED_ON, ApiKey, ListenerKind
    from esp.records.batch import iterate_records, read_whole_header
    from esp.records.builder import NewRecord, build_batch

from tests.integration.wire import frame
from tests.unit.protocol.hostile import example

SERVED = {**SERVED_ON[ListenerKind.CONTROLLER], **SERVED_ON[ListenerKind.BROKER]}
BATCH = b"\xff\xff"
"""What an input begins with that is a batch; a request begins with its API's key, which is never that."""

DECOMPRESSED_MAX = 1 << 20


def read(data: bytes) -> None:
    """Read one input as a node would."""
    if data.startswith(BATCH):
        with suppress(CorruptionError):
            batch = data[len(BATCH) :]
            read_whole_header(batch)
            for _ in iterate_records(batch, DECOMPRESSED_MAX):
                pass
        return
    with suppress(DecodeError):
        view = memoryview(data)
        api_key, version, _, _, body = read_request_header(view, SERVED)
        if not SERVED[api_key].serves(
            version
        ):  # an ApiVersions request of the future, which is answered without being read
            return
        if api_key == ApiKey.PRODUCE:
            decode_produce(view[body:], version)
        elif api_key == ApiKey.FETCH:
            decode_fetch(view[body:], version)
        else:
            decode_request(api_key, version, view[body:])


def plant(corpus: Path) -> None:
    """Make sure that the corpus has one of everything that is valid."""
    corpus.mkdir(parents=True, exist_ok=True)
    for key, api in SERVED.items():
        for version in range(api.min_version, api.max_version + 1):
            request = frame(example(load_request_schema(key, version)), 1)[struct.calcsize(">i") :]
            (corpus / f"request-{key}-{version}").write_bytes(request)
    records = [NewRecord(b"v" * 50, key=b"k"), NewRecord(None, headers=(("h", b"x"),))]
    for codec in range(5):
        batch = build_batch(records, base_offset=0, leader_epoch=0, timestamp_ms=10, codec=codec)
        (corpus / f"batch-{codec}").write_bytes(BATCH + batch)
    for path in corpus.iterdir():
        read(path.read_bytes())  # codecs are made when they are first needed, which is not what is timed


def main() -> None:
    """Run until a find, or as long as the options say."""
    corpus = next((argument for argument in sys.argv[1:] if not argument.startswith("-")), None)
    if corpus is None:
        sys.exit(__doc__)
    plant(Path(corpus))
    atheris.Setup([*sys.argv, "-timeout=10"], read)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
