"""``esp certs`` on a directory of its own."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from esp.cli.app import run_tools
from tests.models.certificates import Authority


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs the command in a directory of the test's; returns the status and what was printed."""
    monkeypatch.chdir(tmp_path)

    def run_(*arguments):
        status = run_tools(("certs", *arguments))
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    return run_


def certificate(tmp_path, name):
    return x509.load_pem_x509_certificate((tmp_path / "esp-certs" / f"{name}.pem").read_bytes())


def listed(run):
    status, out = run("list", "--json")
    assert status == 0
    return {row["name"]: row for row in json.loads(out)}


def test_an_authority_issues_and_lists(run, tmp_path):
    assert run("create", "--name", "Orders")[0] == 0
    status, out = run("issue", "broker1", "--host", "broker1.example", "--host", "10.0.0.1")
    assert (status, "principal User:CN=broker1" in out) == (0, True)
    assert run("issue", "carol", "--common-name", "Carol C.", "--days", "10")[0] == 0
    rows = listed(run)
    assert list(rows) == ["ca", "broker1", "carol"]
    assert rows["ca"]["subject"] == "CN=Orders"
    assert rows["broker1"]["hosts"] == ["broker1.example", "10.0.0.1"]
    assert (rows["carol"]["subject"], rows["carol"]["daysLeft"]) == ("CN=Carol C.", 9)
    assert "broker1.example,10.0.0.1" in run("list")[1]
    secret = {path.name: oct(path.stat().st_mode & 0o777) for path in (tmp_path / "esp-certs").iterdir()}
    assert secret == {"ca.pem": "0o644", "ca-key.pem": "0o600", "broker1.pem": "0o600", "carol.pem": "0o600"}
    assert oct((tmp_path / "esp-certs").stat().st_mode & 0o777) == "0o700"


def test_what_ends_soon_is_renewed_for_the_same_name_and_hosts(run, tmp_path):
    run("create")
    run("issue", "soon", "--host", "h", "--days", "20")
    run("issue", "later", "--days", "40")
    before = {name: certificate(tmp_path, name) for name in ("soon", "later")}
    status, out = run("renew")
    assert status == 0
    assert ("soon.pem" in out, "later.pem" in out) == (True, False)
    after = certificate(tmp_path, "soon")
    assert after.subject == before["soon"].subject
    assert listed(run)["soon"]["hosts"] == ["h"]
    assert after.public_key() != before["soon"].public_key()
    assert after.not_valid_after_utc > datetime.now(UTC) + timedelta(days=300)
    assert certificate(tmp_path, "later") == before["later"]
    assert run("renew")[1] == "no certificate ends within 30 days\n"
    assert "ca.pem" in run("renew", "ca", "later", "--days", "99")[1]
    after.verify_directly_issued_by(certificate(tmp_path, "ca"))


def test_a_renewed_authority_leaves_what_else_is_trusted(run, tmp_path):
    """A second authority, while nodes move from one to the other, and revocation lists."""
    run("create")
    trusted = tmp_path / "esp-certs" / "ca.pem"
    mine = Authority("CN=Mine")
    other, lists = Authority("CN=Other").pem, mine.revoke(mine.issue("CN=mallory")).revocations_pem()
    trusted.write_text(other + trusted.read_text() + lists)
    (before, old), crl = x509.load_pem_x509_certificates(trusted.read_bytes()), x509.load_pem_x509_crl(lists.encode())
    assert run("renew", "ca")[0] == 0
    after, renewed = x509.load_pem_x509_certificates(trusted.read_bytes())
    assert after == before
    assert (renewed != old, renewed.public_key() == old.public_key()) == (True, True)
    assert x509.load_pem_x509_crl(trusted.read_bytes()[-len(lists) :]) == crl
    assert run("issue", "carol")[0] == 0
    certificate(tmp_path, "carol").verify_directly_issued_by(renewed)


def test_the_key_of_another_authority_is_named(run, tmp_path):
    run("create")
    Authority().write_pem(tmp_path / "esp-certs" / "ca.pem")
    status, out = run("renew", "ca")
    assert status == 1
    assert "are no authority of this command: its certificate is of another key" in out
    assert "Put the certificate and the key of one authority there" in out


def test_nothing_is_written_over_unless_that_is_asked_for(run, tmp_path):
    run("create")
    key = (tmp_path / "esp-certs" / "ca-key.pem").read_bytes()
    assert "There is an authority" in run("create")[1]
    assert (tmp_path / "esp-certs" / "ca-key.pem").read_bytes() == key
    run("issue", "carol")
    present = certificate(tmp_path, "carol")
    status, out = run("issue", "carol")
    assert (status, "is there already" in out) == (1, True)
    assert certificate(tmp_path, "carol") == present
    assert run("issue", "carol", "--replace")[0] == 0
    assert certificate(tmp_path, "carol") != present


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("issue", "../x"), "cannot be the name of a file here"),
        (("issue", "ca"), "neither ca nor ca-key"),
        (("issue", "a", "--common-name", "x" * 65), "1 to 64 characters"),
        (("issue", "a", "--host", "höst"), "hosts in ASCII"),
        (("renew", "nobody"), "cannot be read"),
        (("list", "--dir", "elsewhere"), "There is no authority in elsewhere"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_remedy(run, arguments, words):
    run("create")
    status, out = run(*arguments)
    assert (status, words in out) == (1, True)


def test_a_strange_file_in_the_directory_is_named(run, tmp_path):
    run("create")
    (tmp_path / "esp-certs" / "strange.pem").write_text("nothing")
    status, out = run("list")
    assert (status, "strange.pem is no store of this command" in out) == (1, True)


def test_a_directory_that_cannot_be_made_is_named(run, tmp_path):
    (tmp_path / "file").write_text("")
    status, out = run("create", "--dir", "file/certs")
    assert (status, "cannot be written" in out) == (1, True)
