"""A schema registry with the REST interface of Confluent's, which Apicurio, Karapace and others have too: schemas by id, and the newest.

A registry that is away, or does not know an id yet, is asked again for some time: a restart of it, or its replication, costs no query.
"""

import base64
import http.client
import json
import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

_TIMEOUT_S: Final = 10.0
_PAUSE_S: Final = 0.5
WAIT_S: Final = 30.0
_OK: Final = 200
_NOT_FOUND: Final = 404
_DENIED: Final = (401, 403)
_SHOWN_CHARACTERS: Final = 200


class RegistryError(Exception):
    """A schema is not to be had; one line, which names the registry and says what to do."""


class _AwayError(Exception):
    """The registry did not answer; the text is the reason."""


class Registry:
    """Asks a registry.

    Args:
        url: ``http://host:port``, ``https``, with a path or without; ``user:password@`` before the host is the log-in.
        wait_s: the time for which a registry that is away, or lacks a schema, is asked.
        pause_s: the time between two questions.
    """

    def __init__(self, url: str, wait_s: float = WAIT_S, pause_s: float = _PAUSE_S) -> None:
        self._parts = urlsplit(url)
        self._wait_s = wait_s
        self._pause_s = pause_s
        self._name = f"{self._parts.scheme}://{self._parts.netloc.rpartition('@')[2]}{self._parts.path}"
        self._schemas: dict[int, str] = {}

    def find_schema(self, schema_id: int) -> str:
        """Return the schema of an id, in Avro's JSON; an id is asked for once.

        Raises:
            RegistryError: there is none, or the registry does not answer.
        """
        if schema_id not in self._schemas:
            what = f"schema {schema_id}"
            remedy = "check that the values were written by this registry's ids"
            self._schemas[schema_id] = self._read_avro(self._ask(f"/schemas/ids/{schema_id}", what, remedy), what)
        return self._schemas[schema_id]

    def find_newest(self, subject: str) -> str:
        """Return the newest schema of a subject.

        Raises:
            RegistryError: as :meth:`find_schema`.
        """
        what = f"subject {subject}"
        remedy = "register a schema, name another subject by schemaSubject, or write a schema in valueSchema"
        return self._read_avro(self._ask(f"/subjects/{quote(subject, safe='')}/versions/latest", what, remedy), what)

    def _ask(self, path: str, what: str, remedy: str) -> dict[str, Any]:
        deadline = time.monotonic() + self._wait_s
        while True:
            try:
                status, answer = self._get(path)
                if status == _OK:
                    return answer
                if status in _DENIED:
                    raise RegistryError(
                        f"the schema registry {self._name} denies {what} ({status}): write https://user:password@host in schemaRegistry"
                    )
                problem = (
                    f"has no {what}: {remedy}"
                    if status == _NOT_FOUND
                    else f"answers {status} for {what}: look at its log"
                )
            except _AwayError as error:
                problem = f"does not answer ({error}): start it, or correct schemaRegistry"
            if time.monotonic() >= deadline:
                raise RegistryError(f"the schema registry {self._name} {problem} (asked for {self._wait_s:g} s)")
            time.sleep(self._pause_s)

    def _get(self, path: str) -> tuple[int, dict[str, Any]]:
        """One question.

        Raises:
            _AwayError: there is no answer, or one that is no JSON.
        """
        kind: Callable[..., http.client.HTTPConnection]
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._parts.hostname or "", self._parts.port, timeout=_TIMEOUT_S)
        try:
            connection.request("GET", self._parts.path.rstrip("/") + path, headers=self._headers())
            answer = connection.getresponse()
            body = answer.read()
            found = json.loads(body) if answer.status == _OK else {}
        except (OSError, http.client.HTTPException) as error:
            raise _AwayError(str(error) or type(error).__name__) from error
        except ValueError as error:
            raise _AwayError(f"no JSON: {body[:_SHOWN_CHARACTERS]!r}") from error
        finally:
            connection.close()
        return answer.status, found

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if self._parts.username is not None:
            pair = f"{unquote(self._parts.username)}:{unquote(self._parts.password or '')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return headers

    def _read_avro(self, answer: dict[str, Any], what: str) -> str:
        kind = answer.get("schemaType", "AVRO")
        text = answer.get("schema")
        if kind != "AVRO" or not isinstance(text, str):
            raise RegistryError(
                f"{what} of the schema registry {self._name} is of type {kind}: valueFormat=avro reads AVRO only"
            )
        if answer.get("references"):
            raise RegistryError(
                f"{what} of the schema registry {self._name} refers to other schemas: register it with all its types inside"
            )
        return text


_known: dict[str, Registry] = {}


def registry_of(url: str) -> Registry:
    """Return this process's registry of a URL, which knows the schemas that other tasks have asked for."""
    return _known.setdefault(url, Registry(url))
