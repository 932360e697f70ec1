"""The names of certificates' subjects, and principals by mapping rules, against Java's and Kafka's own code."""

import subprocess
from pathlib import Path
from random import Random

import pytest
from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID, ObjectIdentifier

from esp.model.distinguished_name import write_name
from esp.model.principal_mapping import PrincipalMapping
from esp.testing.kafka_tools import KafkaTools
from esp.testing.pytest_plugin import skip_or_fail

pytestmark = pytest.mark.kafka

PROGRAM = Path(__file__).with_name("JavaNames.java")
KINDS = [
    *(NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.EMAIL_ADDRESS),
    *(NameOID.DOMAIN_COMPONENT, NameOID.USER_ID, NameOID.STREET_ADDRESS, NameOID.SERIAL_NUMBER, NameOID.SURNAME),
    *(NameOID.LOCALITY_NAME, NameOID.STATE_OR_PROVINCE_NAME, NameOID.TITLE),
    *(ObjectIdentifier("1.2.3.4.5"), ObjectIdentifier("2.999.1")),
]
CHARACTERS = " ab,=+<>#;\"\\\0\ré\u4e2d😀\n'()/"
TEXTS = [
    _ASN1Type.UTF8String,
    _ASN1Type.UTF8String,
    _ASN1Type.PrintableString,
    _ASN1Type.IA5String,
    _ASN1Type.BMPString,
]
RULES = [
    *("DEFAULT", "", "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "RULE:^CN=(.*?),.*$/$1/L,DEFAULT"),
    *("RULE:^CN=(.*?),OU=(.*?),O=(.*?)$/$1@$2/U", "RULE:.*/x/", "RULE:(.*)/<$1>/", "RULE:^CN=(\\w+).*$/$1$2/"),
    *("RULE:^CN=a.*$/first/ , RULE:^.*$/$0/L", "RULE:^(C)(N)=.*$/$21/", "deny", "RULE:a", "RULE:a/b/X", "DEFAULT/L"),
    *("RULE:^CN=(.*?)$/$1/LU", "RULE:a\\/b/c/", "RULE:^(.*),O=.*$/\\$$1/,DEFAULT", "DEFAULT,RULE:^x$/y/"),
]
NAMES = [
    "CN=Duke,OU=ServiceUsers,O=Org",
    "CN=duke,OU=SME,O=mycp",
    "CN=alice",
    "",
    "a/b",
    "CN=größe,O=x",
    "OU=x\\,y,O=z",
]


def ask_java(tools: KafkaTools, questions: list[str]) -> list[str | None]:
    """Return Java's answers; None where it refuses."""
    command = ["java", "-cp", f"{tools.library_dir}/*", str(PROGRAM)]
    done = subprocess.run(command, input="\n".join(questions) + "\n", capture_output=True, text=True, timeout=120)
    if done.returncode != 0 and "jdk.compiler" in done.stderr:
        skip_or_fail("a JDK is needed to compile JavaNames.java")
    assert done.returncode == 0, done.stderr
    return [None if line[0] == "!" else bytes.fromhex(line[2:]).decode() for line in done.stdout.splitlines()]


def random_name(rng: Random) -> bytes:
    relative = []
    for _ in range(rng.randint(0, 4)):
        attributes = []
        for kind in rng.sample(KINDS, rng.choice([1, 1, 1, 2, 3])):
            text, form = "".join(rng.choices(CHARACTERS, k=rng.randint(1, 8))), rng.choice(TEXTS)
            if form in (_ASN1Type.PrintableString, _ASN1Type.IA5String):
                text = text.encode("ascii", "replace").decode()
            attributes.append(x509.NameAttribute(kind, text, _type=form, _validate=False))
        relative.append(x509.RelativeDistinguishedName(attributes))
    return x509.Name(relative).public_bytes()


def test_names_are_written_as_java_writes_them(kafka_tools: KafkaTools) -> None:
    rng = Random(5)
    names = [random_name(rng) for _ in range(3_000)]
    theirs = ask_java(kafka_tools, [f"name {name.hex()}" for name in names])
    assert theirs == [write_name(name) for name in names]


def principal(rules: str, name: str) -> str | None:
    try:
        return PrincipalMapping(rules).name_of(name)
    except ValueError:
        return None


def test_rules_name_the_principals_that_kafka_names_and_are_refused_where_kafka_refuses_them(
    kafka_tools: KafkaTools,
) -> None:
    asked = [(rules, name) for rules in RULES for name in NAMES]
    theirs = ask_java(kafka_tools, [f"map {rules.encode().hex()} {name.encode().hex()}" for rules, name in asked])
    ours = [principal(rules, name) for rules, name in asked]
    assert dict(zip(asked, ours, strict=True)) == dict(zip(asked, theirs, strict=True))
