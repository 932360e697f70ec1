from dataclasses import replace

from esp.authentication.stand_ins import CredentialSurvey, survey
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
    assert credentials.survey() == CredentialSurvey()
    image = replace(image, scram_credentials={("bob", SHA_256): made("b"), ("alice", SHA_256): made("a")})
    assert credentials.find("alice", SHA_256) == made("a")
    assert credentials.find("alice", SHA_512) is None
    assert credentials.survey() == survey(image.scram_credentials)
    assert credentials.survey() is credentials.survey(), "it is not made for each log-in"
