"""ESP: an event-streaming platform that speaks Apache Kafka's protocol and keeps its file formats."""

from esp._kio_import import import_kio

import_kio()  # here, because every module of ours comes after this, and before its own imports
