"""HTTP in, HTTP out. What may happen to a build is decided in ``tasks``, not here."""
