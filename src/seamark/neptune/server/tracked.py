"""To come."""

from seamark.neptune.server.answers import Routes

router = Routes()
