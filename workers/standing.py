"""What a node says of itself now: all that it found at its start, less what has failed since."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from tasks.messages import BackendDescription, NodeDescription
from workers.gpu.serving import without


class Standing:
    """Tells the farm anew whenever something fails, or is well again."""

    def __init__(self, whole: NodeDescription, tell: Callable[[NodeDescription], None]) -> None:
        """``whole`` is the node with all that it found; ``tell`` says what it is now."""
        self._whole = whole
        self._tell = tell
        self._faults: Mapping[str, str] = {}
        self._gone: set[tuple[str, str]] = set()
        self._one = threading.RLock()
        """What is told last must be what is so: devices and plugins are heard by other threads."""

    def devices_out(self, faults: Mapping[str, str]) -> None:
        """Take devices out, by UUID with the reason; those that are not named are well."""
        with self._one:
            self._faults = dict(faults)
            self._tell(self.now)

    def plugin_gone(self, backend: str, digest: str) -> None:
        """Announce a library no more, until the node is started again."""
        with self._one:
            self._gone.add((backend, digest))
            self._tell(self.now)

    @property
    def now(self) -> NodeDescription:
        """What the node is now."""
        node = without(self._whole, self._faults)
        return node.model_copy(update={"backends": [self._left(row) for row in node.backends]})

    def _left(self, backend: BackendDescription) -> BackendDescription:
        plugins = [row for row in backend.plugins if (backend.name, row.digest) not in self._gone]
        return backend.model_copy(update={"plugins": plugins})
