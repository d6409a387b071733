"""What the server answers: each module here has a ``router``, mounted below ``/api/v1``."""
