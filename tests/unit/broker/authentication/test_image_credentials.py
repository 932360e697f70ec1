from dataclasses import replace

from esp.broker.authentication.image_credentials import ImageCredentials
from esp.controller.image import ClusterImage
from esp.model.scram import ScramMechanism
from esp.model.scram_keys import make_credential

SHA_256, SHA_512 = ScramMechanism


def made(password):
    return make_credential(SHA_256, password, b"salt", 4096)


def test_credentials_are_those_of_the_newest_image():
    image = ClusterImage()
    credentials = ImageCredentials(lambda: image)
    assert credentials.find("alice", SHA_256) is None
    assert credentials.specimen(SHA_256) is None
    image = replace(image, scram_credentials={("bob", SHA_256): made("b"), ("alice", SHA_256): made("a")})
    assert credentials.find("alice", SHA_256) == made("a")
    assert credentials.find("alice", SHA_512) is None
    assert credentials.specimen(SHA_256) == made("a")
    assert credentials.specimen(SHA_512) is None


def test_specimen_is_the_same_whatever_the_order_of_the_records():
    ones, others = {("a", SHA_256): made("1"), ("b", SHA_256): made("2")}, {}
    for key in reversed(ones):
        others[key] = ones[key]
    specimens = {
        ImageCredentials(lambda: ClusterImage(scram_credentials=credentials)).specimen(SHA_256)  # noqa: B023 - called at once
        for credentials in (ones, others)
    }
    assert specimens == {made("1")}
